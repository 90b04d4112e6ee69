"""A Ray cluster over the nodes of a job, which starts and ends with the job.

On one node, the driver starts the cluster. On several, every node runs the same command:

    srun --nodes=2 --ntasks=2 --ntasks-per-node=1 rspo train CELL

The first node (rank 0) trains. It writes the cluster's address to a file beside the cell's
checkpoint. The other nodes wait for this file, join with their GPUs, and leave when the address no
longer answers. Ray chooses free ports. Clients of the cluster need a token.

`ray symmetric-run` of Ray 2.60 cannot replace this. It refuses to start beside another cell on the
same node, and its `ray stop` ends every Ray process of the user there. It passes the same options
and one fixed port to all nodes, and exits with status 0 on a node where Ray failed to start.
"""

import json
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from rspo.core.errors import InputError, LostProcess
from rspo.core.files import atomic_write, fingerprint
from rspo.core.supervisor import clean_up, supervised

if TYPE_CHECKING:
    from omegaconf import DictConfig

# From the start of the first node to the last; imports from a slow disk take minutes.
SECONDS_TO_JOIN = 600.0
SECONDS_WITHOUT_HEAD = 10.0
# Slots are not cores. verl has three actors per rank and one per storage unit. They mostly wait,
# but without enough slots verl blocks forever.
_MIN_SLOTS = 64
_RAY_PROCESSES = ("gcs_server", "raylet")
_SRUN = "srun --nodes={0} --ntasks={0} --ntasks-per-node=1 rspo train CELL"


@dataclass(frozen=True)
class JobStep:
    """The job step of this process, with one process per node.

    rank: of this process.  hosts: names of the nodes, in the order of their ranks.
    attempt: identifies this start of the job.
    """

    rank: int = 0
    hosts: tuple[str, ...] = ("",)
    attempt: str = ""


def current_job_step(nodes: int, environment: Mapping[str, str]) -> JobStep:
    """The job step of this process, from SLURM's environment variables.

    Args:
        nodes: `verl.nodes` of the config.

    Raises: InputError if the job step has other nodes, or not one process on each.
    """
    actual = int(environment.get("SLURM_STEP_NUM_NODES", 1))
    tasks = int(environment.get("SLURM_STEP_NUM_TASKS", 1))
    if actual != nodes or (nodes > 1 and tasks != nodes):
        raise InputError(
            f"verl.nodes = {nodes}, but this runs as {tasks} process(es) on {actual} node(s); "
            f"allowed: verl.nodes={actual}, or one process on each of {nodes} node(s) of a "
            f"SLURM allocation, such as `{_SRUN.format(nodes)}`"
        )
    if nodes == 1:
        return JobStep()
    # A requeued job keeps its id, and SLURM counts restarts. Under Snakemake this count is missing;
    # there RSPO_TRY has the start time of the job's shell.
    names = ("SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT", "RSPO_TRY")
    return JobStep(
        int(environment["SLURM_PROCID"]),
        tuple(_hosts(environment["SLURM_STEP_NODELIST"])),
        ".".join(environment.get(name, "0") for name in names),
    )


def _hosts(nodes: str) -> list[str]:
    """`gpu[1-2]` -> `gpu1`, `gpu2`."""
    command = ["scontrol", "show", "hostnames", nodes]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


def key_of(cell: Path, rank: int) -> str:
    """Name of the environment variable that marks the processes of a cell started by one rank."""
    return f"RSPO_TRAINING_{fingerprint(str(cell.absolute()))}_{rank}"


def folder_of(cell: Path, rank: int) -> Path:
    """Ray's folder on this host: short, because socket paths have at most 107 characters."""
    key = fingerprint([str(cell.absolute()), rank])[:8]
    return Path(f"/tmp/rspo-{os.getuid()}-{key}")


