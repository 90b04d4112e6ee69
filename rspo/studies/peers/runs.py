"""The trained runs of the study, and the choice of one variant of each."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from rspo.claims.comparisons import Method
from rspo.claims.measure import Measurer
from rspo.config.experiment import Experiment
from rspo.core.errors import InputError
from rspo.objectives import OBJECTIVES

RSPO = "rspo_pass_at_k"


@dataclass(frozen=True)
class Run:
    """Cells that differ only in their seed.

    variants: cells of all variants that it was chosen from, itself included.
    rates: their learning rates, ascending.
    validation: Pass@k on the validation split, by which it was chosen; None if it was the only one.
    """

    objective: str
    k: int
    n: int
    epochs: int
    steps: int
    learning_rate: float
    cells: tuple[str, ...]
    variants: tuple[str, ...] = ()
    rates: tuple[float, ...] = ()
    validation: float | None = None

    @property
    def own_k(self) -> int | None:
        return self.k if OBJECTIVES[self.objective].has_k else None

    @property
    def trained(self) -> tuple[str, int, int]:
        """Objective, k and n."""
        return self.objective, self.k, self.n

    @property
    def method(self) -> Method:
        return Method(self.objective, self.cells)

    @property
    def rate_is(self) -> str:
        """Where its learning rate is among those that it was chosen from."""
        if len(self.rates) < 2:
            return "only"
        ends = {self.rates[0]: "lowest", self.rates[-1]: "highest"}
        return ends.get(self.learning_rate, "inner")


def runs_of(experiment: Experiment, study: str) -> list[Run]:
    """Every run of the study, before one variant of each is chosen.

    Raises: InputError for cells of several models, or of a reward other than "binary".
    """
    entry = experiment.cells_of(study)
    if len({cell.model for cell in entry}) > 1 or {cell.reward for cell in entry} != {"binary"}:
        raise InputError(
            f"config/{experiment.scale}.yaml: studies.{study}: allowed: one model, reward: binary"
        )
    seeds: dict[tuple[str, int, int, str], list[str]] = defaultdict(list)
    for cell in entry:
        seeds[cell.objective, cell.k, cell.n, cell.variant].append(cell.name)
    return [_run(experiment, tuple(names)) for names in seeds.values()]


def _run(experiment: Experiment, cells: tuple[str, ...]) -> Run:
    cell, config = experiment.cell(cells[0]), experiment.of_cell(cells[0]).config
    rate, training = config.models[cell.model].learning_rate, config.training
    what = (cell.objective, cell.k, cell.n, training.epochs, training.steps, rate)
    return Run(*what, cells, variants=cells, rates=(rate,))


def with_several_epochs(runs: Sequence[Run]) -> list[Run]:
    """The runs of each objective, k and n that has several values of epochs."""
    epochs: dict[tuple[str, int, int], set[int]] = defaultdict(set)
    for run in runs:
        epochs[run.trained].add(run.epochs)
    return [run for run in runs if len(epochs[run.trained]) > 1]


def reference_of(runs: Sequence[Run], where: str) -> Run:
    """The first run of RSPO, which the objectives are compared with.

    Raises: InputError without one.
    """
    for run in runs:
        if run.objective == RSPO:
            return run
    raise InputError(f"{where}: has no cells of {RSPO} with one value of epochs to compare with")


def best_of_each(measurer: Measurer, runs: Sequence[Run], k: int) -> list[Run]:
    """One run of each objective, k, n, epochs and steps: that with the best validation Pass@k.

    Raises: InputError for a training log without the validation that the choice needs.
    """
    variants: dict[tuple[object, ...], list[Run]] = defaultdict(list)
    for run in runs:
        variants[*run.trained, run.epochs, run.steps].append(run)
    return [_best(measurer, group, k) for group in variants.values()]


def _best(measurer: Measurer, runs: Sequence[Run], k: int) -> Run:
    if len(runs) == 1:
        return runs[0]
    rates = tuple(sorted({run.learning_rate for run in runs}))
    scores = {run: fmean(_validation(measurer, cell, k) for cell in run.cells) for run in runs}
    # With equal scores, the lowest learning rate.
    best = max(runs, key=lambda run: (scores[run], -run.learning_rate))
    variants = tuple(cell for run in runs for cell in run.cells)
    return replace(best, variants=variants, rates=rates, validation=scores[best])


def _validation(measurer: Measurer, cell: str, k: int) -> float:
    found = measurer.log(cell)[-1].get("validation", {}).get(f"pass_at_{k}")
    if not isinstance(found, float):
        path = measurer.experiment.training_log(cell)
        raise InputError(
            f"{path}: the last step has no validation with Pass@{k}, by which the study chooses "
            "among variants; set training.validation.every and .samples in each of them"
        )
    return found
