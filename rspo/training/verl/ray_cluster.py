"""The Ray cluster of a cell on this node, which starts and ends with verl's driver.

Several cells may train on a node at the same time: each has its own folder and token, and Ray
chooses free ports.
"""

import os
import secrets
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from rspo.core.files import fingerprint

if TYPE_CHECKING:
    from omegaconf import DictConfig

# Number of slots for actors of Ray. Slots are not cores: verl has three actors per rank and one per
# storage unit, which mostly wait, but without a slot for each, verl blocks forever.
_MIN_SLOTS = 64
# Variables for Ray and its processes. By default, Ray starts one process per slot in advance.
_ENVIRONMENT = {
    "RAY_AUTH_MODE": "token",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_prestart_worker_first_driver": "0",
    "RAY_enable_worker_prestart": "0",
}
_RAY_PROCESSES = ("gcs_server", "raylet")


def key_of(cell: Path) -> str:
    """Name of the environment variable that marks the processes of the cell with this folder."""
    return f"RSPO_TRAINING_{fingerprint(str(cell.absolute()))}"


def folder_of(cell: Path) -> Path:
    """Ray's folder on this host: short, because socket paths have at most 107 characters."""
    return Path(f"/tmp/rspo-{os.getuid()}-{fingerprint(str(cell.absolute()))[:8]}")


def start(config: "DictConfig", folder: Path) -> None:
    """Start a cluster with this process as its driver.

    Depends on verl/trainer/main_ppo.py, whose `run_ppo` starts Ray in the same way, and on
    verl/trainer/constants_ppo.py.
    """
    temporary = folder / "tmp"  # removed with the folder: verl leaves files there
    temporary.mkdir(parents=True, exist_ok=True)
    tempfile.tempdir = str(temporary)  # for this process; TMPDIR is for those that it starts
    os.environ |= _ENVIRONMENT | {"TMPDIR": str(temporary), "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    os.environ.setdefault("RAY_raylet_start_wait_time_s", "300")  # 30 is too short on a busy host
    os.environ.pop("RAY_ADDRESS", None)  # may be the address of another cluster

    import ray
    from omegaconf import OmegaConf
    from verl.trainer.constants_ppo import get_ppo_ray_runtime_env

    settings: Any = OmegaConf.to_container(config.ray_kwargs.ray_init, resolve=True)
    configured = settings.pop("runtime_env", None) or {}
    environment = OmegaConf.merge(get_ppo_ray_runtime_env(config), configured)
    # By default, Ray counts all CPUs of the host, even if the job may use only a few of them.
    slots = settings.get("num_cpus") or max(_MIN_SLOTS, len(os.sched_getaffinity(0)))
    settings |= {"_temp_dir": str(folder), "num_cpus": slots}
    ray.init(**settings, runtime_env=OmegaConf.to_container(environment))


def lost_process() -> str | None:
    """Return a message if a system process of Ray has died, else None.

    Ray itself would notice only after minutes. This does not call Ray, which may be starting or
    hanging. A dead child process stays a zombie, because Ray never reads its exit status.
    """
    for child in psutil.Process().children():
        with suppress(psutil.NoSuchProcess):
            if child.name() in _RAY_PROCESSES and child.status() == psutil.STATUS_ZOMBIE:
                return f"Ray's {child.name()} has died"
    return None


def lost_actor() -> str | None:
    """Return a message if an actor of the cluster has died, else None.

    This blocks for a minute if Ray's head does not answer. Actors that ended as intended are not
    reported.

    Depends on ray/_private/state.py, because the public state API needs the dashboard.
    """
    from ray._private import state
    from ray.core.generated import common_pb2

    died: Any = common_pb2.ActorDiedErrorContext  # type: ignore[attr-defined]  # created at import

    for actor in state.actors().values():
        if actor["State"] == "DEAD":
            cause = actor["DeathCause"]
            class_name = actor["ActorClassName"].rsplit(".")[-1]
            process = f"process {actor['Pid']} ({class_name})"
            if cause.HasField("oom_context"):
                return f"{process} was killed by Ray: this node's memory was nearly full"
            if cause.actor_died_error_context.reason in (died.WORKER_DIED, died.NODE_DIED):
                return f"{process} has died"
    return None
