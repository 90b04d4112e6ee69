"""Check whether SLURM accepts, starts and requeues the jobs that slurm/config.yaml describes."""

import math
from collections.abc import Iterator
from functools import cache

from rspo.slurm.cluster import Refused, Slurm, time_limit
from rspo.slurm.launch import ERROR, INFO, WARNING, Finding, Launch
from rspo.slurm.profile import Request, format_hours, options_of_all_jobs, setting


def requests(launch: Launch) -> Iterator[Finding]:
    """Check whether SLURM accepts the request of each rule, and requeues such jobs."""
    if launch.slurm is None:
        yield Finding(
            INFO,
            "SLURM is not installed on this machine (no sinfo): the cluster was not checked",
        )
        return
    seen = set[Finding]()
    for request in launch.used:
        for finding in _findings(launch, launch.slurm, request):
            if finding not in seen:
                seen.add(finding)
                yield finding


def accepted(launch: Launch, slurm: Slurm) -> list[Request]:
    """The requests whose jobs SLURM does not refuse."""
    requests = []
    for request in launch.used:
        kinds = {finding.kind for finding in _findings(launch, slurm, request)}
        if ERROR not in kinds:
            requests.append(request)
    return requests


@cache  # `requests` and `accepted` need the findings, which take several commands of SLURM
def _findings(launch: Launch, slurm: Slurm, request: Request) -> list[Finding]:
    """The findings of `_check_request`."""
    return list(_check_request(launch, slurm, request))


def _check_request(launch: Launch, slurm: Slurm, request: Request) -> Iterator[Finding]:
    """Check whether SLURM accepts, starts and requeues a job with this request."""
    options = list(request.options) + options_of_all_jobs(launch.profile)
    asked = f"{request.key}: sbatch {' '.join(options)}"
    try:
        job = slurm.later_job(*options)
    except Refused as error:
        yield Finding(ERROR, f"{asked}: {error}; {_resources_of_cluster(slurm, request)}")
        return
    partition = job.get("Partition", "")
    longest = max(_longest_minutes(slurm, name) for name in partition.split(","))
    minutes = time_limit(job.get("TimeLimit", "")) or 0
    if minutes > longest:
        several = " (each training then takes several jobs)" if request.rule == "train" else ""
        yield Finding(
            ERROR,
            f"{request.key}.runtime = {format_hours(minutes)} is longer than partition "
            f"{partition} allows; set {format_hours(longest)}{several}",
        )
    elif slurm.never_starts(partition, *options):
        resources = _resources_of_cluster(slurm, request)
        yield Finding(ERROR, f"{asked}: SLURM would never start it; {resources}")
    # A job that ends before its training does is requeued, so that the same job continues it. The
    # profile may decide against that, by the setting whose key is `requeue`.
    requeue = setting(launch.profile, "requeue")
    must_requeue = request.rule == "train" and launch.profile.get(requeue, True)
    if must_requeue and job.get("Requeue") != "1":
        yield Finding(
            WARNING,
            f"{request.key}: SLURM does not requeue such jobs (Requeue = 0), so each part of a "
            "training is a job of its own: set retries to the hours of a cell divided by those of "
            f"the time limit, rounded up, and {requeue}: false (otherwise Snakemake does not retry "
            "a job whose node is lost)",
        )


def _longest_minutes(slurm: Slurm, partition: str) -> float:
    """The longest time limit that a partition allows; infinity if it has no maximum."""
    limit = time_limit(slurm.partitions.get(partition, {}).get("MaxTime", ""))
    return math.inf if limit is None else limit


def _resources_of_cluster(slurm: Slurm, request: Request) -> str:
    """Words for the nodes and time limits of the partitions that a request names.

    If the cluster does not have one of them, the words name the partitions that it has.
    """
    if not set(request.partitions) <= slurm.partitions.keys():
        return f"partitions here: {', '.join(sorted(slurm.partitions))}"
    chosen = f"--partition={request.partition}" if request.partition else "--all"
    # %R is the name of the partition, %c CPUs, %m memory, %G GPUs and %l the time limit.
    layout = "partition %R has nodes with %c CPUs, %m MB and %G, for %l"
    return ", ".join(slurm.ask("sinfo", chosen, "-h", "-e", "-o", layout).splitlines())
