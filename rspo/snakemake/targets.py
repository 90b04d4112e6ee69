"""What a user meant by a target that no rule makes."""

from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any

from snakemake.exceptions import MissingRuleException, WorkflowError

from rspo.config.experiment import Experiment
from rspo.figures import SUFFIXES, figures_of

_EXPERIMENTS: list[Experiment] = []  # those of this run; a Snakefile with modules has several


def suggest_targets(experiment: Experiment) -> None:
    """Name the target that exists where a user names a cell, a file without its folder, or a path.

    A cell such as small--rspo-pass--k4--n16--s0 is no file of Snakemake; its policy is. Snakemake
    compares paths as text, so that it knows no absolute path.
    """
    _EXPERIMENTS.append(experiment)
    _patch()


@cache
def _patch() -> None:
    """Make Snakemake ask for a suggestion. A second call has no effect.

    Private: `DAG.file2jobs` returns the jobs that make a file, or raises MissingRuleException;
    `DAG.targetfiles` has the targets that are no names of rules. Rules of a user's own Snakefile
    are known by then.
    """
    from snakemake.dag import DAG

    file2jobs = DAG.file2jobs

    async def file2jobs_or_suggestion(dag: DAG, targetfile: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return await file2jobs(dag, targetfile, *args, **kwargs)
        except MissingRuleException:
            if targetfile not in dag.targetfiles:  # an input of a rule
                raise
            rules = [rule.name for rule in dag.workflow.rules if not rule.has_wildcards()]
            meant = _meant(str(targetfile), rules)
            if meant is None:
                raise
        raise WorkflowError(f"no rule makes {targetfile}; did you mean {meant}?")

    DAG.file2jobs = file2jobs_or_suggestion


def _meant(target: str, rules: list[str]) -> str | None:
    """The target of this run that is most like a given one; None if nothing is like it."""
    targets: dict[str, str] = {rule: rule for rule in rules}
    for experiment in _EXPERIMENTS:
        targets |= targets_by_name(experiment)
    path = Path(target)
    if path.is_absolute() and path.is_relative_to(Path.cwd()):
        return str(path.relative_to(Path.cwd()))
    if path.name in targets:
        return targets[path.name]
    for close in get_close_matches(path.name, list(targets), n=1):
        return targets[close]
    return None


def targets_by_name(experiment: Experiment) -> dict[str, str]:
    """The targets of an experiment, by the names that a user may give without their folders."""
    files = experiment.files
    targets = {}
    for name in list(experiment.policies) + list(experiment.every_cell):
        targets[name] = str(files.policy(name))
    for name in experiment.data_sets:
        targets[files.problems(name).name] = str(files.problems(name))
    for name in list(figures_of(experiment)):
        targets[name] = str(files.reports / f"{name}{SUFFIXES[0]}")
        for suffix in SUFFIXES:
            targets[f"{name}{suffix}"] = str(files.reports / f"{name}{suffix}")
    for table in ["cost"] + list(experiment.config.studies):
        targets[f"{table}.csv"] = str(files.table(table))
    for page in ("report.html", "claims.csv", "claim_comparisons.csv"):
        targets[page] = str(files.reports / page)
    return targets
