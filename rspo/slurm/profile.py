"""Reads slurm/config.yaml: the SLURM resources that the jobs of each rule request."""

import ast
import math
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from humanfriendly import InvalidTimespan, parse_timespan

from rspo.core.errors import InputError, allowed_names

PROFILE = Path("slurm") / "config.yaml"
DEFAULT = "default-resources"  # for every rule without an entry of its own
RULES = "set-resources"
EXECUTORS = ("slurm-patient", "slurm")
# Resources that Snakemake's plugin passes to `sbatch` unchanged.
_OPTIONS = {
    "slurm_partition": "--partition",
    "slurm_account": "--account",
    "constraint": "--constraint",
    "qos": "--qos",
    "gres": "--gres",
    "mem_mb": "--mem",
    "cpus_per_task": "--cpus-per-task",
}
# Resources that Snakemake 9.27 and its plugins slurm 2.8 and slurm_jobstep 0.6 know, and those of
# this project; GPUs only as `gres` or in `slurm_extra`. Snakemake silently accepts any other name.
_RESOURCES = {
    *_OPTIONS,
    *("runtime", "mem", "mem_mib", "mem_mb_per_cpu", "disk", "disk_mb", "disk_mib", "tmpdir"),
    *("threads", "cpus_per_gpu"),
    *("nodes", "tasks", "tasks_per_gpu", "tasks_per_node", "mpi"),
    *("cluster", "clusters", "slurm_cluster", "slurm_extra"),
    *("judge_server", "verl_cell"),
}
# Snakemake evaluates a value with one of these names for each job.
_VARIABLES = {"attempt", "input", "threads", "wildcards"}
# These decide where a job may run, so they cannot be such expressions.
_FIXED = {"slurm_partition", "slurm_account", "constraint", "qos", "gres", "slurm_extra"}
# Settings of the plugin that become options of `sbatch` for every job.
_FOR_ALL = ("qos", "reservation")


@dataclass(frozen=True)
class Request:
    """The SLURM resources that each job of a rule requests."""

    rule: str
    key: str  # file and key, for messages
    partition: str | None  # or several, such as `gpu,gpu2`
    minutes: float | None
    gpus: int  # on each node
    extra: tuple[str, ...]  # options in slurm_extra
    options: tuple[str, ...]  # all options of `sbatch` except the number of nodes

    @property
    def partitions(self) -> list[str]:
        """One of them runs the job; empty: the default partition."""
        return self.partition.split(",") if self.partition else []

    @property
    def requests_gpus(self) -> bool:
        """By any option of `sbatch`; `gpus` counts only `gres` and `--gpus-per-node`."""
        options = re.compile(r"-G.*|--gpus.*|--gres=.*gpu.*|gpu:.*")
        return self.gpus > 0 or any(options.fullmatch(word) for word in self.extra)

    @property
    def signal_seconds(self) -> int | None:
        """Seconds from the request to stop to the time limit; None without `--signal=USR1@...`."""
        for word in self.extra:
            if match := re.fullmatch(r"--signal=(?:SIG)?USR1@(\d+)", word):
                return int(match[1])
        return None


def read_profile() -> tuple[dict[str, Any], dict[str, Request]]:
    """The profile, and the request of each rule; `default-resources` applies to all other rules."""
    profile = _load()
    _check_executor(profile)
    rules, key = _rules(), f"{PROFILE}: {DEFAULT}"
    default = _section(key, profile.get(DEFAULT))
    requests = {DEFAULT: _request(DEFAULT, key, default)}
    for rule, values in _mapping(f"{PROFILE}: {RULES}", profile.get(RULES)).items():
        key = f"{PROFILE}: {RULES}.{rule}"
        if rules and rule not in rules:
            raise InputError(f"{key}: no such rule; {allowed_names(rule, sorted(rules))}")
        requests[rule] = _request(rule, key, default | _section(key, values))
    return profile, requests


def options_of_all_jobs(profile: Mapping[str, Any]) -> list[str]:
    """Options of `sbatch` that the plugin adds to every job, after those of the rule."""
    values = {name: profile.get(setting(profile, name)) for name in _FOR_ALL}
    return [f"--{name}={value}" for name, value in values.items() if value]


def setting(profile: Mapping[str, Any], name: str) -> str:
    """The key of a setting of the executor plugin in use."""
    return f"{profile['executor']}-{name}"


