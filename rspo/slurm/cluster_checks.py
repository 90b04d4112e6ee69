"""Checks of slurm/config.yaml against SLURM's partitions, limits and settings."""

from collections.abc import Iterator, Mapping
from functools import cache

from rspo.slurm.cluster import Refused, Slurm, time_limit
from rspo.slurm.launch import Finding, Kind, Launch, is_training
from rspo.slurm.profile import PROFILE, Request, options_of_all_jobs, setting
from rspo.slurm.profile_checks import format_hours


def requests(launch: Launch) -> Iterator[Finding]:
    """Whether SLURM accepts and requeues the jobs of each request."""
    if launch.slurm is None:
        yield Finding(
            Kind.NOTE,
            "SLURM is not installed on this machine (no sinfo): the cluster was not checked",
        )
        return
    for request in launch.used:
        yield from _of_request(launch, launch.slurm, request)


def accepted(launch: Launch, slurm: Slurm) -> list[Request]:
    """The requests whose jobs SLURM does not refuse."""
    return [
        request
        for request in launch.used
        if request.is_complete
        and all(finding.kind is not Kind.STOPS for finding in _of_request(launch, slurm, request))
    ]


@cache
def _of_request(launch: Launch, slurm: Slurm, request: Request) -> list[Finding]:
    found = [Finding(Kind.STOPS, line) for line in _partitions(slurm, request)]
    return found or (list(_submission(launch, slurm, request)) if request.is_complete else [])


def _partitions(slurm: Slurm, request: Request) -> Iterator[str]:
    """Whether the partitions exist, and one of them has the time: many clusters accept such jobs,
    which then wait forever."""
    if unknown := set(request.partitions) - set(slurm.partitions):
        yield (
            f"{request.key}.slurm_partition = {','.join(sorted(unknown))!r} does not exist here; "
            f"allowed: {', '.join(sorted(slurm.partitions))}"
        )
        return
    limits = [time_limit(slurm.partitions[name].get("MaxTime", "")) for name in request.partitions]
    longest = max((limit for limit in limits if limit is not None), default=None)
    if longest is not None and None not in limits and (request.minutes or 0) > longest:
        several = " (each training then takes several jobs)" if is_training(request) else ""
        yield (
            f"{request.key}.runtime = {format_hours(request.minutes or 0)} is longer than "
            f"partition {request.partition} allows; set {format_hours(longest)}{several}"
        )


def _submission(launch: Launch, slurm: Slurm, request: Request) -> Iterator[Finding]:
    """Whether SLURM refuses such a job, or cannot requeue it."""
    nodes = launch.experiment.nodes if request.rule == "train_on_nodes" else 1
    several = [f"--nodes={nodes}", f"--ntasks={nodes}"] if nodes > 1 else []
    options = [*request.options, *several, *options_of_all_jobs(launch.profile)]
    try:
        job = slurm.held_job(*options)
    except Refused as error:
        yield Finding(Kind.STOPS, f"{request.key}: sbatch {' '.join(options)}: {error}")
        return
    requeue = setting(launch.profile, "requeue")
    if is_training(request) and launch.profile.get(requeue, True) and job.get("Requeue") != "1":
        yield Finding(
            Kind.CHANGE,
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
        row = launch.slurm.partitions.get(partition, {}) if by_partition else {}
        if "CANCEL" in row.get("PreemptMode", everywhere).split(","):
            yield Finding(
                Kind.CHANGE,
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
            Kind.CHANGE,
            f"{PROFILE}: {command} = squeue forgets ended jobs after {age} s "
            "(MinJobAge), and this cluster has accounting, which keeps them: set sacct",
        )
    elif age < 120:
        yield Finding(
            Kind.CHANGE,
            f"SLURM forgets ended jobs after {age} s (MinJobAge), and Snakemake looks at them "
            "every minute: it may submit a failed job again without using a retry, because it "
            "cannot see that the job failed; ask your cluster's administrators for 300 s",
        )


def _seconds_remembered(settings: Mapping[str, str]) -> int:
    """How long SLURM remembers ended jobs."""
    return int(settings.get("MinJobAge", "300").split()[0])


def privacy(launch: Launch) -> Iterator[Finding]:
    """Whether the check for jobs of other users can see them."""
    if launch.slurm and "jobs" in launch.slurm.settings.get("PrivateData", "").split(","):
        yield Finding(
            Kind.NOTE,
            "SLURM hides the jobs of other users (PrivateData has jobs): your run cannot see at "
            "its start that another user's jobs work in this folder; file locks still protect "
            "each cell",
        )
