"""`rspo doctor`: slurm/config.yaml held against the live cluster, and what to change in it."""

import fcntl
import math
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rspo.errors import InputError
from rspo.experiment import Experiment
from rspo.rewards import NEED_JUDGE
from rspo.slurm.cluster import Nodes, Slurm
from rspo.slurm.profile import Request, read_profile
from rspo.training.verl.disk import checkpoint_bytes

# Seconds to wait for a free node of a partition before its check is left out.
PROBE_SECONDS = 60
# Between the signal and the time limit: SLURM looks twice a minute, and the running step, which may
# be a long one, and a checkpoint have to end.
LEAST_SIGNAL_SECONDS = 60
USUAL_SIGNAL_SECONDS = 600
STEPS = 4  # of usual length, for a long one
CHECKPOINT_BYTES_PER_SECOND = 1e9


def findings(experiment: Experiment) -> tuple[list[str], list[str]]:
    """What must change, and what was found right or could not be checked; a line each.

    Raises: InputError if the profile cannot be read or SLURM does not answer.
    """
    profile, requests = read_profile()
    used = [r for r in requests.values() if _is_used(experiment, r)]
    change = [*_config(experiment), *_signals(experiment, used)]
    if not Slurm.is_here():
        return change, ["SLURM is not on this machine (no sinfo): nothing of it was checked"]
    slurm = Slurm()
    for request in used:
        nodes = experiment.nodes if request.rule == "train_on_nodes" else 1
        change += list(_request(slurm, request, nodes)) or _refused(slurm, request, nodes)
    change += _preemption(slurm, used)
    change += _memory_of_jobs(slurm, profile)
    notes: list[str] = []
    for request in _one_of_each_partition(slurm, used):
        problem, note = _files(slurm, request)
        change += problem
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
    cuda = config.engine == "verl" and config.verl is not None and config.verl.device == "cuda"
    if cuda and judge is not None and judge.url is None:
        yield (
            f"config/{experiment.scale}.yaml: xverify.url is null: training needs the address of a "
            "judge that runs already (the policy has all GPUs of its job); or set verifier: "
            "math_verify"
        )


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
        elif seconds < needed and (request.minutes or 0) > 10:
            yield (
                f"{request.key}.slurm_extra: {seconds} seconds before the time limit are few for "
                f"a step and a checkpoint; set '{option}'"
            )


def _seconds_to_stop(experiment: Experiment) -> int:
    """What the slowest cell may take, as far as `models.<name>.expected` tells."""
    models = {experiment.model_of(name) for name in experiment.cells}
    known = [found for name in models if (found := experiment.config.models[name].expected)]
    steps = experiment.config.training.steps
    needed = [
        STEPS * model.training_hours * 3600 / steps
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


def _limits(request: Request, there: list[Nodes]) -> Iterator[str]:
    limits = [nodes.minutes for nodes in there]
    longest = None if None in limits else max(limit for limit in limits if limit is not None)
    if longest is not None and (request.minutes or 0) > longest:
        yield (
            f"{request.key}.runtime = {_hours(request.minutes or 0)} is longer than partition "
            f"{request.partition} allows; set {_hours(longest)} (a training then takes several "
            "jobs)"
        )
    if request.megabytes > (most := max(nodes.megabytes for nodes in there)):
        yield f"{request.key}.mem_mb = {request.megabytes}: its nodes have {most}"
    if request.cpus > (most := max(nodes.cpus for nodes in there)):
        yield f"{request.key}.cpus_per_task = {request.cpus}: its nodes have {most}"


def _hours(minutes: float) -> str:
    return f"{minutes / 60:g}h" if minutes >= 60 else f"{minutes:g}m"


def _refused(slurm: Slurm, request: Request, nodes: int) -> list[str]:
    """What SLURM itself says of such a job, where everything looks right."""
    options = [*request.options, *([f"--nodes={nodes}", f"--ntasks={nodes}"] * (nodes > 1))]
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
            "limit's, rounded up"
        ]
    return []


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


def _memory_of_jobs(slurm: Slurm, profile: dict[str, object]) -> Iterator[str]:
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


def _one_of_each_partition(slurm: Slurm, requests: list[Request]) -> list[Request]:
    existing = {nodes.partition for nodes in slurm.nodes}
    found: dict[str, Request] = {}
    for request in requests:
        if request.partition in existing:
            found.setdefault(request.partition, request)
    return list(found.values())


def _files(slurm: Slurm, request: Request) -> tuple[list[str], list[str]]:
    """Whether a node of the partition has this software and sees a file and a lock of this host."""
    kind = f"{request.gpu_type}:" if request.gpu_type else ""
    options = [f"--gres=gpu:{kind}1"] if request.gpus else []
    options += [f"--account={request.account}"] if request.account else []
    where = f"partition {request.partition}"
    with _locked_file() as (file, text):
        words = [sys.executable, "-m", "rspo.slurm.probe", str(file), text]
        wait = f"--immediate={PROBE_SECONDS}"
        place = ["-p", str(request.partition), "-n1", "-t1", wait, *options]
        try:
            said = slurm.ask("srun", *place, *words, seconds=PROBE_SECONDS + 60).strip()
        except InputError as error:
            if "Unable to allocate resources" in str(error):
                return [], [f"{where}: no node was free: files and software not checked ({error})"]
            return [f"{where}: a node cannot run {sys.executable} -m rspo.slurm.probe: {error}"], []
    if said.endswith("unlocked"):
        return [
            f"{where}: a node ignores a lock that this host holds in {file.parent}: two jobs could "
            "train one cell; mount the file system with flock (Lustre: -o flock; NFS: version 4)"
        ], []
    if not said.endswith("ok"):
        return [
            f"{where}: a node does not see {file.parent} as this host does: run this in a folder "
            "of a shared file system"
        ], []
    return [], [f"{where}: a node sees this folder, its locks and this software"]


@contextmanager
def _locked_file() -> Iterator[tuple[Path, str]]:
    """A file in the current folder with a text of its own, locked by this process."""
    text = os.urandom(8).hex()
    with tempfile.NamedTemporaryFile("w", prefix=".rspo-doctor-", dir=Path.cwd()) as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
        fcntl.flock(stream, fcntl.LOCK_EX)
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
