"""What a figure is: its files, its inputs, and the settings that decide its content."""

import logging
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from operator import attrgetter
from pathlib import Path
from statistics import mode
from typing import Any, Literal

import pandas as pd

import rspo.objectives
from rspo.analysis import claims
from rspo.analysis.comparisons import Method
from rspo.analysis.labels import FULL_LABELS, label_of
from rspo.config.experiment import Cell, Experiment
from rspo.config.schema import DEFAULT_VARIANT
from rspo.core.errors import InputError
from rspo.core.files import atomic_write
from rspo.figures import style
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

    `table` and `draw` take no arguments in a figure of formulas; in a figure of results, the
    experiment and this figure. `draw` takes the table first.

    name: of its files, without suffix.
    caption: what it shows.
    table: returns every number that is drawn; this table is the figure's CSV file.
    draw: returns the picture of a table.
    grids: names in config.grid or config.studies; empty for a figure of formulas.
    inputs: names in `INPUTS`: curves, scores and training_logs of its policies, training_set,
        comparisons of the claims, the table of the study that is its only grid, and objectives,
        which are no file: the code of every objective in the registry.
    objectives: draws only the cells with these objectives; empty means all.
    metric: of its curves: pass_at_k or max_at_k.
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
        if not {*self.inputs} <= {*INPUTS}:
            given, allowed = ", ".join(self.inputs), ", ".join(INPUTS)
            raise ValueError(f"{self.name}: inputs are {given}; allowed: {allowed}")

    def reads(self, *kinds: str) -> bool:
        """Whether it has one of these inputs."""
        return not {*kinds}.isdisjoint(self.inputs)

    @property
    def of_results(self) -> bool:
        """Whether it shows results of an experiment, rather than only formulas."""
        return bool(self.grids)

    def policies(self, experiment: Experiment) -> list[str]:
        """Names of the policies it draws; base policies are the first ones, if it evaluates any."""
        bases = [base for grid in self.grids for base in experiment.bases_of(grid)]
        cells = [
            cell.name
            for grid in self.grids
            for cell in experiment.cells_of(grid)
            if not self.objectives or cell.objective in self.objectives
        ]
        return list(dict.fromkeys(bases + cells if self.reads("curves", "scores") else cells))

    def suite(self, experiment: Experiment) -> str:
        """The suite whose benchmarks are the panels."""
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
        """What decides the figure, code and caption included, apart from its inputs."""
        modules = {self.table.__module__, self.draw.__module__}
        chosen: dict[str, Any] = {"figure": self.name, "caption": self.caption}
        chosen["code"] = _digest((FOLDER,), frozenset(modules))
        if self.reads("objectives"):
            names = compared()
            folder = Path(rspo.objectives.__file__).parent
            code = frozenset(OBJECTIVES[name].function.__module__ for name in names)
            chosen |= {"objectives": names, "objectives_code": _digest((folder,), code)}
        if not self.of_results:
            return chosen
        policies = self.policies(experiment)
        chosen |= {"scale": experiment.scale, "policies": policies}
        chosen["models"] = _models(experiment, policies)
        if self.reads("curves"):
            suite = experiment.config.data.suites[self.suite(experiment)]
            chosen["panels"] = {name: benchmark.label for name, benchmark in suite.items()}
            chosen["k"] = list(experiment.config.evaluation.k)
        if self.reads("training_logs"):
            chosen["steps"] = experiment.config.training.steps
            chosen["prompts_per_step"] = experiment.config.training.prompts_per_step
        return chosen

    def write(self, experiment: Experiment, force: bool = False) -> None:
        """Write .pdf, .png and .csv to `experiment.reports`: all or none.

        The same input gives the same bytes.
        """
        step = self.task(experiment)
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
                *pictures, numbers = (stack.enter_context(atomic_write(p)) for p in step.outputs)
                for path in pictures:
                    save(picture, path)
                table.to_csv(numbers, index=False, lineterminator="\n")

        run(step, work, force)


