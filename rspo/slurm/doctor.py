"""`rspo doctor`: slurm/config.yaml held against the live cluster, and what to change in it."""

import fcntl
import json
import math
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rspo.config.experiment import Experiment
from rspo.core.errors import InputError
from rspo.core.locks import no_locks
from rspo.rewards import NEED_JUDGE
from rspo.slurm import probe
from rspo.slurm.cluster import NodeGroup, Slurm
from rspo.slurm.profile import DEFAULT, PROFILE, RULES, Request, read_profile
from rspo.training.verl.disk import checkpoint_bytes

# Seconds to wait for a free node of a partition before its check is left out.
PROBE_SECONDS = 60
# Between the signal and the time limit: SLURM looks twice a minute, and the running step, which may
# be a long one, and a checkpoint have to end.
LEAST_SIGNAL_SECONDS = 60
USUAL_SIGNAL_SECONDS = 600
START_MINUTES = 20  # of models and engines, and some steps
STEPS = 4  # of usual length, for a long one
CHECKPOINT_BYTES_PER_SECOND = 1e9
# The plugin's settings that become options of `sbatch` for every job.
_FOR_ALL = ("qos", "reservation")
# Options, of `sbatch` and `srun`, that decide on which nodes and on whose account a job may run.
_PLACING = {
    "--account": "-A",
    "--clusters": "-M",
    "--constraint": "-C",
    "--exclude": "-x",
    "--nodelist": "-w",
    "--partition": "-p",
    "--qos": "-q",
    "--reservation": None,
}
_REACHED = "rspo-doctor-after-precommand"
# Of `srun`: after the time of --immediate, and of a controller that has much to do.
_NONE_FREE = ("Requested nodes are busy", "timed out")

Profile = dict[str, Any]


def findings(experiment: Experiment) -> tuple[list[str], list[str]]:
    """What must change, and what was found right or could not be checked; a line each.

    Raises: InputError if the profile cannot be read or SLURM does not answer.
    """
    profile, requests = read_profile()
    used = [r for r in requests.values() if _is_used(experiment, r)]
    change = [*_config(experiment), *_no_gpus(experiment, requests), *_signals(experiment, used)]
    unlocked = list(_locks())
    change += unlocked
    notes = [*_idle_gpus(experiment, used), *_online(profile)]
    if not Slurm.is_here():
        return change, [
            *notes,
            "SLURM is not on this machine (no sinfo): nothing of it was checked",
        ]
    slurm, right = Slurm(), []
    for request in used:
        nodes = experiment.nodes if request.rule == "train_on_nodes" else 1
        wrong = list(_request(slurm, request, nodes)) or _refused(slurm, profile, request, nodes)
        change += wrong
        right += [] if wrong else [request]
    change += _preemption(slurm, used)
    change += _memory_of_jobs(slurm, profile)
    notes += _privacy(slurm)
    first = _precommand(profile)
    for where, options in _places(profile, [] if unlocked else right).items():
        problems, note = _node(slurm, where, options, first)
        change += problems
        notes += note
    return change, notes


def _is_used(experiment: Experiment, request: Request) -> bool:
    """Whether this scale has jobs of that kind."""
    if _trains(request):
        return (request.rule == "train_on_nodes") == (experiment.nodes > 1)
    return True


def _trains(request: Request) -> bool:
    return request.rule in ("train", "train_on_nodes")


def _config(experiment: Experiment) -> Iterator[str]:
    """What would stop every training job at its start."""
    config = experiment.config
    judge = config.xverify if config.verifier in NEED_JUDGE else None
    if experiment.trains_on_gpus and judge is not None and judge.url is None:
        yield (
            f"config/{experiment.scale}.yaml: xverify.url is null: training needs the address of a "
            "judge that runs already (the policy has all GPUs of its job); or set verifier: "
            "math_verify"
        )


