"""The checks before a run, whose findings `rspo doctor` prints.

Snakemake runs them before its first job. A check belongs here if it finds, before a job starts,
something that is certain to stop the job or likely to cost much time.
"""

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace

from rspo.config.experiment import Experiment
from rspo.slurm import cluster_checks, input_checks, node_checks, prerequisites, profile_checks
from rspo.slurm.cluster import NoAnswer
from rspo.slurm.launch import ERROR, INFO, Finding, Kind, Launch

CHECKS: tuple[Callable[[Launch], Iterator[Finding]], ...] = (
    profile_checks.missing_gpus,
    profile_checks.gpus_of_cells,
    profile_checks.signals,
    input_checks.verl_configs,
    input_checks.settings_of_cells,
    input_checks.disk_space,
    input_checks.prompts,
    cluster_checks.requests,
    node_checks.nodes,
)


def findings(experiment: Experiment, rules: Collection[str] = ()) -> list[Finding]:
    """The findings of all checks, the most severe first.

    If SLURM does not answer a check, that is a finding, and the following checks do not ask again.

    Args:
        experiment: the experiment whose jobs the run submits.
        rules: the names of the rules whose jobs the run submits; if empty, all rules.
    """
    launch = Launch.read(experiment, frozenset(rules) or None)
    results: list[Finding] = []
    for check in CHECKS:
        try:
            results.extend(check(launch))
        except NoAnswer as error:
            results.append(_without_cluster(launch, str(error)))
            launch = replace(launch, slurm=None)
    severity = list(Kind)
    return sorted(results, key=lambda finding: severity.index(finding.kind))


def report_machine(experiment: Experiment) -> bool:
    """Print what the jobs need on a node, and whether the machine of this process has it.

    Returns: whether it has everything.
    """
    needs = node_checks.needs_of(experiment, node_checks.RULES)
    found = list(prerequisites.check(needs))
    print(prerequisites.table(found))
    return not any(one.fault for one in found)


def _without_cluster(launch: Launch, reason: str) -> Finding:
    """The finding that SLURM does not answer, which stops only a run that uses it."""
    config = launch.experiment.config
    needs_none = config.engine == "local" and config.sampler == "torch" and not config.starts_judge
    if launch.rules is None and needs_none:
        scale = launch.experiment.scale
        return Finding(
            INFO,
            f"{reason}: the cluster was not checked; the scale {scale} needs none, `snakemake all` "
            "without --profile slurm runs it here",
        )
    return Finding(ERROR, reason)


def report(experiment: Experiment, rules: Collection[str] = ()) -> bool:
    """Print a line for each finding; `rspo.snakemake.preflight` reads these lines.

    Returns: whether there are neither errors nor warnings.
    """
    results = findings(experiment, rules)
    for finding in results:
        print(f"{finding.kind:7}  {finding.line}")
    is_fine = all(finding.kind is INFO for finding in results)
    if is_fine:
        print("nothing to change")
    return is_fine
