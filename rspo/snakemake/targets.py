"""What a user meant by a target that no rule makes."""

from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any

from snakemake.exceptions import MissingRuleException, WorkflowError

from rspo.config.experiment import Experiment
from rspo.config.given import OWN_KEYS
from rspo.status.targets import inside, target_meant, targets_by_name

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
    """The target that is most like a given one, with the key of --config that it needs, if any.

    Returns: None if nothing is like it.
    """
    key, _, value = target.partition("=")
    if key in OWN_KEYS and value:
        return f"--config {target}"
    path = inside(Path(target))
    for experiment in _EXPERIMENTS:
        meant = target_meant(path, experiment)
        if meant is not None:
            return meant.words
    targets: dict[str, str] = {rule: rule for rule in rules}
    for experiment in _EXPERIMENTS:
        targets |= targets_by_name(experiment)
    for part in path.parts[:-1]:  # such as the cell in a path of a scale that lacks it
        if part in targets and part not in rules:
            return targets[part]
    for close in get_close_matches(path.name, list(targets), n=1):
        return targets[close]
    return None