def _no_gpus(experiment: Experiment, requests: dict[str, Request]) -> Iterator[str]:
    """Classes that run models on GPUs and ask for none; their entry may be missing."""
    needing = {}
    if experiment.trains_on_gpus:
        rule = "train_on_nodes" if experiment.nodes > 1 else "train"
        needing[rule] = "training (verl.device: cuda)"
    if experiment.config.sampler == "vllm":
        needing["sample"] = "sampling (sampler: vllm)"
    needing |= dict.fromkeys(_judging(experiment), "a judge of its own (xverify.url: null)")
    for rule, work in needing.items():
        if not requests.get(rule, requests[DEFAULT]).asks_for_gpus:
            several = rule == "train_on_nodes"
            how = "--gpus-per-node=TYPE:NUMBER in its slurm_extra" if several else "its gres"
            yield f"{PROFILE}: {RULES}.{rule} asks for no GPU, and {work} needs them: set {how}"


def _judging(experiment: Experiment) -> Iterator[str]:
    """Rules besides training whose jobs start a judge's server."""
    config = experiment.config
    if config.xverify is None or config.xverify.url is not None:
        return
    if config.verifier in NEED_JUDGE:
        yield "score"
    if config.agreement.against in NEED_JUDGE:
        yield "agreement"
    if config.verifier in NEED_JUDGE and config.gradients is not None:
        yield "gradients"


def _locks() -> Iterator[str]:
    """Whether a job could keep others out of its cell's folder at all."""
    try:
        with _locked_file():
            pass
    except InputError as error:
        yield str(error)


def _signals(experiment: Experiment, used: list[Request]) -> Iterator[str]:
    needed = _seconds_to_stop(experiment)
    option = f"--signal=USR1@{max(needed, USUAL_SIGNAL_SECONDS)}"
    for request in used:
        seconds = request.signal_seconds
        if not _trains(request):
            continue
        if seconds is None:
            yield (
                f"{request.key}.slurm_extra has no --signal=USR1@SECONDS: a job would be ended at "
                f"its time limit without a checkpoint; set '{option}'"
            )
        elif request.minutes is not None and request.minutes * 60 <= seconds:
            least = math.ceil(seconds / 60) + START_MINUTES
            yield (
                f"{request.key}.runtime = {_hours(request.minutes)} is no longer than the "
                f"{seconds} seconds of --signal: every job is told to stop as it starts; set "
                f"{_hours(least)} or more: these seconds and the minutes that a start takes"
            )
        elif seconds < needed and (request.minutes or 0) > 10:
            yield (
                f"{request.key}.slurm_extra: {seconds} seconds before the time limit are few for "
                f"a step and a checkpoint; set '{option}'"
            )


def _idle_gpus(experiment: Experiment, used: list[Request]) -> Iterator[str]:
    """GPUs that a class asks for, and that nothing of this scale would use."""
    reasons = _reasons_for_no_gpu(experiment)
    for request in used:
        if request.gpus and (reason := reasons.get(request.rule)):
            yield f"{request.key} asks for {request.gres}, which is not needed: {reason}"


def _reasons_for_no_gpu(experiment: Experiment) -> dict[str, str]:
    """By rule, where a class that the profile may give GPUs has no use for them."""
    config = experiment.config
    reasons: dict[str, str] = {}
    if not experiment.trains_on_gpus:
        engine = "engine: local" if config.engine == "local" else "verl.device: cpu"
        reason = f"training runs on CPUs ({engine}); its line can go"
        reasons |= {"train": reason, "train_on_nodes": reason}
    if config.sampler == "torch":
        reasons["sample"] = "sampling runs on CPUs (sampler: torch); its line can go"
    # The agreement is no job of this kind: only the config's verifier scores.
    judged = config.verifier in NEED_JUDGE
    if not judged or (config.xverify is not None and config.xverify.url is not None):
        why = "xverify.url has one" if judged else "the verifier needs none"
        reasons["score"] = f"scoring starts no judge model ({why}); its line can go"
    return reasons


