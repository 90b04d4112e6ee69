"""`rspo doctor`: checks slurm/config.yaml against the cluster, and says what to change."""

from collections.abc import Iterator, Mapping
from typing import Any

from rspo.config.experiment import Experiment
from rspo.core.errors import InputError
from rspo.slurm import profile_checks
from rspo.slurm.cluster import NodeGroup, Slurm
from rspo.slurm.node_checks import check_locks, check_nodes
from rspo.slurm.profile import Request, options_of_all_jobs, read_profile
from rspo.slurm.profile_checks import format_hours, is_training

Profile = Mapping[str, Any]


def findings(experiment: Experiment) -> tuple[list[str], list[str]]:
    """What must change, and what is right or could not be checked; a line each.

    Raises: InputError if the profile is invalid or SLURM does not answer.
    """
    profile, requests = read_profile()
    used = profile_checks.used_requests(experiment, requests)
    without_locks = list(check_locks())
    change = [*profile_checks.problems(experiment, requests), *without_locks]
    notes = [*profile_checks.notes(experiment, profile, requests)]
    if not Slurm.is_here():
        notes.append(
            "SLURM is not installed on this machine (no sinfo): the cluster was not checked"
        )
        return change, notes
    slurm, accepted = Slurm(), []
    for request in used:
        nodes = experiment.nodes if request.rule == "train_on_nodes" else 1
        wrong = list(_request(slurm, request, nodes)) or _refused(slurm, profile, request, nodes)
        change += wrong
        accepted += [] if wrong else [request]
    change += _preemption(slurm, used)
    change += _job_history(slurm, profile)
    notes += _privacy(slurm)
    if not without_locks:
        problems, remarks = check_nodes(slurm, profile, accepted)
        change += problems
        notes += remarks
    return change, notes


def _request(slurm: Slurm, request: Request, needed: int) -> Iterator[str]:
    """Whether the partition has nodes for the jobs of one rule.

    Args:
        needed: number of nodes of a job.
    """
    partitions = sorted({nodes.partition for nodes in slurm.nodes})
    there = [nodes for nodes in slurm.nodes if nodes.partition == request.partition]
    if request.partition is not None and not there:
        yield (
            f"{request.key}.slurm_partition = {request.partition!r} does not exist here; "
            f"allowed: {', '.join(partitions)}"
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
    """Whether the request exceeds the time, memory or CPUs of these nodes."""
    limits = [nodes.minutes for nodes in there]
    longest = None if None in limits else max(limit for limit in limits if limit is not None)
    if longest is not None and (request.minutes or 0) > longest:
        several = " (each training then takes several jobs)" if is_training(request) else ""
        yield (
            f"{request.key}.runtime = {format_hours(request.minutes or 0)} is longer than "
            f"partition {request.partition} allows; set {format_hours(longest)}{several}"
        )
    if request.megabytes > (most := max(nodes.megabytes for nodes in there)):
        yield f"{request.key}.mem_mb = {request.megabytes}: its nodes have {most}"
    if request.cpus > (most := max(nodes.cpus for nodes in there)):
        yield f"{request.key}.cpus_per_task = {request.cpus}: its nodes have {most}"


def _refused(slurm: Slurm, profile: Profile, request: Request, nodes: int) -> list[str]:
    """Why SLURM itself refuses such a job, or cannot requeue it."""
    several = [f"--nodes={nodes}", f"--ntasks={nodes}"] if nodes > 1 else []
    options = [*request.options, *several, *options_of_all_jobs(profile)]
    if reason := slurm.refusal(*options):
        return [f"{request.key}: sbatch {' '.join(options)}: {reason}"]
    try:
        stays = is_training(request) and not slurm.allows_requeue(*options)
    except InputError as error:
        return [f"{request.key}: {error}"]
    if stays:
        return [
            f"{request.key}: SLURM does not requeue such jobs (Requeue = 0), so each part of a "
            "training is a job of its own: set retries to the hours of a cell divided by those of "
            "the time limit, rounded up, and slurm-requeue: false (otherwise Snakemake does not "
            "retry a job whose node is lost)"
        ]
    return []


def _preemption(slurm: Slurm, used: list[Request]) -> Iterator[str]:
    """Whether SLURM requeues preempted jobs, by partition or for the whole cluster."""
    settings = slurm.settings
    everywhere = settings.get("PreemptMode", "OFF")
    by_partition = settings.get("PreemptType") == "preempt/partition_prio"
    for partition in sorted({request.partition or "" for request in used}):
        mode = slurm.preempt_modes.get(partition, everywhere) if by_partition else everywhere
        if "CANCEL" in mode.split(","):
            yield (
                f"SLURM cancels preempted jobs of partition {partition or '(default)'} "
                "(PreemptMode = CANCEL), and Snakemake would wait for them: choose a partition "
                "whose jobs are not preempted"
            )


def _job_history(slurm: Slurm, profile: Profile) -> Iterator[str]:
    """Whether SLURM remembers ended jobs until Snakemake asks for their state."""
    if profile.get("slurm-status-command") != "squeue":
        return
    age = int(slurm.settings.get("MinJobAge", "300").split()[0])
    if slurm.settings.get("AccountingStorageType") == "accounting_storage/slurmdbd":
        yield (
            f"slurm/config.yaml: slurm-status-command = squeue forgets ended jobs after {age} s "
            "(MinJobAge), and this cluster has accounting, which keeps them: set sacct"
        )
    elif age < 240:
        yield (
            f"SLURM forgets ended jobs after {age} s (MinJobAge), and Snakemake checks them every "
            "three minutes: it may wait forever; ask your cluster's administrators for 300 s"
        )


def _privacy(slurm: Slurm) -> Iterator[str]:
    """Whether the check for jobs of other users can see them."""
    if "jobs" in slurm.settings.get("PrivateData", "").split(","):
        yield (
            "SLURM hides the jobs of other users (PrivateData has jobs): your run cannot see at "
            "its start that another user's jobs work in this folder; file locks still protect "
            "each cell"
        )


def report(experiment: Experiment) -> bool:
    """Print every finding on a line; returns whether nothing must change."""
    change, notes = findings(experiment)
    lines = [*(f"change  {line}" for line in change), *(f"        {line}" for line in notes)]
    print("\n".join(lines if change else [*lines, "nothing to change"]))
    return not change
