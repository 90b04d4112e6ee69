"""Read slurm/config.yaml: the SLURM resources that the jobs of each rule request.

Snakemake's own functions evaluate the resources. This module reads the rest of the file itself.
Snakemake's command-line parser would not do: it also applies profiles/default and environment
variables, accepts any name of a resource or a rule, and at a mistake prints its usage and ends the
process.

Private: `Resource.from_cli_expression`, `Resource.evaluate` and `Resources` of
`snakemake.resources`, which may change in any release of Snakemake. tests/slurm/test_profile.py
compares the values with those of a run (see `rspo.snakemake.patches`).
"""

import ast
import math
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import yaml
from snakemake.exceptions import WorkflowError
from snakemake.resources import Resource, Resources

from rspo.core.errors import InputError, allowed_names

PROFILE = Path("slurm") / "config.yaml"
DEFAULT = "default-resources"  # the key for every rule without an entry of its own
RULES = "set-resources"  # the key with the entries of rules
EXECUTORS = ("slurm-patient", "slurm")  # this project's plugin, and the one that it extends
# The resources whose values Snakemake's plugin passes to `sbatch` unchanged, each with the option
# that gets the value.
_OPTIONS = {
    "slurm_partition": "--partition",
    "slurm_account": "--account",
    "constraint": "--constraint",
    "qos": "--qos",
    "gres": "--gres",
    "mem_mb": "--mem",
    "cpus_per_task": "--cpus-per-task",
}
# `_RESOURCES` has the resources that Snakemake 9.27 and its plugins slurm 2.8 and slurm_jobstep 0.6
# know, and those of this project's rules. Snakemake silently accepts any other name and ignores it.
# Resources that request GPUs are left out on purpose, except `gres` and `slurm_extra`, because the
# checks do not read them.
_TIME_AND_MEMORY = {"runtime", "mem", "mem_mib", "mem_mb_per_cpu"}
_DISK = {"disk", "disk_mb", "disk_mib", "tmpdir"}
_LAYOUT = {"threads", "cpus_per_gpu", "nodes", "tasks", "tasks_per_gpu", "tasks_per_node", "mpi"}
_CLUSTER = {"cluster", "clusters", "slurm_cluster", "slurm_extra"}
_OF_WORKFLOW = {"judge_server", "verl_cell"}
_RESOURCES = set(_OPTIONS) | _TIME_AND_MEMORY | _DISK | _LAYOUT | _CLUSTER | _OF_WORKFLOW
# An expression with one of these names may have another value for each job.
_VARIABLES = {"attempt", "input", "threads", "wildcards"}
# These resources decide where a job may run. An expression with one of `_VARIABLES` is not allowed
# for them, because the checks need one value for all jobs of a rule.
_FIXED = {"slurm_partition", "slurm_account", "constraint", "qos", "gres", "slurm_extra"}
# A job that trains on fewer GPUs than its entry in the profile requests gets that share of these.
SHARED = ("gres", "slurm_extra", "mem_mb", "cpus_per_task")
# The number of GPUs on each node, in `gres` and in `slurm_extra`, is the last group.
_GRES = re.compile(r"gpu:(?:[\w.-]+:)?(\d+)")
_PER_NODE = re.compile(r"--gpus-per-node=(?:[\w.-]+:)?(\d+)\b")
# Settings of the plugin that become options of `sbatch` for every job.
_FOR_ALL = ("qos", "reservation")


@dataclass(frozen=True)
class Request:
    """The SLURM resources that each job of a rule requests.

    key: the file and the key in it, for messages.
    partition: one partition, or several such as `gpu,gpu2`; None for the cluster's default one.
    minutes: the time limit; None for the default of the partition.
    gpus: the number of GPUs on each node, by `gres` or `--gpus-per-node`.
    extra: the options of `sbatch` in the resource slurm_extra.
    options: all options of `sbatch`, those in `extra` included, except the number of nodes.
    values: the resources from which the options are made, under Snakemake's keys.
    """

    rule: str
    key: str
    partition: str | None
    minutes: int | None
    gpus: int
    extra: tuple[str, ...]
    options: tuple[str, ...]
    values: Mapping[str, Any] = field(compare=False)

    def share(self, gpus: int) -> "Request":
        """The request of a job that needs `gpus` of the GPUs of each node.

        It has the same share of the CPUs and of the memory. A request without a number of GPUs, and
        one with no more than these, stay as they are.
        """
        if self.gpus <= gpus:
            return self
        values = dict(self.values)
        for name in SHARED:
            if values.get(name):
                values[name] = share_of(values[name], gpus, self.gpus)
        return _request_of(self.rule, f"{self.key} for {gpus} GPUs", values)

    @property
    def partitions(self) -> list[str]:
        """The partitions, one of which runs the job; empty for the cluster's default partition."""
        return self.partition.split(",") if self.partition else []

    @property
    def requests_gpus(self) -> bool:
        """Whether any option requests GPUs, such as `-G 8`, which `gpus` does not count."""
        # The last alternative is for `--gres gpu:8`, which is two words: it matches the second.
        options = re.compile(r"-G.*|--gpus.*|--gres=.*gpu.*|gpu:.*")
        return self.gpus > 0 or any(options.fullmatch(word) for word in self.extra)

    @property
    def signal_seconds(self) -> int | None:
        """How many seconds before the time limit SLURM sends the request to stop.

        None if the job has no option `--signal=USR1@SECONDS`, so that SLURM sends no request.
        """
        for word in self.extra:
            match = re.fullmatch(r"--signal=(?:SIG)?USR1@(\d+)", word)
            if match:
                return int(match[1])
        return None


