"""slurm/config.yaml as `rspo plan` and `rspo doctor` read it: what each class of jobs asks for."""

import math
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from rspo.errors import InputError

PROFILE = Path("slurm") / "config.yaml"
DEFAULT = "default-resources"  # the class of every rule that is not named
# Resources that Snakemake's plugin gives `sbatch` as they are.
_OPTIONS = {
    "slurm_partition": "--partition",
    "slurm_account": "--account",
    "constraint": "--constraint",
    "qos": "--qos",
    "gres": "--gres",
    "mem_mb": "--mem",
    "cpus_per_task": "--cpus-per-task",
}
_MINUTES = {"d": 1440.0, "h": 60.0, "m": 1.0, "s": 1 / 60}


@dataclass(frozen=True)
class Request:
    """What the jobs of one rule ask SLURM for."""

    rule: str
    key: str  # where it stands, for messages
    partition: str | None
    account: str | None
    minutes: float | None
    megabytes: int
    cpus: int
    gpu_type: str | None
    gpus: int  # of each node
    extra: tuple[str, ...]  # of slurm_extra
    options: tuple[str, ...]  # all of `sbatch`'s, but for the number of nodes

    @property
    def gres(self) -> str:
        """As SLURM writes it, for one node; empty without GPUs."""
        kind = f"{self.gpu_type}:" if self.gpu_type else ""
        return f"gpu:{kind}{self.gpus}" if self.gpus else ""

    @property
    def signal_seconds(self) -> int | None:
        """How long before its time limit a job is told to stop; None if it is not told."""
        for word in self.extra:
            if found := re.fullmatch(r"--signal=(?:SIG)?USR1@(\d+)", word):
                return int(found[1])
        return None


def read_profile(path: Path = PROFILE) -> tuple[dict[str, Any], dict[str, Request]]:
    """The profile, and its requests by rule; `default-resources` is that of all other rules.

    Raises: InputError if the file is missing or says something that cannot be meant.
    """
    try:
        profile = yaml.safe_load(path.read_text())
    except FileNotFoundError:
        raise InputError(f"{path}: no such profile; run this in the project's folder") from None
    except yaml.YAMLError as error:
        raise InputError(f"{path}: not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(profile, dict):
        raise InputError(f"{path}: expected keys and values")
    default = profile.get(DEFAULT) or {}
    requests = {DEFAULT: _request(path, DEFAULT, DEFAULT, default)}
    for rule, resources in (profile.get("set-resources") or {}).items():
        requests[rule] = _request(path, rule, f"set-resources.{rule}", default | resources)
    return profile, requests


def _request(path: Path, rule: str, key: str, found: Mapping[str, Any]) -> Request:
    extra = tuple(shlex.split(str(found.get("slurm_extra") or "").strip("'\"")))
    kind, count = _gpus(path, key, found, extra)
    minutes = _minutes(path, key, found.get("runtime"))
    options = [f"{_OPTIONS[name]}={found[name]}" for name in _OPTIONS if found.get(name)]
    options += [f"--time={math.ceil(minutes)}"] if minutes else []
    return Request(
        rule,
        f"{path}: {key}",
        _name(found.get("slurm_partition")),
        _name(found.get("slurm_account")),
        minutes,
        _whole(path, key, "mem_mb", found.get("mem_mb", 0)),
        _whole(path, key, "cpus_per_task", found.get("cpus_per_task", 1)),
        kind,
        count,
        extra,
        (*options, *extra),
    )


def _gpus(
    path: Path, key: str, found: Mapping[str, Any], extra: tuple[str, ...]
) -> tuple[str | None, int]:
    """Type and number of GPUs on each node."""
    per_node = [word.split("=", 1)[1] for word in extra if word.startswith("--gpus-per-node=")]
    text = str(found.get("gres") or (f"gpu:{per_node[-1]}" if per_node else ""))
    if not text:
        return None, 0
    matched = re.fullmatch(r"gpu(?::([A-Za-z][\w.-]*))?:(\d+)", text)
    if matched is None:
        raise InputError(f"{path}: {key}.gres = {text!r}; allowed: such as gpu:h800:8")
    if "gres" in found and "-" in text:
        raise InputError(
            f"{path}: {key}.gres = {text!r}: Snakemake's plugin takes no hyphen; write "
            f"--gpus-per-node={text.removeprefix('gpu:')} into slurm_extra instead"
        )
    return matched[1], int(matched[2])


def _name(value: Any) -> str | None:
    """Of an account or a partition; YAML takes `12345` for a number."""
    return None if value is None else str(value)


def _whole(path: Path, key: str, name: str, value: Any) -> int:
    if isinstance(value, bool) or not str(value).isdecimal():
        raise InputError(f"{path}: {key}.{name} = {value!r}; allowed: a whole number")
    return int(value)


def _minutes(path: Path, key: str, value: Any) -> float | None:
    """`90`, `"4h"` or `"1d12h"` in minutes."""
    if value is None or isinstance(value, int | float):
        return value
    parts = re.findall(r"([\d.]+)\s*([dhms])", str(value))
    if not parts or "".join(n + unit for n, unit in parts) != str(value).replace(" ", ""):
        raise InputError(f"{path}: {key}.runtime = {value!r}; allowed: minutes, or such as 4h")
    return sum(float(number) * _MINUTES[unit] for number, unit in parts)
