"""The checks before a run. `rspo doctor` prints them, and Snakemake runs them before its first job.

Whatever is certain to stop a job and can be known earlier belongs to this list.
"""

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace

from rspo.config.experiment import Experiment
from rspo.slurm import cluster_checks, input_checks, node_checks, profile_checks
from rspo.slurm.cluster import NoAnswer
from rspo.slurm.launch import ERROR, INFO, Finding, Kind, Launch

CHECKS: tuple[Callable[[Launch], Iterator[Finding]], ...] = (
    profile_checks.missing_gpus,
    profile_checks.gpus_of_ranks,
    profile_checks.signals,
    input_checks.verl_configs,
    input_checks.gpu_memory,
    input_checks.disk_space,
    input_checks.prompts,
    cluster_checks.requests,
    node_checks.locks,
)


def findings(experiment: Experiment, rules: Collection[str] = ()) -> list[Finding]:
    """The findings of all checks, the most severe first.

    If SLURM does not answer, this is one finding, and nothing else of the cluster is checked.

    Args:
        rules: whose jobs the run submits; none: all.
    """
    launch = Launch.read(experiment, frozenset(rules) or None)
    found: list[Finding] = []
    for check in CHECKS:
        try:
            found.extend(check(launch))
        except NoAnswer as error:
            found.append(Finding(ERROR, str(error)))
            launch = replace(launch, slurm=None)
    return sorted(found, key=lambda finding: list(Kind).index(finding.kind))


def report(experiment: Experiment, rules: Collection[str] = ()) -> bool:
    """Print every finding on a line; returns whether nothing must change."""
    found = findings(experiment, rules)
    for finding in found:
        print(f"{finding.kind:7}  {finding.line}")
    fine = all(finding.kind is INFO for finding in found)
    if fine:
        print("nothing to change")
    return fine