def read_profile() -> tuple[dict[str, Any], dict[str, Request]]:
    """Read slurm/config.yaml in the current folder.

    Returns: the profile, and the request of each rule that it names. The request with the key
        `default-resources` applies to all other rules.

    Raises: InputError with the file and the key if Snakemake would refuse or ignore something.
    """
    profile = _load()
    _check_executor(profile)
    default_key = f"{PROFILE}: {DEFAULT}"
    default = _section(default_key, profile.get(DEFAULT))
    requests = {DEFAULT: _request(DEFAULT, default_key, default)}
    rules = _rules()
    for rule, section in _mapping(f"{PROFILE}: {RULES}", profile.get(RULES)).items():
        key = f"{PROFILE}: {RULES}.{rule}"
        if rules and rule not in rules:
            raise InputError(f"{key}: no such rule; {allowed_names(rule, sorted(rules))}")
        requests[rule] = _request(rule, key, default | _section(key, section))
    return profile, requests


def options_of_all_jobs(profile: Mapping[str, Any]) -> list[str]:
    """The options of `sbatch` that the plugin adds to every job, after those of the rule."""
    options = []
    for name in _FOR_ALL:
        value = profile.get(setting(profile, name))
        if value:
            options.append(f"--{name}={value}")
    return options


def setting(profile: Mapping[str, Any], name: str) -> str:
    """The key of a setting of the executor plugin in the profile, such as `slurm-patient-qos`."""
    return f"{profile['executor']}-{name}"


def _load() -> dict[str, Any]:
    """The content of slurm/config.yaml."""
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
    """Require one of the two executor plugins, and no setting that has no effect with it.

    A setting of the plugin that is not in use has no effect. It is allowed if the plugin in use has
    the same setting with the same value, so that a profile can be for both.
    """
    executor = profile.get("executor")
    if executor not in EXECUTORS:
        raise InputError(f"{PROFILE}: executor = {executor!r}; allowed: {', '.join(EXECUTORS)}")
    for key, value in profile.items():
        # EXECUTORS has `slurm-patient` first, because its keys begin with `slurm-` too.
        plugin = next((name for name in EXECUTORS if key.startswith(f"{name}-")), executor)
        used = setting(profile, key.removeprefix(f"{plugin}-"))
        if plugin != executor and profile.get(used) != value:
            raise InputError(
                f"{PROFILE}: {key} = {value!r} has no effect with executor: {executor}, which "
                f"reads {used}: give both the same value, or remove {key}"
            )


def _rules() -> set[str]:
    """The names of the rules in the workflow beside the profile; empty without a workflow."""
    files = (PROFILE.parent.parent / "workflow" / "rules").glob("*.smk")
    # Rules within an `if` are indented, so this does not match them; they run no SLURM jobs.
    rule = re.compile(r"^rule (\w+):$", flags=re.M)
    return {name for file in files for name in rule.findall(file.read_text())}


def _section(key: str, value: Any) -> dict[str, Any]:
    """The resources under a key, as the file has them: Snakemake has not evaluated them yet."""
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
    """A mapping with keys of text. A key without a value, which YAML reads as None, is empty."""
    if not isinstance(value, dict | None):
        raise InputError(f"{key} = {value!r}; allowed: keys and values")
    return {str(name): item for name, item in (value or {}).items()}


def _request(rule: str, key: str, section: Mapping[str, Any]) -> Request:
    """The request of a rule whose resources, with the default ones, are `section`."""
    return _request_of(rule, key, _values(key, section))


def _request_of(rule: str, key: str, values: Mapping[str, Any]) -> Request:
    """The request of a rule with these resources."""
    try:
        extra = tuple(shlex.split(str(values.get("slurm_extra") or "")))
    except ValueError as error:  # an unclosed quotation mark
        raise InputError(f"{key}.slurm_extra = {values['slurm_extra']!r}: {error}") from None
    minutes = values.get("runtime")
    options = [f"{_OPTIONS[name]}={values[name]}" for name in _OPTIONS if values.get(name)]
    if minutes:
        options.append(f"--time={minutes}")
    partition = values.get("slurm_partition")
    return Request(
        rule=rule,
        key=key,
        partition=None if partition is None else str(partition),
        minutes=minutes,
        gpus=_gpus(key, values, extra),
        extra=extra,
        options=tuple(options) + extra,
        values=values,
    )