def _seconds_to_stop(experiment: Experiment) -> int:
    """What the slowest cell may take, as far as `models.<name>.expected` tells."""
    models = {experiment.model_of(name) for name in experiment.cells}
    known = [found for name in models if (found := experiment.config.models[name].expected)]
    needed = [
        STEPS * model.step_seconds
        + checkpoint_bytes(model.parameters) / CHECKPOINT_BYTES_PER_SECOND
        for model in known
    ]
    return math.ceil(max([LEAST_SIGNAL_SECONDS, *needed]))


def _request(slurm: Slurm, request: Request, needed: int) -> Iterator[str]:
    """Whether some nodes of the partition can take the jobs of one rule.

    Args:
        needed: how many nodes a job has.
    """
    partitions = sorted({nodes.partition for nodes in slurm.nodes})
    there = [nodes for nodes in slurm.nodes if nodes.partition == request.partition]
    if request.partition is not None and not there:
        yield (
            f"{request.key}.slurm_partition = {request.partition!r} does not exist here; "
            f"has {', '.join(partitions)}"
        )
        return
    there = there or slurm.nodes
    with_gpus = [nodes for nodes in there if nodes.gpus_of(request.gpu_type) >= request.gpus]
    if not with_gpus:
        has = sorted({f"gpu:{k}:{n}" for nodes in there for k, n in nodes.gpus.items()})
        yield (
            f"{request.key}.gres = {request.gres!r}: the nodes of partition {request.partition} "
            f"have {', '.join(has) or 'no GPUs'}"
        )
        return
    yield from _limits(request, with_gpus)
    if needed > (count := sum(nodes.count for nodes in with_gpus)):
        yield (
            f"verl.nodes = {needed}: partition {request.partition} has {count} such nodes "
            f"({request.key})"
        )


def _limits(request: Request, there: list[NodeGroup]) -> Iterator[str]:
    limits = [nodes.minutes for nodes in there]
    longest = None if None in limits else max(limit for limit in limits if limit is not None)
    if longest is not None and (request.minutes or 0) > longest:
        several = " (a training then takes several jobs)" if _trains(request) else ""
        yield (
            f"{request.key}.runtime = {_hours(request.minutes or 0)} is longer than partition "
            f"{request.partition} allows; set {_hours(longest)}{several}"
        )
    if request.megabytes > (most := max(nodes.megabytes for nodes in there)):
        yield f"{request.key}.mem_mb = {request.megabytes}: its nodes have {most}"
    if request.cpus > (most := max(nodes.cpus for nodes in there)):
        yield f"{request.key}.cpus_per_task = {request.cpus}: its nodes have {most}"


def _hours(minutes: float) -> str:
    return f"{minutes / 60:g}h" if minutes >= 60 else f"{minutes:g}m"


def _refused(slurm: Slurm, profile: Profile, request: Request, nodes: int) -> list[str]:
    """What SLURM itself says of such a job, where everything looks right."""
    several = [f"--nodes={nodes}", f"--ntasks={nodes}"] if nodes > 1 else []
    options = [*request.options, *several, *_of_all_jobs(profile)]
    if reason := slurm.refusal(*options):
        return [f"{request.key}: sbatch {' '.join(options)}: {reason}"]
    try:
        stays = _trains(request) and not slurm.takes_back(*options)
    except InputError as error:
        return [f"{request.key}: {error}"]
    if stays:
        return [
            f"{request.key}: SLURM takes no such job back into its queue (Requeue = 0): each part "
            "of a training is a job of its own; set retries to a cell's hours divided by the time "
            "limit's, rounded up, and slurm-requeue: false, or Snakemake leaves a job whose node "
            "is lost to SLURM, and there is no retry"
        ]
    return []


def _of_all_jobs(profile: Profile) -> list[str]:
    """What the plugin's own settings add to every job; they come last and count."""
    return [f"--{name}={profile[key]}" for name in _FOR_ALL if profile.get(key := f"slurm-{name}")]


