"""Checks of slurm/config.yaml against SLURM's partitions, limits and settings."""

from collections.abc import Iterator, Mapping
from functools import cache

from rspo.slurm.cluster import NodeGroup, Refused, Slurm
from rspo.slurm.launch import ERROR, INFO, WARNING, Finding, Launch
from rspo.slurm.profile import (
    PROFILE,
    Request,
    format_hours,
    options_of_all_jobs,
    setting,
)


def requests(launch: Launch) -> Iterator[Finding]:
    """Whether SLURM has nodes for each request, and accepts and requeues such jobs."""
    if launch.slurm is None:
        yield Finding(
            INFO,
            "SLURM is not installed on this machine (no sinfo): the cluster was not checked",
        )
        return
    for request in launch.used:
        yield from _of_request(launch, launch.slurm, request)


def accepted(launch: Launch, slurm: Slurm) -> list[Request]:
    """The requests that SLURM has nodes for and whose jobs it does not refuse."""
    return [
        request
        for request in launch.used
        if request.is_complete
        and all(finding.kind is not ERROR for finding in _of_request(launch, slurm, request))
    ]


@cache
def _of_request(launch: Launch, slurm: Slurm, request: Request) -> list[Finding]:
    missing = [Finding(ERROR, line) for line in _nodes(slurm, request)]
    if missing or not request.is_complete:
        return missing
    return list(_submission(launch, slurm, request))


def _nodes(slurm: Slurm, request: Request) -> Iterator[str]:
    """What is missing in the partition for the jobs of one rule."""
    partitions = {nodes.partition for nodes in slurm.nodes}
    if unknown := set(request.partitions) - partitions:
        yield (
            f"{request.key}.slurm_partition = {','.join(sorted(unknown))!r} does not exist here; "
            f"allowed: {', '.join(sorted(partitions))}"
        )
        return
    # With several partitions, one is enough here; `_submission` tests what the cluster enforces.
    wanted = set(request.partitions) or partitions
    there = [nodes for nodes in slurm.nodes if nodes.partition in wanted]
    with_gpus = [nodes for nodes in there if nodes.gpus_of(request.gpu_type) >= request.gpus]
    if not with_gpus:
        has = sorted({f"gpu:{k}:{n}" for nodes in there for k, n in nodes.gpus.items()})
        yield (
            f"{request.key}.gres = {request.gres!r}: the nodes of partition {request.partition} "
            f"have {', '.join(has) or 'no GPUs'}"
        )
        return
    yield from _limits(request, with_gpus)


def _limits(request: Request, there: list[NodeGroup]) -> Iterator[str]:
    """Whether the request exceeds the time, memory or CPUs of these nodes."""
    limits = [nodes.minutes for nodes in there]
    longest = None if None in limits else max(limit for limit in limits if limit is not None)
    if longest is not None and (request.minutes or 0) > longest:
        several = " (each training then takes several jobs)" if request.rule == "train" else ""
        yield (
            f"{request.key}.runtime = {format_hours(request.minutes or 0)} is longer than "
            f"partition {request.partition} allows; set {format_hours(longest)}{several}"
        )
    if request.megabytes > (most := max(nodes.megabytes for nodes in there)):
        yield f"{request.key}.mem_mb = {request.megabytes}: its nodes have {most}"
    if request.cpus > (most := max(nodes.cpus for nodes in there)):
        yield f"{request.key}.cpus_per_task = {request.cpus}: its nodes have {most}"


def _submission(launch: Launch, slurm: Slurm, request: Request) -> Iterator[Finding]:
    """Whether SLURM itself refuses such a job, or cannot requeue it."""
    options = [*request.options, *options_of_all_jobs(launch.profile)]
    try:
        job = slurm.held_job(*options)
    except Refused as error:
        yield Finding(ERROR, f"{request.key}: sbatch {' '.join(options)}: {error}")
        return
    requeue = setting(launch.profile, "requeue")
    is_asked = request.rule == "train" and launch.profile.get(requeue, True)
    if is_asked and job.get("Requeue") != "1":
        yield Finding(
            WARNING,
            f"{request.key}: SLURM does not requeue such jobs (Requeue = 0), so each part of a "
            "training is a job of its own: set retries to the hours of a cell divided by those of "
            f"the time limit, rounded up, and {requeue}: false (otherwise Snakemake does not retry "
            "a job whose node is lost)",
        )


def preemption(launch: Launch) -> Iterator[Finding]:
    """Whether SLURM requeues preempted jobs, by partition or for the whole cluster."""
    if launch.slurm is None:
        return
    settings = launch.slurm.settings
    everywhere, age = settings.get("PreemptMode", "OFF"), _seconds_remembered(settings)
    by_partition = settings.get("PreemptType") == "preempt/partition_prio"
    wanted = {name for request in launch.used for name in request.partitions or [""]}
    for partition in sorted(wanted):
        modes = launch.slurm.preempt_modes if by_partition else {}
        if "CANCEL" in modes.get(partition, everywhere).split(","):
            yield Finding(
                WARNING,
                f"SLURM cancels preempted jobs of partition {partition or '(default)'} "
                "(PreemptMode = CANCEL), and Snakemake submits them again only when SLURM forgets "
                f"them, after {age} s, at most five times: choose a partition whose "
                "jobs are requeued or not preempted",
            )


def job_history(launch: Launch) -> Iterator[Finding]:
    """Whether SLURM remembers ended jobs until Snakemake asks for their state."""
    command = setting(launch.profile, "status-command")
    if launch.slurm is None or launch.profile.get(command) != "squeue":
        return
    settings = launch.slurm.settings
    age = _seconds_remembered(settings)
    if settings.get("AccountingStorageType") == "accounting_storage/slurmdbd":
        yield Finding(
            WARNING,
            f"{PROFILE}: {command} = squeue forgets ended jobs after {age} s "
            "(MinJobAge), and this cluster has accounting, which keeps them: set sacct",
        )
    elif age < 120:
        yield Finding(
            WARNING,
            f"SLURM forgets ended jobs after {age} s (MinJobAge), and Snakemake looks at them "
            "every minute: it may submit a failed job again without using a retry, because it "
            "cannot see that the job failed; ask your cluster's administrators for 300 s",
        )


def _seconds_remembered(settings: Mapping[str, str]) -> int:
    """How long SLURM remembers ended jobs."""
    return int(settings.get("MinJobAge", "300").split()[0])
