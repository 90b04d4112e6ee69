"""What a user meant by a target that no rule makes."""

from collections.abc import Iterator
from contextlib import suppress
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any

from snakemake.exceptions import MissingRuleException, WorkflowError

from rspo.config.experiment import Experiment
from rspo.config.files import Files
from rspo.config.given import DEFAULT_SCALE
from rspo.core.errors import InputError
from rspo.figures import SUFFIXES, figures_of
from rspo.pipeline import tasks

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
    path = Path(target)
    if path.is_absolute() and path.is_relative_to(Path.cwd()):
        path = path.relative_to(Path.cwd())
    for experiment in _EXPERIMENTS:
        meant = _exact(path, experiment)
        if meant is not None:
            return meant
    for experiment in _EXPERIMENTS:
        for other in _other_scales(experiment):
            meant = _exact(path, other)
            if meant is not None:
                return f"{meant} with --config scale={other.scale}"
    targets: dict[str, str] = {rule: rule for rule in rules}
    for experiment in _EXPERIMENTS:
        targets |= targets_by_name(experiment)
    for part in path.parts[:-1]:  # such as the cell in a path of a scale that lacks it
        if part in targets and part not in rules:
            return targets[part]
    for close in get_close_matches(path.name, list(targets), n=1):
        return targets[close]
    return None


def _exact(path: Path, experiment: Experiment) -> str | None:
    """The target of an experiment with the same file, perhaps in another folder.

    Args:
        path: relative to the current folder if it is in it.
    """
    files = experiment.files
    targets = _targets(experiment)
    if str(path) in targets:  # the user gave it as an absolute path
        return str(path)
    own = Files.of_scale(experiment.scale, experiment.root)
    scales = Path("results")  # has a folder for each scale, each with results of its own
    for parent in path.parents:
        inside = path.relative_to(parent)
        for folder in (files.results, files.reports):
            meant = str(folder / inside)
            if meant not in targets:
                continue
            if parent.parent == scales and parent != own.results:
                return None  # of another scale
            results = parent.parent if parent.name == "reports" else parent
            if files.results == own.results and _is_folder_of_results(results):
                return f"{path} with --config results={results}"
            return meant
    return targets_by_name(experiment).get(path.name)


def _is_folder_of_results(folder: Path) -> bool:
    """Whether results are in a folder, such as that of a trial run."""
    return (folder / "cells").is_dir() or (folder / "problems").is_dir()


def _other_scales(experiment: Experiment) -> Iterator[Experiment]:
    """The experiments of the other config files that can be read, in the same folder of results."""
    results = experiment.files.results if experiment.files.are_elsewhere else None
    scales = [DEFAULT_SCALE]
    scales += sorted(file.stem for file in (experiment.root / "config").glob("*.yaml"))
    for scale in dict.fromkeys(scales):
        if scale != experiment.scale:
            with suppress(InputError):  # an error in a config that this run does not use
                yield Experiment.load(scale, root=experiment.root, results=results)


def _targets(experiment: Experiment) -> set[str]:
    """The files of an experiment: results, tables, figures and pages."""
    names = set(targets_by_name(experiment).values())
    return names | {str(path) for path, _ in tasks.results(experiment)}


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
