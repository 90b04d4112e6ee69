"""The methods that a figure draws as lines: their labels, and their description in small print.

Labels tell only what differs between the lines; `run_description` tells what they have in common.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from operator import attrgetter
from statistics import mode

import pandas as pd

from rspo.analysis.comparisons import Method
from rspo.analysis.labels import FULL_LABELS, label_of
from rspo.analysis.results import ABOVE, BELOW, OPEN, TIE
from rspo.config.experiment import Cell, Experiment
from rspo.config.schema import DEFAULT_VARIANT

# What is written beside a difference, by what its test shows.
MARKS = {ABOVE: "*", BELOW: "*", TIE: "=", OPEN: ""}


def methods_of(experiment: Experiment, policies: Sequence[str]) -> list[Method]:
    """The lines of some policies in their order, the base policies last."""
    labels = labels_of_models(experiment, policies)
    cells = experiment.by_method(policies)
    places = _places(experiment, cells)
    # What differs between the lines, which labels therefore say.
    full = {cell.objective for cell in cells} >= FULL_LABELS.keys()
    several_n = len({cell.n for cell in cells}) > 1
    several_rewards = len({cell.reward for cell in cells}) > 1
    several_variants = len({cell.variant for cell in cells}) > 1
    methods = []
    for cell, seeds in cells.items():
        label = label_of(cell.objective, cell.k, full=full)
        if several_n:
            label += f", n={cell.n}"
        if several_rewards:
            label += f", {cell.reward} reward"
        if len(labels) > 1:
            label += f", {labels[cell.model]}"
        if several_variants:
            label += f", {cell.variant}"
        methods.append(Method.for_cell(cell, seeds, label, place=places[cell]))
    for position, (model, bases) in enumerate(experiment.bases_by_model(policies).items()):
        label = "Base" if len(labels) == 1 else f"Base, {labels[model]}"
        methods.append(Method(label, bases, place=position))
    return methods


def _places(experiment: Experiment, cells: Iterable[Cell]) -> dict[Cell, int]:
    """The `Method.place` of each line.

    It is the position relative to the usual line among those with the same objective and k.
    """
    groups: dict[tuple[str, int], list[Cell]] = defaultdict(list)
    for cell in sorted(cells, key=attrgetter("n", "reward", "model", "variant")):
        groups[cell.objective, cell.k].append(cell)
    places: dict[Cell, int] = {}
    for group in groups.values():
        middle = group.index(_usual_cell(experiment, group))
        for position, cell in enumerate(group):
            places[cell] = position - middle
    return places


def _usual_cell(experiment: Experiment, group: Sequence[Cell]) -> Cell:
    """The first cell with the usual n and variant, or else with the usual n, or else the first.

    The usual n is that of most cells of the grid.
    """
    if not experiment.cells:
        return group[0]
    usual_n = mode(cell.n for cell in experiment.cells.values())
    with_usual_n = [cell for cell in group if cell.n == usual_n]
    for cell in with_usual_n:
        if cell.variant == DEFAULT_VARIANT:
            return cell
    return with_usual_n[0] if with_usual_n else group[0]


def run_description(experiment: Experiment, methods: Sequence[Method]) -> str:
    """The first line of a figure's small print: scale, models, seeds, and a common n."""
    policies = [policy for method in methods for policy in method.policies]
    models = model_labels(experiment, policies)
    seeds = experiment.seeds_of(policies)
    ns = {method.n for method in methods if method.n is not None}
    n = f"n = {ns.pop()}, " if len(ns) == 1 else ""
    return f"{experiment.scale} scale, {models}, {n}{seeds}"


def about_marks(experiment: Experiment) -> str:
    """What `MARKS` mean, for the small print."""
    points = 100 * experiment.config.evaluation.equivalence_margin
    return f"*: significant, =: tie within {points:g} points"


def interval_over(table: pd.DataFrame) -> str:
    """What the intervals of a table are over, for the small print."""
    return "problems and seeds" if table["seeds"].max() > 1 else "problems"


def model_labels(experiment: Experiment, policies: Iterable[str]) -> str:
    """The labels of the models of some policies, such as "A and B"; their number if above two."""
    labels = labels_of_models(experiment, policies)
    if len(labels) > 2:
        return f"{len(labels)} base models"
    return " and ".join(labels.values())


def labels_of_models(experiment: Experiment, policies: Iterable[str]) -> dict[str, str]:
    """The label of each model of some policies."""
    models = dict.fromkeys(experiment.model_of(policy) for policy in policies)
    return {model: experiment.config.models[model].label for model in models}