def _preemption(slurm: Slurm, used: list[Request]) -> Iterator[str]:
    """Who is preempted is decided by the job's partition, or else by all of the cluster's mode."""
    settings = slurm.settings
    everywhere = settings.get("PreemptMode", "OFF")
    by_partition = settings.get("PreemptType") == "preempt/partition_prio"
    for partition in sorted({request.partition or "" for request in used}):
        mode = slurm.preempt_modes.get(partition, everywhere) if by_partition else everywhere
        if "CANCEL" in mode.split(","):
            yield (
                f"SLURM cancels preempted jobs of partition {partition or '(default)'} "
                "(PreemptMode = CANCEL), and Snakemake waits for them: ask for one that no other "
                "preempts"
            )


def _memory_of_jobs(slurm: Slurm, profile: Profile) -> Iterator[str]:
    """Whether SLURM can tell Snakemake of every job how it ended."""
    if profile.get("slurm-status-command") != "squeue":
        return
    age = int(slurm.settings.get("MinJobAge", "300").split()[0])
    if slurm.settings.get("AccountingStorageType") == "accounting_storage/slurmdbd":
        yield (
            f"slurm/config.yaml: slurm-status-command = squeue forgets ended jobs after {age} s "
            "(MinJobAge), and there is accounting here, which keeps them: set sacct"
        )
    elif age < 240:
        yield (
            f"SLURM forgets ended jobs after {age} s (MinJobAge), and Snakemake asks every three "
            "minutes: it may wait for them for ever; ask your cluster's administrators for 300"
        )


def _privacy(slurm: Slurm) -> Iterator[str]:
    if "jobs" in slurm.settings.get("PrivateData", "").split(","):
        yield (
            "SLURM shows nobody the jobs of others (PrivateData has jobs): a run that somebody "
            "else left at work in this folder is not seen before yours starts; the locks of its "
            "cells keep yours out"
        )


def _places(profile: Profile, requests: list[Request]) -> dict[str, list[str]]:
    """Options of `srun` for one GPU, if any, of every kind of place that jobs run in; by its name.

    A request that is refused as a whole has been told of, and is none of them.
    """
    found: dict[str, list[str]] = {}
    for request in requests:
        placing = [*_placing(request.options), *_of_all_jobs(profile)]
        more = [word for word in placing if not word.startswith(("--partition=", "--account="))]
        name = f"partition {request.partition}" if request.partition else "the default partition"
        kind = f"{request.gpu_type}:" if request.gpu_type else ""
        gpu = [f"--gres=gpu:{kind}1"] if request.gpus else []
        found.setdefault(" ".join([name, *more]), [*placing, *gpu])
    return found


def _placing(options: Sequence[str]) -> Iterator[str]:
    """The words of those in `_PLACING`, from `--qos=high`, `--qos high` or `-q high`."""
    words = iter(options)
    for word in words:
        if word in _PLACING or word in _PLACING.values():
            yield from (word, next(words, ""))
        elif word.split("=")[0] in _PLACING:
            yield word


def _online(profile: Profile) -> Iterator[str]:
    if "HF_HUB_OFFLINE=1" not in str(profile.get("precommand")):
        yield (
            f"{PROFILE}: precommand has no export HF_HUB_OFFLINE=1: jobs ask the hub for what is "
            "here already, and wait for it where nodes do not reach it"
        )


def _precommand(profile: Profile) -> str:
    """What a job's shell runs first; empty if nothing.

    As Snakemake's profiles and the plugin's `sbatch --wrap="..."` leave it: both put in this host's
    variables (snakemake 9.27, snakemake_executor_plugin_slurm 2.8).
    """
    text = os.path.expandvars(str(profile.get("precommand") or ""))
    if not text or profile.get("slurm-pass-command-as-script"):
        return text
    quoted = text.replace('"', '\\"')
    wrapped = ["sh", "-c", f'printf %s "{quoted}"']
    done = subprocess.run(wrapped, capture_output=True, text=True)
    # What this shell cannot read, the plugin's could not either, and the node's says so.
    return text if done.returncode else done.stdout


