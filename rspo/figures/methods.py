"""The lines of a figure: the policies behind each, and its label in the legend."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rspo.analysis import comparisons
from rspo.analysis.labels import FULL_LABELS, label_of
from rspo.config.experiment import BASE, Cell
from rspo.objectives import OBJECTIVES, compared

if TYPE_CHECKING:
    from rspo.config.experiment import Experiment


@dataclass(frozen=True)
class Method:
    """One line: the cells that differ only in their seed, or a base policy.

    objective: of the cells; "base" for a base policy.
    k, n: of the cells; None for objectives without k, and for base policies.
    position, family: the index of this line, from 0, among the `family` lines of its objective,
        sorted by k, n, reward, model and variant. They decide shade, width and marker.
    """

    label: str
    objective: str
    k: int | None = None
    n: int | None = None
    policies: tuple[str, ...] = ()
    position: int = 0
    family: int = 1

    @property
    def compared(self) -> comparisons.Method:
        """As one side of a comparison."""
        return comparisons.Method(self.label, self.policies, trained=self.objective != BASE)


def methods_of(experiment: "Experiment", policies: Sequence[str]) -> list[Method]:
    """The lines of some policies in their order, the base policies last."""
    models = list(dict.fromkeys(experiment.model_of(policy) for policy in policies))
    names = {model: experiment.config.models[model].label for model in models}
    cells = [experiment.cell(policy) for policy in policies if not experiment.is_base(policy)]
    methods = trained_methods(cells, names)
    bases = [policy for policy in policies if experiment.is_base(policy)]
    for position, base in enumerate(bases):
        label = "Base" if len(names) == 1 else f"Base, {names[experiment.model_of(base)]}"
        methods.append(Method(label, BASE, None, None, (base,), position, len(bases)))
    return methods


_Key = tuple[int, int, str, str, str]  # k, n, reward, model, variant


def trained_methods(cells: list[Cell], names: dict[str, str]) -> list[Method]:
    """The lines of some cells; cells that differ only in their seed are one line.

    Args:
        names: the label of each model.
    """
    seeds: dict[tuple[str, _Key], list[str]] = defaultdict(list)
    for cell in cells:
        key = cell.k, cell.n, cell.reward, cell.model, cell.variant
        seeds[cell.objective, key].append(cell.name)
    families: dict[str, list[_Key]] = defaultdict(list)
    for objective, key in seeds:
        families[objective].append(key)
    # `run_description` tells what all lines have in common, so labels only tell what differs.
    n_differs = len({n for _, (_, n, _, _, _) in seeds}) > 1
    reward_differs = len({reward for _, (_, _, reward, _, _) in seeds}) > 1
    variant_differs = len({variant for _, (_, _, _, _, variant) in seeds}) > 1
    methods = []
    for (objective, key), policies in seeds.items():
        k, n, reward, model, variant = key
        label = label_of(objective, k, full=families.keys() >= FULL_LABELS.keys())
        label += f", n={n}" if n_differs else ""
        label += f", {reward} reward" if reward_differs else ""
        label += f", {names[model]}" if len(names) > 1 else ""
        label += f", {variant}" if variant_differs else ""
        family = sorted(families[objective])
        own_k = k if OBJECTIVES[objective].has_k else None
        place = family.index(key), len(family)
        methods.append(Method(label, objective, own_k, n, tuple(policies), *place))
    return methods


# Objectives that are equal on 0/1 rewards, by the one whose line shows them.
SAME = {"rspo_max_at_k": "rspo_pass_at_k", "rspo_max_at_k_ranked": "rspo_pass_at_k"}
SAME_NOTE = f"on 0/1 rewards {' and '.join(SAME)} equal RSPO"


def binary_lines(objectives: Iterable[str] | None = None) -> list[Method]:
    """A line for each objective that differs on 0/1 rewards; default: the paper's and one's own."""
    names = compared() if objectives is None else objectives
    return [Method(label_of(objective), objective) for objective in names if objective not in SAME]


def shown_as(objective: str) -> str:
    """The label of the line that shows an objective on 0/1 rewards."""
    return label_of(SAME.get(objective, objective))


def formula_lines(objective: str, ks: Sequence[int]) -> list[Method]:
    """A line for each k, without policies, with the styles of the figures of results."""
    return [
        Method(label_of(objective, k), objective, k, position=position, family=len(ks))
        for position, k in enumerate(ks)
    ]


def run_description(experiment: "Experiment", methods: Sequence[Method]) -> str:
    """The first line of a figure's small print: scale, models, seeds, and a common n."""
    policies = [policy for method in methods for policy in method.policies]
    models, seeds = model_labels(experiment, policies), experiment.seeds_of(policies)
    ns = {method.n for method in methods if method.n is not None}
    n = f"n = {ns.pop()}, " if len(ns) == 1 else ""
    return f"{experiment.scale} scale, {models}, {n}{seeds}"


def model_labels(experiment: "Experiment", policies: Iterable[str]) -> str:
    """The labels of the models of some policies, in a sentence; of many models their number."""
    models = dict.fromkeys(experiment.model_of(policy) for policy in policies)
    if len(models) > 2:
        return f"{len(models)} base models"
    return " and ".join(experiment.config.models[model].label for model in models)