def _values(key: str, section: Mapping[str, Any]) -> dict[str, Any]:
    """The resources that are the same for every job, with the values that Snakemake computes.

    The keys are Snakemake's too: `mem` becomes `mem_mb`.
    """
    values = {}
    for name, value in section.items():
        if not _depends_on_job(value):
            resource = _evaluated(f"{key}.{name}", name, value)
            values[resource.name] = resource.value
        elif name in _FIXED:
            raise InputError(
                f"{key}.{name} = {value!r}; allowed: a value that is the same for every job"
            )
    return values


def _depends_on_job(value: Any) -> bool:
    """Whether a value is an expression that Snakemake evaluates differently for each job.

    Snakemake has no function that tells, because it evaluates expressions for a given job only.
    """
    try:
        tree = ast.parse(str(value), mode="eval")
    except (SyntaxError, ValueError):  # text that is not Python, such as `4h`
        return False
    return any(isinstance(node, ast.Name) and node.id in _VARIABLES for node in ast.walk(tree))


def _evaluated(key: str, name: str, value: Any) -> Resource:
    """A resource with the value that Snakemake gives to every job.

    Snakemake evaluates a text as Python if it can, such as `"'--nice=100'"`. It converts a runtime
    of `4h` to 240 minutes, and a `mem` of `64GB` to a `mem_mb` of 64000.
    """
    try:
        if isinstance(value, str):
            resource = Resource.from_cli_expression(name, value)
        else:
            resource = Resource(name, value)
        # `Resources` replaces a resource such as `mem` by the one in megabytes, `mem_mb`.
        (resource,) = Resources({name: resource}).values()
        return resource.evaluate(
            None, input=None, attempt=1, threads=1, rulename="", async_run=None
        )
    except (WorkflowError, TypeError, ValueError) as error:
        if name == "runtime":
            allowed = "; allowed: minutes, or such as 4h"
        else:
            allowed = f": {' '.join(str(error).split())}"
        raise InputError(f"{key} = {value!r}{allowed}") from None


def _gpus(key: str, values: Mapping[str, Any], extra: tuple[str, ...]) -> int:
    """The number of GPUs on each node, by `gres` or `--gpus-per-node`; 0 if neither is there."""
    option = "--gpus-per-node="
    per_node = [word.removeprefix(option) for word in extra if word.startswith(option)]
    text = str(values.get("gres") or "")
    if not text and per_node:
        text = f"gpu:{per_node[-1]}"
    if not text:
        return 0
    # Such as gpu:8 or gpu:h800:8; the group is the number.
    match = re.fullmatch(r"gpu(?::[\w.-]+)?:(\d+)", text)
    if match is None:
        raise InputError(f"{key}.gres = {text!r}; allowed: such as gpu:h800:8")
    if "gres" in values and "-" in text:
        raise InputError(
            f"{key}.gres = {text!r}: Snakemake's plugin does not accept a hyphen; write "
            f"--gpus-per-node={text.removeprefix('gpu:')} in slurm_extra instead"
        )
    return int(match[1])


def gpus_in(resources: Mapping[str, Any]) -> int:
    """The number of GPUs on each node that resources request, as Snakemake has evaluated them.

    Returns: 0 if neither `gres` nor `--gpus-per-node` in `slurm_extra` says it.
    """
    for pattern, name in ((_GRES, "gres"), (_PER_NODE, "slurm_extra")):
        match = pattern.search(str(resources.get(name) or ""))
        if match:
            return int(match[1])
    return 0


def share_of(value: Any, gpus: int, of: int) -> Any:
    """A resource of a job that needs `gpus` of the `of` GPUs for which the profile states it.

    In a text, the number of GPUs is replaced. A number, of CPUs or of megabytes, is multiplied by
    gpus / of and rounded up.
    """
    if isinstance(value, str):
        return _PER_NODE.sub(partial(_replaced, gpus), _GRES.sub(partial(_replaced, gpus), value))
    return math.ceil(value * gpus / of)


def _replaced(number: int, match: re.Match[str]) -> str:
    """The text of a match with another number in place of its last group, which ends it."""
    return match[0].removesuffix(match[1]) + str(number)


def format_hours(minutes: float) -> str:
    """A duration as a profile writes it: `4h`, or `40m` if it is below an hour."""
    return f"{minutes / 60:g}h" if minutes >= 60 else f"{minutes:g}m"