def _load() -> dict[str, Any]:
    try:
        profile = yaml.safe_load(PROFILE.read_text())
    except FileNotFoundError:
        raise InputError(f"{PROFILE}: no such profile; run this in the project's folder") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InputError(f"{PROFILE}: not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(profile, dict):
        raise InputError(f"{PROFILE}: expected keys and values")
    return {str(key): value for key, value in profile.items()}


def _check_executor(profile: Mapping[str, Any]) -> None:
    """Settings of the other executor plugin have no effect; with the same value they do no harm."""
    executor = profile.get("executor")
    if executor not in EXECUTORS:
        raise InputError(f"{PROFILE}: executor = {executor!r}; allowed: {', '.join(EXECUTORS)}")
    for key, value in profile.items():
        plugin = next((name for name in EXECUTORS if key.startswith(f"{name}-")), executor)
        used = setting(profile, key.removeprefix(f"{plugin}-"))
        if plugin != executor and profile.get(used) != value:
            raise InputError(
                f"{PROFILE}: {key} = {value!r} has no effect with executor: {executor}, which "
                f"reads {used}: give both the same value, or remove {key}"
            )


def _rules() -> set[str]:
    """Names of the rules of the workflow beside the profile; empty if there is none."""
    files = (PROFILE.parent.parent / "workflow" / "rules").glob("*.smk")
    rule = re.compile(r"^rule (\w+):$", flags=re.M)
    return {name for file in files for name in rule.findall(file.read_text())}


def _section(key: str, value: Any) -> dict[str, Any]:
    """The resources of one class of jobs."""
    section = _mapping(key, value)
    for name, amount in section.items():
        if name not in _RESOURCES:
            raise InputError(
                f"{key}.{name} = {amount!r}: no such resource; "
                f"{allowed_names(name, sorted(_RESOURCES))}; sbatch's options go in slurm_extra"
            )
        if isinstance(amount, list | dict):
            raise InputError(f"{key}.{name} = {amount!r}; allowed: a number or a string")
    return section


def _mapping(key: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict | None):
        raise InputError(f"{key} = {value!r}; allowed: keys and values")
    return {str(name): item for name, item in (value or {}).items()}


def _request(rule: str, key: str, written: Mapping[str, Any]) -> Request:
    values = {name: value for name, value in written.items() if not _is_expression(value)}
    for name in (written.keys() - values.keys()) & _FIXED:
        raise InputError(
            f"{key}.{name} = {written[name]!r}; allowed: a value that is the same for every job"
        )
    try:
        extra = tuple(shlex.split(str(values.get("slurm_extra") or "").strip("'\"")))
    except ValueError as error:  # an unclosed quotation mark
        raise InputError(f"{key}.slurm_extra = {values['slurm_extra']!r}: {error}") from None
    gpus = _gpus(key, values, extra)
    minutes = _minutes(key, values.get("runtime"))
    options = [f"{_OPTIONS[name]}={values[name]}" for name in _OPTIONS if values.get(name)]
    options += [f"--time={math.ceil(minutes)}"] if minutes else []
    partition = values.get("slurm_partition")
    return Request(
        rule,
        key,
        None if partition is None else str(partition),
        minutes,
        gpus,
        extra,
        (*options, *extra),
    )


def _is_expression(value: Any) -> bool:
    try:
        tree = ast.parse(str(value), mode="eval")
    except (SyntaxError, ValueError):
        return False
    return any(isinstance(node, ast.Name) and node.id in _VARIABLES for node in ast.walk(tree))


def _gpus(key: str, values: Mapping[str, Any], extra: tuple[str, ...]) -> int:
    """Number of the GPUs on each node."""
    per_node = [word.split("=", 1)[1] for word in extra if word.startswith("--gpus-per-node=")]
    text = str(values.get("gres") or (f"gpu:{per_node[-1]}" if per_node else ""))
    if not text:
        return 0
    match = re.fullmatch(r"gpu(?::[\w.-]+)?:(\d+)", text)
    if match is None:
        raise InputError(f"{key}.gres = {text!r}; allowed: such as gpu:h800:8")
    if "gres" in values and "-" in text:
        raise InputError(
            f"{key}.gres = {text!r}: Snakemake's plugin does not accept a hyphen; write "
            f"--gpus-per-node={text.removeprefix('gpu:')} in slurm_extra instead"
        )
    return int(match[1])


def _minutes(key: str, value: Any) -> float | None:
    """Minutes from `90` or `"4h"`, as Snakemake reads them."""
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
        return value
    text = str(value).strip("'\"")
    try:
        return int(text) if text.isdecimal() else parse_timespan(text) / 60
    except InvalidTimespan:
        raise InputError(f"{key}.runtime = {value!r}; allowed: minutes, or such as 4h") from None


def format_hours(minutes: float) -> str:
    return f"{minutes / 60:g}h" if minutes >= 60 else f"{minutes:g}m"