def methods_of(experiment: Experiment, policies: Sequence[str]) -> list[Method]:
    """The lines of some policies in their order, the base policies last.

    Labels only tell what differs; `run_description` tells what all lines have in common.
    """
    models = _models(experiment, policies)
    cells = experiment.by_method(policies)
    places = _places(experiment, cells)
    full = {cell.objective for cell in cells} >= FULL_LABELS.keys()
    differs = {
        key: len({getattr(cell, key) for cell in cells}) > 1 for key in ("n", "reward", "variant")
    }
    methods = []
    for cell, seeds in cells.items():
        label = label_of(cell.objective, cell.k, full=full)
        label += f", n={cell.n}" if differs["n"] else ""
        label += f", {cell.reward} reward" if differs["reward"] else ""
        label += f", {models[cell.model]}" if len(models) > 1 else ""
        label += f", {cell.variant}" if differs["variant"] else ""
        methods.append(Method.for_cell(cell, seeds, label, place=places[cell]))
    bases = [policy for policy in policies if experiment.is_base(policy)]
    for position, base in enumerate(bases):
        label = "Base" if len(models) == 1 else f"Base, {models[experiment.model_of(base)]}"
        methods.append(Method(label, (base,), place=position))
    return methods


def _places(experiment: Experiment, cells: Iterable[Cell]) -> dict[Cell, int]:
    """Of each line, `Method.place`. The usual n is that of most cells of the grid."""
    usual_n = mode(cell.n for cell in experiment.cells.values()) if experiment.cells else None
    groups: dict[tuple[str, int], list[Cell]] = defaultdict(list)
    for cell in sorted(cells, key=attrgetter("n", "reward", "model", "variant")):
        groups[cell.objective, cell.k].append(cell)
    places: dict[Cell, int] = {}
    for group in groups.values():
        usual = [cell for cell in group if cell.n == usual_n]
        usual = [cell for cell in usual if cell.variant == DEFAULT_VARIANT] or usual or group
        places |= {cell: at - group.index(usual[0]) for at, cell in enumerate(group)}
    return places


def run_description(experiment: Experiment, methods: Sequence[Method]) -> str:
    """The first line of a figure's small print: scale, models, seeds, and a common n."""
    policies = [policy for method in methods for policy in method.policies]
    models, seeds = model_labels(experiment, policies), experiment.seeds_of(policies)
    ns = {method.n for method in methods if method.n is not None}
    n = f"n = {ns.pop()}, " if len(ns) == 1 else ""
    return f"{experiment.scale} scale, {models}, {n}{seeds}"


def interval_over(table: pd.DataFrame) -> str:
    """What the intervals of a table are over, for the small print."""
    return "problems and seeds" if table["seeds"].max() > 1 else "problems"


def model_labels(experiment: Experiment, policies: Iterable[str]) -> str:
    """The labels of the models of some policies, in a sentence; of many models their number."""
    models = _models(experiment, policies)
    if len(models) > 2:
        return f"{len(models)} base models"
    return " and ".join(models.values())


def _models(experiment: Experiment, policies: Iterable[str]) -> dict[str, str]:
    """The label of each model of some policies."""
    models = dict.fromkeys(experiment.model_of(policy) for policy in policies)
    return {model: experiment.config.models[model].label for model in models}


def _inputs(experiment: Experiment, figure: Figure) -> list[tuple[Path, Task]]:
    """The files of a figure's inputs."""
    made, files = [], []
    for policy in figure.policies(experiment):
        if figure.reads("curves"):
            made.append(tasks.curves(experiment, policy, figure.suite(experiment)))
        if figure.reads("scores"):
            files += tasks.score_inputs(experiment, policy, figure.suite(experiment))
        if figure.reads("training_logs"):
            files.append(tasks.log_input(experiment, policy))
    if figure.reads("training_set"):
        made.append(tasks.prepare(experiment, "train"))
    if figure.reads("study"):
        made.append(tasks.study(experiment, figure.grids[0]))
    if figure.reads("comparisons"):
        tested = claims.task(experiment)
        files.append((tested.outputs[-1], tested))
    return [*files, *map(tasks.first_output, made)]


def save(picture: Picture, path: Path) -> None:
    """Write a picture as .pdf or .png, with the same bytes for the same picture."""
    if path.suffix == ".pdf":
        picture.savefig(path, format="pdf", metadata={"CreationDate": None})
    else:
        picture.savefig(path, format="png", dpi=style.DOTS_PER_INCH, metadata={"Software": None})


@cache
def _digest(folders: tuple[Path, ...], modules: frozenset[str]) -> str:
    """SHA-256 of the sources in some folders, and of modules elsewhere, such as extensions."""
    inside = [path for folder in folders for path in sorted(folder.glob("*.py"))]
    outside = {Path(str(sys.modules[name].__file__)) for name in modules} - {*inside}
    return sha256(b"".join(path.read_bytes() for path in [*inside, *sorted(outside)])).hexdigest()