def environment(token: str, folder: Path) -> dict[str, str]:
    """The variables of Ray and its processes."""
    limit = "RAY_raylet_start_wait_time_s"
    return {
        "TMPDIR": str(folder / "tmp"),  # removed with the folder: verl leaves files there
        **{"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token, "RAY_USAGE_STATS_ENABLED": "0"},
        # By default, Ray starts one process per slot in advance.
        **{"RAY_prestart_worker_first_driver": "0", "RAY_enable_worker_prestart": "0"},
        limit: os.environ.get(limit, "300"),  # the default of 30 is too short on a busy host
    }


def _set_environment(token: str, folder: Path) -> None:
    """Set the variables of Ray and its processes; call this before importing Ray."""
    os.environ.update(environment(token, folder))
    tempfile.tempdir = os.environ["TMPDIR"]
    Path(tempfile.tempdir).mkdir(parents=True, exist_ok=True)
    os.environ.pop("RAY_ADDRESS", None)  # of another cluster


def slots(settings: Mapping[str, Any]) -> int:
    """Number of CPUs that Ray assumes on this node, given the settings for `ray.init`.

    By default Ray counts all CPUs of the host, of which the job may have only a few.
    """
    return settings.get("num_cpus") or max(_MIN_SLOTS, len(os.sched_getaffinity(0)))


@contextmanager
def head(config: "DictConfig", folder: Path, job_step: JobStep) -> Iterator[None]:
    """Start a cluster with this process as its driver, and wait until all nodes have joined.

    Depends on verl/trainer/main_ppo.py, whose `run_ppo` starts Ray in the same way, and on
    verl/trainer/constants_ppo.py.

    Raises: LostProcess with the names of nodes that did not join in time.
    """
    token = secrets.token_hex(32)
    _set_environment(token, folder)

    import ray
    from omegaconf import OmegaConf
    from verl.trainer.constants_ppo import get_ppo_ray_runtime_env

    settings: Any = OmegaConf.to_container(config.ray_kwargs.ray_init, resolve=True)
    environment = OmegaConf.merge(
        get_ppo_ray_runtime_env(config), settings.pop("runtime_env", None) or {}
    )
    own = {"_temp_dir": str(folder), "_node_name": job_step.hosts[0], "num_cpus": slots(settings)}
    ray.init(**(settings | own), runtime_env=OmegaConf.to_container(environment))
    address_file = _address_file(Path(config.trainer.default_local_dir), job_step)
    for stale in address_file.parent.glob("cluster-*.json"):  # of earlier attempts
        stale.unlink()
    try:
        if len(job_step.hosts) > 1:
            address = ray.get_runtime_context().gcs_address
            _publish(address_file, {"address": address, "token": token, "resources": settings})
            _wait_for(job_step.hosts, lambda: [node["NodeName"] for node in ray.nodes()])
        yield
    finally:
        address_file.unlink(missing_ok=True)


def dismiss(checkpoint: Path, job_step: JobStep) -> None:
    """Tell the other nodes to stop waiting, because there will be no cluster."""
    if len(job_step.hosts) > 1:
        _publish(_address_file(checkpoint, job_step), {"address": None})


def _address_file(checkpoint: Path, job_step: JobStep) -> Path:
    """The file of this attempt; files of earlier attempts may still exist."""
    return checkpoint / f"cluster-{job_step.attempt}.json"


def _publish(file: Path, content: dict[str, Any]) -> None:
    """Write a file that only this user can read: its token gives full access to Ray."""
    with atomic_write(file) as partial:
        partial.touch(mode=0o600)
        partial.write_text(json.dumps(content))


def _wait_for(
    hosts: Iterable[str], joined: Callable[[], list[str]], seconds: float = SECONDS_TO_JOIN
) -> None:
    """Raises: LostProcess with the names of the hosts that have not joined in time."""
    deadline = time.monotonic() + seconds
    while missing := sorted(set(hosts) - set(joined())):
        if time.monotonic() > deadline:
            raise LostProcess(
                f"node {', '.join(missing)} of the allocation has not joined Ray within "
                f"{seconds:g} seconds; see its output"
            )
        time.sleep(0.5)


def lost_process() -> str | None:
    """Message about a dead system process of Ray on this node; Ray itself waits for minutes.

    This does not call Ray, which may be starting or hanging. A dead child process stays a zombie,
    because Ray never reads its exit status.
    """
    for child in psutil.Process().children():
        with suppress(psutil.NoSuchProcess):
            if child.name() in _RAY_PROCESSES and child.status() == psutil.STATUS_ZOMBIE:
                return f"Ray's {child.name()} on the first node has died"
    return None


def lost_member() -> str | None:
    """Message about a dead node or actor of the cluster; blocks for a minute without Ray's head.

    Depends on ray/_private/state.py, because the public state API needs the dashboard.
    """
    import ray
    from ray._private import state
    from ray.core.generated import common_pb2

    died: Any = common_pb2.ActorDiedErrorContext  # type: ignore[attr-defined]  # created at import

    for node in ray.nodes():
        if not node["Alive"]:
            return f"the node {node['NodeName']} has left Ray"
    for actor in state.actors().values():
        if actor["State"] == "DEAD":
            cause, kind = actor["DeathCause"], actor["ActorClassName"].rsplit(".")[-1]
            process = f"process {actor['Pid']} ({kind}) on {actor['Address']['IPAddress']}"
            if cause.HasField("oom_context"):
                return f"{process} was killed by Ray: this node's memory was nearly full"
            if cause.actor_died_error_context.reason in (died.WORKER_DIED, died.NODE_DIED):
                return f"{process} has died"
    return None


def join(cell: Path, checkpoint: Path, job_step: JobStep, seconds: float = SECONDS_TO_JOIN) -> None:
    """Join the first node's cluster with this node until the cluster ends.

    Raises: LostProcess if there is no cluster in time, or if Ray on this node ends before it.
    """
    file, deadline = _address_file(checkpoint, job_step), time.monotonic() + seconds
    while not file.exists():
        if time.monotonic() > deadline:
            raise LostProcess(
                f"the first node of the allocation has not started Ray within {seconds:g} seconds; "
                f"see its output (this node waited for {file})"
            )
        time.sleep(0.5)
    cluster = json.loads(file.read_text())
    if cluster["address"] is None:
        return  # the first node reports the reason
    key, folder = key_of(cell, job_step.rank), folder_of(cell, job_step.rank)
    # The first node now has the cell's lock, so these processes do not belong to a running job.
    clean_up(key, folder)
    _set_environment(cluster["token"], folder)
    name = job_step.hosts[job_step.rank]
    log = checkpoint / f"ray-{name}.log"
    with (
        log.open("w") as output,
        supervised(_start_command(cluster, folder, name), key, folder, output) as process,
    ):
        answered = time.monotonic()
        while time.monotonic() - answered < SECONDS_WITHOUT_HEAD:
            if _answers(cluster["address"]):
                answered = time.monotonic()
                if process.poll() is not None:
                    raise LostProcess(f"Ray on node {name} exited before its head; see {log}")
            time.sleep(1)


def _start_command(cluster: Mapping[str, Any], folder: Path, name: str) -> list[str]:
    resources = cluster["resources"]
    options = {
        "address": cluster["address"],
        "node-name": name,
        "temp-dir": folder,
        "num-cpus": slots(resources),
        "num-gpus": resources.get("num_gpus"),
        "object-store-memory": resources.get("object_store_memory"),
        "min-worker-port": 0,  # any free port; by default all nodes use the same range
        "max-worker-port": 0,
    }
    return [
        *(sys.executable, "-m", "ray.scripts.scripts", "start", "--block"),
        *(f"--{option}={value}" for option, value in options.items() if value is not None),
    ]


def _answers(address: str) -> bool:
    host, port = address.rsplit(":", 1)
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except OSError:
        return False
    return True
