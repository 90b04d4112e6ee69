"""What a figure is: its files, its inputs, and the settings that decide its content."""

import logging
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

import pandas as pd

import rspo.objectives
from rspo.analysis import claims
from rspo.analysis.comparisons import Method
from rspo.config.experiment import Experiment
from rspo.core.errors import InputError
from rspo.core.files import atomic_write
from rspo.figures import style
from rspo.figures.methods import labels_of_models, methods_of
from rspo.figures.style import Picture
from rspo.objectives import OBJECTIVES, compared
from rspo.pipeline import tasks
from rspo.pipeline.run import run
from rspo.pipeline.task import Task

logging.getLogger("fontTools").setLevel(logging.ERROR)  # it warns about a font's age

FOLDER = Path(__file__).parent
SUFFIXES = (".pdf", ".png", ".csv")

Metric = Literal["pass_at_k", "max_at_k"]

INPUTS = ("curves", "scores", "training_logs", "training_set", "comparisons", "study", "objectives")


@dataclass(frozen=True)
class Figure:
    """One figure: what it shows, what it reads, and how it is drawn.

    In a figure of results, `table` is called with the experiment and this figure, and `draw` with
    the table, the experiment and this figure. In a figure of formulas, `table` is called without
    arguments, and `draw` with the table.

    name: name of its files, without suffix.
    caption: what it shows.
    table: returns every number that is drawn; this table is the figure's CSV file.
    draw: returns the picture of this table.
    grids: names in config.grid or config.studies; empty for a figure of formulas.
    inputs: what it reads, as names in `INPUTS`: curves, scores and training_logs are those of its
        policies, training_set is the table of training problems, comparisons are those of the
        claims, and study is the table of the study that is its only grid. objectives is no file,
        but the code of the objectives that `compared` names.
    objectives: it draws only the cells with these objectives; empty means all.
    metric: metric of its curves, pass_at_k or max_at_k.
    """

    name: str
    caption: str
    table: Callable[..., pd.DataFrame]
    draw: Callable[..., Picture]
    grids: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    objectives: tuple[str, ...] = ()
    metric: Metric = "pass_at_k"

    def __post_init__(self) -> None:
        if not set(self.inputs) <= set(INPUTS):
            inputs = ", ".join(self.inputs)
            raise ValueError(f"{self.name}: inputs are {inputs}; allowed: {', '.join(INPUTS)}")

    def reads(self, *kinds: str) -> bool:
        """Whether it has one of these inputs."""
        return any(kind in self.inputs for kind in kinds)

    @property
    def of_results(self) -> bool:
        """Whether it shows results of an experiment, rather than only formulas."""
        return bool(self.grids)

    def policies(self, experiment: Experiment) -> list[str]:
        """Names of the policies that it draws, each once.

        Base policies come first; they are left out if the figure reads neither curves nor scores.
        """
        policies = []
        if self.reads("curves", "scores"):
            policies += [base for grid in self.grids for base in experiment.bases_of(grid)]
        for grid in self.grids:
            for cell in experiment.cells_of(grid):
                if not self.objectives or cell.objective in self.objectives:
                    policies.append(cell.name)
        return list(dict.fromkeys(policies))

    def suite(self, experiment: Experiment) -> str:
        """The suite whose benchmarks are the panels.

        Raises: InputError if its grids have several suites, or none.
        """
        suites = {experiment.grid_entry(grid).suite for grid in self.grids}
        if len(suites) != 1 or "" in suites:
            raise InputError(
                f"config/{experiment.scale}.yaml: {self.name} draws its grids in the same panels, "
                f"so they need one suite: {', '.join(self.grids)}"
            )
        return suites.pop()

    def task(self, experiment: Experiment) -> Task:
        """`rspo figure NAME`: writes .pdf, .png and .csv."""
        return tasks.figure(
            experiment,
            self.name,
            suffixes=SUFFIXES,
            settings=self.settings,
            inputs=lambda: _inputs(experiment, self),
        )

    def methods(self, experiment: Experiment) -> list[Method]:
        """The lines of its policies."""
        return methods_of(experiment, self.policies(experiment))

    def settings(self, experiment: Experiment) -> dict[str, Any]:
        """What decides the figure apart from its inputs: its code, its caption and the config."""
        modules = frozenset((self.table.__module__, self.draw.__module__))
        chosen: dict[str, Any] = {"figure": self.name, "caption": self.caption}
        chosen["code"] = _digest(FOLDER, modules)
        if self.reads("objectives"):
            names = compared()
            folder = Path(rspo.objectives.__file__).parent
            modules = frozenset(OBJECTIVES[name].function.__module__ for name in names)
            chosen["objectives"] = names
            chosen["objectives_code"] = _digest(folder, modules)
        if not self.of_results:
            return chosen
        policies = self.policies(experiment)
        chosen |= {"scale": experiment.scale, "policies": policies}
        chosen["models"] = labels_of_models(experiment, policies)
        if self.reads("curves"):
            suite = experiment.config.data.suites[self.suite(experiment)]
            chosen["panels"] = {name: benchmark.label for name, benchmark in suite.items()}
            chosen["k"] = list(experiment.config.evaluation.k)
        if self.reads("training_logs"):
            chosen["steps"] = experiment.config.training.steps
            chosen["prompts_per_step"] = experiment.config.training.prompts_per_step
        return chosen

    def write(self, experiment: Experiment, force: bool = False) -> None:
        """Write .pdf, .png and .csv to `experiment.files.reports`: all or none.

        The same input gives the same bytes.
        """
        task = self.task(experiment)
        context = (experiment, self) if self.of_results else ()

        def work() -> None:
            table = self.table(*context)
            if not isinstance(table, pd.DataFrame):
                raise InputError(f"{self.name}: table returned {table!r}, expected a DataFrame")
            with style.applied(), ExitStack() as stack:
                picture = self.draw(table, *context)
                if not hasattr(picture, "savefig"):
                    raise InputError(f"{self.name}: draw returned {picture!r}, expected a Figure")
                # All three files are complete before the first is renamed into place.
                pdf, png, csv = (stack.enter_context(atomic_write(path)) for path in task.outputs)
                save(picture, pdf)
                save(picture, png)
                table.to_csv(csv, index=False, lineterminator="\n")

        run(task, work, force)


