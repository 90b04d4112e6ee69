"""One Ray cluster over the nodes of a job, started by the job itself and gone with it.

On one node the driver starts it and is all of it. On several, every node runs the same command:

    srun --nodes=2 --ntasks=2 --ntasks-per-node=1 rspo train CELL

The first one (rank 0) trains. It leaves the cluster's address beside the cell's checkpoint, which
the others wait for; they join with their GPUs and leave when nobody answers at that address.
All ports are free ones of Ray's choice, and the cluster answers only who knows its token.
"""

import getpass
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

# Between the first and the last node of a job at work; imports from a slow disk take minutes.
SECONDS_TO_JOIN = 600.0
SECONDS_WITHOUT_HEAD = 10.0
_SECONDS_TO_START = "300"  # of Ray itself on one node; its own 30 are too few on a busy host
# Ray would start a process for each of its slots before anyone needs one.
_NO_PRESTART = {"RAY_prestart_worker_first_driver": "0", "RAY_enable_worker_prestart": "0"}
# Slots are not cores: verl's actors, three for each rank and as many as there are storage units
# besides, mostly wait, but they wait forever for one slot too few.
_LEAST_SLOTS = 64
_RAYS_OWN = ("gcs_server", "raylet")
_HOW = "srun --nodes={0} --ntasks={0} --ntasks-per-node=1 rspo train CELL"


@dataclass(frozen=True)
class Place:
    """Of this process among those of its job.

    hosts: names of the job's nodes, the first one's first.  step: names this try of the job.
    """

    rank: int = 0
    hosts: tuple[str, ...] = ("",)
    step: str = ""


def place_of(nodes: int, environment: Mapping[str, str]) -> Place:
    """Where a process stands, as SLURM tells it.

    Args:
        nodes: that the config asks for, `verl.nodes`.

    Raises: InputError if the job step has other nodes, or not one process on each.
    """
    found = int(environment.get("SLURM_STEP_NUM_NODES", 1))
    tasks = int(environment.get("SLURM_STEP_NUM_TASKS", 1))
    if found != nodes or (nodes > 1 and tasks != nodes):
        raise InputError(
            f"verl.nodes = {nodes}, but this runs as {tasks} process(es) on {found} node(s); "
            f"allowed: verl.nodes={found}, or one process on each of {nodes} node(s) of an "
            f"allocation of SLURM, such as `{_HOW.format(nodes)}`"
        )
    if nodes == 1:
        return Place()
    # A job that went back into the queue has the same number; the rule's shell, which does not
    # know the count, tells the time of its start instead.
    names = ("SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT", "RSPO_TRY")
    return Place(
        int(environment["SLURM_PROCID"]),
        tuple(_hosts(environment["SLURM_STEP_NODELIST"])),
        ".".join(environment.get(name, "0") for name in names),
    )


def _hosts(nodes: str) -> list[str]:
    """`gpu[1-2]` -> `gpu1`, `gpu2`."""
    command = ["scontrol", "show", "hostnames", nodes]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


def key_of(cell: Path, rank: int) -> str:
    """The environment variable of all processes of a cell's training that one rank started."""
    return f"RSPO_TRAINING_{fingerprint(str(cell.absolute()))}_{rank}"


def folder_of(cell: Path, rank: int) -> Path:
    """Ray's folder on this host: short, because paths of sockets have at most 107 characters."""
    key = fingerprint([str(cell.absolute()), rank])[:8]
    return Path(f"/tmp/rspo-{os.getuid()}-{key}")


def _set_environment(token: str, folder: Path) -> None:
    """What Ray and those that it starts read from it on every node, before Ray is imported.

    Temporary files go with Ray's folder: verl, for one, leaves a lock for every checkpoint. What
    PyTorch has compiled stays where it is looked for the next time.
    """
    usual, temporary = Path(tempfile.gettempdir()), folder / "tmp"
    compiled = usual / f"torchinductor_{getpass.getuser()}"
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(compiled))
    temporary.mkdir(parents=True, exist_ok=True)
    os.environ["TMPDIR"] = tempfile.tempdir = str(temporary)
    os.environ.update(_NO_PRESTART, RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=token)
    os.environ.pop("RAY_ADDRESS", None)  # of somebody else's cluster
    os.environ.setdefault("RAY_raylet_start_wait_time_s", _SECONDS_TO_START)


def slots(settings: Mapping[str, Any]) -> int:
    """How many CPUs Ray is to see on this node.

    Ray itself would count the host's, where SLURM may have given this job a few of them.

    Args:
        settings: of `ray.init`, in the config; they may say it.
    """
    return settings.get("num_cpus") or max(_LEAST_SLOTS, len(os.sched_getaffinity(0)))


# --- the first node -------------------------------------------------------------------------------


