"""The lines of a figure: their labels in the legend, and what the small print says of all."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from operator import attrgetter

from rspo.analysis.comparisons import Method
from rspo.analysis.labels import FULL_LABELS, label_of
from rspo.config.experiment import Cell, Experiment


def methods_of(experiment: Experiment, policies: Sequence[str]) -> list[Method]:
    """The lines of some policies in their order, the base policies last.

    `run_description` tells what all lines have in common, so labels only tell what differs.
    """
    models = _models(experiment, policies)
    cells = experiment.by_method(policies)
    families: dict[str, list[Cell]] = defaultdict(list)
    for cell in sorted(cells, key=attrgetter("k", "n", "reward", "model", "variant")):
        families[cell.objective].append(cell)
    full = families.keys() >= FULL_LABELS.keys()
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
        family = families[cell.objective]
        place = {"position": family.index(cell), "family": len(family)}
        methods.append(Method.of_cell(cell, seeds, label, **place))
    bases = [policy for policy in policies if experiment.is_base(policy)]
    for position, base in enumerate(bases):
        label = "Base" if len(models) == 1 else f"Base, {models[experiment.model_of(base)]}"
        methods.append(Method(label, (base,), position=position, family=len(bases)))
    return methods


def run_description(experiment: Experiment, methods: Sequence[Method]) -> str:
    """The first line of a figure's small print: scale, models, seeds, and a common n."""
    policies = [policy for method in methods for policy in method.policies]
    models, seeds = model_labels(experiment, policies), experiment.seeds_of(policies)
    ns = {method.n for method in methods if method.n is not None}
    n = f"n = {ns.pop()}, " if len(ns) == 1 else ""
    return f"{experiment.scale} scale, {models}, {n}{seeds}"


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
