"""Whether SLURM accepts, runs and requeues the jobs of slurm/config.yaml."""

from collections.abc import Iterator
from functools import cache

from rspo.slurm.cluster import Refused, Slurm, time_limit
from rspo.slurm.launch import ERROR, INFO, WARNING, Finding, Launch
from rspo.slurm.profile import Request, format_hours, options_of_all_jobs, setting


def requests(launch: Launch) -> Iterator[Finding]:
    """Whether SLURM accepts each request, and requeues such jobs."""
    if launch.slurm is None:
        yield Finding(
            INFO,
            "SLURM is not installed on this machine (no sinfo): the cluster was not checked",
        )
        return
    seen = set[Finding]()
    for request in launch.used:
        for finding in _of_request(launch, launch.slurm, request):
            if finding not in seen:
                seen.add(finding)
                yield finding


def accepted(launch: Launch, slurm: Slurm) -> list[Request]:
    """The requests whose jobs SLURM does not refuse."""
    return [
        request
        for request in launch.used
        if all(finding.kind is not ERROR for finding in _of_request(launch, slurm, request))
    ]


@cache
def _of_request(launch: Launch, slurm: Slurm, request: Request) -> list[Finding]:
    return list(_submission(launch, slurm, request))


def _submission(launch: Launch, slurm: Slurm, request: Request) -> Iterator[Finding]:
    """What SLURM says of such a job: whether it accepts, starts and requeues it."""
    options = [*request.options, *options_of_all_jobs(launch.profile)]
    asked = f"{request.key}: sbatch {' '.join(options)}"
    try:
        job = slurm.later_job(*options)
    except Refused as error:
        yield Finding(ERROR, f"{asked}: {error}; {_what_is_there(slurm, request)}")
        return
    partition = job.get("Partition", "")
    settings = [slurm.partitions.get(name, {}) for name in partition.split(",")]
    limits = [time_limit(one.get("MaxTime", "")) for one in settings]
    longest = max(float("inf") if limit is None else limit for limit in limits)
    if (minutes := time_limit(job.get("TimeLimit", "")) or 0) > longest:
        several = " (each training then takes several jobs)" if request.rule == "train" else ""
        yield Finding(
            ERROR,
            f"{request.key}.runtime = {format_hours(minutes)} is longer than partition "
            f"{partition} allows; set {format_hours(longest)}{several}",
        )
    elif slurm.never_starts(partition, *options):
        there = _what_is_there(slurm, request)
        yield Finding(ERROR, f"{asked}: SLURM would never start it; {there}")
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


def _what_is_there(slurm: Slurm, request: Request) -> str:
    """The partitions, or the nodes and time limits of those of a request."""
    if not set(request.partitions) <= slurm.partitions.keys():
        return f"partitions here: {', '.join(sorted(slurm.partitions))}"
    chosen = f"--partition={request.partition}" if request.partition else "--all"
    layout = "partition %R has nodes with %c CPUs, %m MB and %G, for %l"
    return ", ".join(slurm.ask("sinfo", chosen, "-h", "-e", "-o", layout).splitlines())
