"""Which policies a line of a figure stands for, and what the legend calls it."""

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rspo.errors import InputError
from rspo.experiment import BASE, Cell
from rspo.objectives import OBJECTIVES, KRule

if TYPE_CHECKING:
    from rspo.experiment import Experiment
    from rspo.figures import Figure

# Any other objective is called by its name.
_LABELS = {
    "policy_gradient": "PG",
    "grpo": "GRPO",
    "rspo_pass_at_k": "RSPO",
    "rspo_max_at_k": "RSPO",
    "hitchhiking": "Baseline",
}


@dataclass(frozen=True)
class Method:
    """One line: the cells that differ in nothing but the seed, or the base policy.

    objective: of the cells; "base" for the base policy.
    k, n: of the cells; None where it has none.
    position, family: this is number `position` (from 0) of the `family` lines of its objective,
        by k and then n: what shade, width and marker follow.
    """

    label: str
    objective: str
    k: int | None
    n: int | None
    policies: tuple[str, ...]
    position: int = 0
    family: int = 1


def methods_of(experiment: "Experiment", figure: "Figure") -> list[Method]:
    """The lines of a figure in the order of its grids, the base policy last.

    Raises: InputError if its grids have several models, whose lines would look the same.
    """
    policies = figure.policies(experiment)
    models = sorted({experiment.model_of(policy) for policy in policies})
    if len(models) != 1:
        raise InputError(
            f"config/{experiment.scale}.yaml: {figure.name} draws grid {', '.join(figure.grids)} "
            f"and shows one model, found {', '.join(models) or 'none that it could draw'}; "
            "give each model a grid of its own, as model_size has"
        )
    cells = [experiment.cell(policy) for policy in policies if policy in experiment.cells]
    bases = tuple(policy for policy in policies if policy not in experiment.cells)
    methods = trained_methods(cells)
    if bases:
        methods.append(Method("Base", BASE, None, None, bases))
    return methods


def trained_methods(cells: list[Cell]) -> list[Method]:
    """The lines of some cells of one model; those that differ only in their seeds are one line."""
    seeds: dict[tuple[str, int, int, str], list[str]] = defaultdict(list)
    for cell in cells:
        seeds[cell.objective, cell.k, cell.n, cell.reward].append(cell.name)
    families: dict[str, list[tuple[int, int, str]]] = defaultdict(list)
    for objective, k, n, reward in seeds:
        families[objective].append((k, n, reward))
    # What is the same for every line is said on the figure's face, not in each label.
    n_differs = len({n for _, _, n, _ in seeds}) > 1
    reward_differs = len({reward for *_, reward in seeds}) > 1
    methods = []
    for (objective, k, n, reward), names in seeds.items():
        has_k = OBJECTIVES[objective].k_rule is not KRule.NONE
        name = _LABELS.get(objective, objective.replace("_", " "))
        label = f"{name} k={k}" if has_k else name
        label += f", n={n}" if n_differs else ""
        label += f", {reward} reward" if reward_differs else ""
        family = sorted(families[objective])
        methods.append(
            Method(
                label,
                objective,
                k if has_k else None,
                n,
                tuple(names),
                family.index((k, n, reward)),
                len(family),
            )
        )
    return methods


def face(experiment: "Experiment", figure: "Figure", methods: list[Method]) -> str:
    """What the results on a figure are of: scale, model, seeds, and n if it is the same for all."""
    model = experiment.model_of(methods[0].policies[0])
    seeds = experiment.config.seeds
    parts = [
        f"{experiment.scale} scale",
        experiment.config.models[model].label,
        f"{seeds} seed{'s' if seeds > 1 else ''}",
    ]
    ns = {method.n for method in methods if method.n is not None}
    if len(ns) == 1:
        parts.insert(2, f"trained with n = {ns.pop()}")
    return ", ".join(parts)