@contextmanager
def head(config: "DictConfig", folder: Path, place: Place) -> Iterator[None]:
    """A cluster with this process as its driver, once all its nodes are there; it ends with it.

    Depends on verl/trainer/main_ppo.py, whose `run_ppo` starts Ray in the same way, and on
    verl/trainer/constants_ppo.py.

    Raises: LostProcess that names the nodes which did not join in time.
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
    own = {"_temp_dir": str(folder), "_node_name": place.hosts[0], "num_cpus": slots(settings)}
    ray.init(**(settings | own), runtime_env=OmegaConf.to_container(environment))
    address_file = _address_file(Path(config.trainer.default_local_dir), place)
    for stale in address_file.parent.glob("cluster-*.json"):  # of earlier tries
        stale.unlink()
    try:
        if len(place.hosts) > 1:
            address = ray.get_runtime_context().gcs_address
            _publish(
                address_file,
                {"address": address, "token": token, "resources": settings},
            )
            _wait_for(place.hosts, lambda: [node["NodeName"] for node in ray.nodes()])
        yield
    finally:
        address_file.unlink(missing_ok=True)


def dismiss(checkpoint: Path, place: Place) -> None:
    """Tell nodes that still wait for the address of a cluster that there will be none."""
    if len(place.hosts) > 1:
        _publish(_address_file(checkpoint, place), {"address": None})


def _address_file(checkpoint: Path, place: Place) -> Path:
    """Of one try of one job: another's may lie there still."""
    return checkpoint / f"cluster-{place.step}.json"


def _publish(file: Path, content: dict[str, Any]) -> None:
    """For this user's processes only: the token gives all that Ray can do."""
    with atomic_write(file) as partial:
        partial.touch(mode=0o600)
        partial.write_text(json.dumps(content))


def _wait_for(
    hosts: Iterable[str], joined: Callable[[], list[str]], seconds: float = SECONDS_TO_JOIN
) -> None:
    """Raises: LostProcess that names the hosts which have not joined in time."""
    deadline = time.monotonic() + seconds
    while missing := sorted(set(hosts) - set(joined())):
        if time.monotonic() > deadline:
            raise LostProcess(
                f"node {', '.join(missing)} of the allocation has not joined Ray within "
                f"{seconds:g} seconds; its own output says why"
            )
        time.sleep(0.5)


def lost_process() -> str | None:
    """Which of Ray's own processes of the driver has died, in words; Ray itself waits for minutes.

    Without asking Ray, which may be about to start or hang. A child that has died stays in the
    list of processes until its parent asks for its status, which Ray never does with these.
    """
    for child in psutil.Process().children():
        with suppress(psutil.NoSuchProcess):
            if child.name() in _RAYS_OWN and child.status() == psutil.STATUS_ZOMBIE:
                return f"Ray's {child.name()} on the first node has died"
    return None


def lost_member() -> str | None:
    """Which node or actor of the cluster has died, in words; waits a minute without Ray's head.

    Depends on ray/_private/state.py, which needs no dashboard.
    """
    import ray
    from ray._private import state
    from ray.core.generated import common_pb2

    died: Any = common_pb2.ActorDiedErrorContext  # type: ignore[attr-defined]  # made at import

    for node in ray.nodes():
        if not node["Alive"]:
            return f"the node {node['NodeName']} has left Ray"
    for actor in state.actors().values():
        if actor["State"] == "DEAD":
            reason = actor["DeathCause"].actor_died_error_context.reason
            if reason in (died.WORKER_DIED, died.NODE_DIED):
                where, kind = actor["Address"]["IPAddress"], actor["ActorClassName"]
                return f"process {actor['Pid']} ({kind.rsplit('.')[-1]}) on {where} has died"
    return None


# --- the other nodes ------------------------------------------------------------------------------


def join(cell: Path, checkpoint: Path, place: Place, seconds: float = SECONDS_TO_JOIN) -> None:
    """Give this node to the first one's cluster until that is gone.

    Args:
        cell: the cell's folder.
        checkpoint: where the first node leaves the cluster's address.
        seconds: to wait for it.

    Raises: LostProcess if there is no cluster in time, or if Ray's node here ends before it.
    """
    found = _wait_for_address(_address_file(checkpoint, place), seconds)
    if found["address"] is None:
        return  # the first node's own output says why
    key, folder = key_of(cell, place.rank), folder_of(cell, place.rank)
    # Not sooner: without the first node's lock on the cell they may be another job's, at work.
    clean_up(key, folder)
    _set_environment(found["token"], folder)
    log = checkpoint / f"ray-{place.hosts[place.rank]}.log"
    name = place.hosts[place.rank]
    with (
        log.open("w") as output,
        supervised(_start_command(found, folder, name), key, folder, output) as process,
    ):
        answered = time.monotonic()
        while time.monotonic() - answered < SECONDS_WITHOUT_HEAD:
            if _answers(found["address"]):
                answered = time.monotonic()
                if process.poll() is not None:
                    raise LostProcess(f"Ray on node {name} has ended before its head; see {log}")
            time.sleep(1)


def _wait_for_address(file: Path, seconds: float) -> dict[str, Any]:
    """What the first node of this very job step has published.

    Raises: LostProcess if it has not in time.
    """
    deadline = time.monotonic() + seconds
    while not file.exists():
        if time.monotonic() > deadline:
            raise LostProcess(
                f"the first node of the allocation has not started Ray within {seconds:g} seconds; "
                f"its own output says why ({file} is what this node waited for)"
            )
        time.sleep(0.5)
    found: dict[str, Any] = json.loads(file.read_text())
    return found


def _start_command(found: Mapping[str, Any], folder: Path, name: str) -> list[str]:
    resources = found["resources"]
    options = {
        "address": found["address"],
        "node-name": name,
        "temp-dir": folder,
        "num-cpus": slots(resources),
        "num-gpus": resources.get("num_gpus"),
        "object-store-memory": resources.get("object_store_memory"),
        "min-worker-port": 0,  # any free ones, where Ray would count up from the same for all
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