def _node(
    slurm: Slurm, where: str, options: Sequence[str], first: str
) -> tuple[list[str], list[str]]:
    """Whether a node has this software, sees a file and a lock of this host, and reaches SLURM.

    Args:
        first: shell commands that jobs run before.

    Returns: what must change, and what was found right or could not be checked.
    """
    with _locked_file() as (file, text):
        words = [sys.executable, "-m", "rspo.slurm.probe", str(file), text]
        words = [*_after(first), *words] if first else words
        place = ["-n1", "-t1", f"--immediate={PROBE_SECONDS}", *options]
        try:
            said = slurm.ask("srun", *place, *words, seconds=PROBE_SECONDS + 180)
        except InputError as error:
            if any(sign in str(error) for sign in _NONE_FREE):
                return [], [f"{where}: no node was free: files and software not checked ({error})"]
            if "Unable to allocate resources" in str(error):
                return [f"{where}: SLURM gives no node: srun {' '.join(options)}: {error}"], []
            why = re.sub(r"^SLURM does not answer \((.*)\)$", r"\1", str(error))
            if first and _REACHED not in why:
                return [f"{where}: on a node {PROFILE}'s precommand `{first}` fails: {why}"], []
            why = why.replace(f"{_REACHED} ", "")
            return [f"{where}: a node cannot run {sys.executable} -m rspo.slurm.probe: {why}"], []
    # A cluster's own scripts may print before and behind it.
    answers = [line for line in said.splitlines() if line.startswith('{"file"')]
    if not answers:
        return [f"{where}: a node says nothing of this folder: {' '.join(said.split())}"], []
    found = json.loads(answers[-1])
    problems = [*_files(where, file.parent, found["file"]), *_commands(where, found["commands"])]
    fine = f"{where}: a node sees this folder, its locks, this software and SLURM"
    return problems, [] if problems else [fine]


def _after(first: str) -> list[str]:
    """A shell that runs the words behind these if `first` succeeds, as that of a job does.

    What `first` prints is no answer: it goes where errors go, which are shown.
    """
    return ["/bin/sh", "-c", f'exec 3>&1 >&2; {first} && echo {_REACHED} && exec "$@" >&3', "sh"]


def _files(where: str, folder: Path, seen: str) -> Iterator[str]:
    """
    Args:
        seen: see `rspo.slurm.probe.seen`.
    """
    if seen == "unlocked":
        yield (
            f"{where}: a node ignores a lock that this host holds in {folder}: two jobs could "
            "train one cell; mount the file system with flock (Lustre: -o flock; NFS: version 4)"
        )
    elif seen != "ok":
        yield (
            f"{where}: a node does not see {folder} as this host does: run this in a folder "
            "of a shared file system"
        )


def _commands(where: str, failing: dict[str, str]) -> Iterator[str]:
    lost = {
        probe.STEP: "no job could start its step",
        probe.QUEUE: "no job could put itself back into the queue",
    }
    for command, reason in failing.items():
        yield (
            f"{where}: on a node `{command}` fails ({reason}): {lost[command]}; SLURM's "
            "commands must be there and find their configuration without SLURM_CONF, which jobs do "
            "not have"
        )


@contextmanager
def _locked_file() -> Iterator[tuple[Path, str]]:
    """A file in the current folder with a text of its own, locked by this process."""
    text = os.urandom(8).hex()
    with tempfile.NamedTemporaryFile("w", prefix=".rspo-doctor-", dir=Path.cwd()) as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
        try:
            fcntl.flock(stream, fcntl.LOCK_EX)
        except OSError as error:
            raise no_locks(str(Path.cwd()), error) from None
        yield Path(stream.name), text


def report(experiment: Experiment) -> bool:
    """Print every finding on a line; whether nothing must change."""
    change, notes = findings(experiment)
    for line in change:
        print(f"change  {line}")
    for line in notes:
        print(f"        {line}")
    if not change:
        print("nothing to change")
    return not change
