"""The files that Snakemake makes for an experiment, and which of them a user's path means."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from rspo.config.experiment import Experiment
from rspo.config.files import Files
from rspo.config.given import DEFAULT_SCALE
from rspo.core.errors import InputError
from rspo.figures import SUFFIXES, figures_of
from rspo.pipeline import tasks


@dataclass(frozen=True)
class Target:
    """A file that Snakemake makes.

    config: the key of --config that the run needs in addition, such as "scale=paper", if any.
    """

    path: str
    config: str = ""

    @property
    def words(self) -> str:
        """The path and the key, for a message."""
        return f"{self.path} with --config {self.config}" if self.config else self.path

    @property
    def command(self) -> str:
        """The command that makes the file, beginning with the default experiment."""
        return f"snakemake {self.path}" + (f" --config {self.config}" if self.config else "")


def target_meant(path: Path, experiment: Experiment) -> Target | None:
    """The file of an experiment, or of another scale, that a user's path means exactly.

    Args:
        path: a path, perhaps absolute or in another folder of results, or a name without its
            folder, such as a cell or fig_main.pdf.

    Returns: None if no experiment has such a file.
    """
    path = inside(path)
    target = _own_target(path, experiment)
    if target is not None:
        return target
    for other in _other_scales(experiment):
        target = _own_target(path, other)
        if target is not None:
            return Target(target.path, f"scale={other.scale}")
    return None


def inside(path: Path) -> Path:
    """A path relative to the current folder, if it is in it: Snakemake knows only such paths."""
    if path.is_absolute() and path.is_relative_to(Path.cwd()):
        return path.relative_to(Path.cwd())
    return path


def _own_target(path: Path, experiment: Experiment) -> Target | None:
    """The file of an experiment that a path means, perhaps in another folder."""
    files = experiment.files
    targets = _targets(experiment)
    if str(path) in targets:  # the user gave it as an absolute path
        return Target(str(path))
    own = Files.of_scale(experiment.scale, experiment.root)
    scales = own.results.parent  # has a folder for each scale, each with results of its own
    for scale in _scales(experiment):
        if scale != experiment.scale and path.is_relative_to(scales / scale):
            return None
    for parent in path.parents:
        for folder in (files.results, files.reports):
            meant = str(folder / path.relative_to(parent))
            if meant not in targets:
                continue
            results = parent.parent if parent.name == "reports" else parent
            if files.results == own.results and _is_folder_of_results(results):
                return Target(str(path), f"results={results}")
            return Target(meant)
    meant_by_name = targets_by_name(experiment).get(path.name)
    return None if meant_by_name is None else Target(meant_by_name)


def _is_folder_of_results(folder: Path) -> bool:
    """Whether results are in a folder, such as that of a trial run."""
    return (folder / "cells").is_dir() or (folder / "problems").is_dir()


def _other_scales(experiment: Experiment) -> Iterator[Experiment]:
    """The experiments of the other config files that can be read, in the same folder of results."""
    results = experiment.files.results if experiment.files.are_elsewhere else None
    for scale in _scales(experiment):
        if scale != experiment.scale:
            with suppress(InputError):  # an error in a config that this run does not use
                yield Experiment.load(scale, root=experiment.root, results=results)


def _scales(experiment: Experiment) -> list[str]:
    """The names of all config files; the default one is first."""
    names = [DEFAULT_SCALE]
    names += sorted(file.stem for file in (experiment.root / "config").glob("*.yaml"))
    return list(dict.fromkeys(names))


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