def _inputs(experiment: Experiment, figure: Figure) -> list[tuple[Path, Task]]:
    """The files of a figure's inputs, each with the task that writes it."""
    makers = []  # tasks whose first output is an input
    files = []
    for policy in figure.policies(experiment):
        if figure.reads("curves"):
            makers.append(tasks.curves(experiment, policy, figure.suite(experiment)))
        if figure.reads("scores"):
            files += tasks.score_inputs(experiment, policy, figure.suite(experiment))
        if figure.reads("training_logs"):
            files.append(tasks.log_input(experiment, policy))
    if figure.reads("training_set"):
        makers.append(tasks.prepare(experiment, "train"))
    if figure.reads("study"):
        makers.append(tasks.study(experiment, figure.grids[0]))
    if figure.reads("comparisons"):
        task = claims.task(experiment)
        files.append((task.outputs[-1], task))  # the first output is the table of claims
    return files + [tasks.first_output(task) for task in makers]


def save(picture: Picture, path: Path) -> None:
    """Write a picture as .pdf or .png, with the same bytes for the same picture."""
    # By default, matplotlib writes the time into a PDF, and its own version into a PNG.
    if path.suffix == ".pdf":
        picture.savefig(path, format="pdf", metadata={"CreationDate": None})
    else:
        picture.savefig(path, format="png", dpi=style.DOTS_PER_INCH, metadata={"Software": None})


@cache
def _digest(folder: Path, modules: frozenset[str]) -> str:
    """SHA-256 of the sources in a folder, and of those modules that are elsewhere.

    A user's extension, which registers a figure or an objective, is elsewhere. A function of Python
    itself has no source.
    """
    inside = sorted(folder.glob("*.py"))
    files = (getattr(sys.modules[name], "__file__", None) for name in modules)
    outside = {Path(file) for file in files if file} - set(inside)
    sources = [path.read_bytes() for path in inside + sorted(outside)]
    return sha256(b"".join(sources)).hexdigest()
