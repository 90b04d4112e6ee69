"""All figures by name. To add one, write a module anywhere and `register` it (docs/add/figure.md).

Importing this package does not import matplotlib, because the Snakefile reads it to plan.
"""

from collections.abc import Mapping

from rspo.config.experiment import Experiment
from rspo.config.schema import Study
from rspo.core.errors import InputError, require_name
from rspo.figures import (
    curves,
    difference,
    difficulty,
    disjoint,
    entropy,
    exact,
    group,
    hitchhiking,
    intro,
    maxk_weight,
    passk_weight,
    sample_efficiency,
    study,
)
from rspo.figures.figure import SUFFIXES, Figure

__all__ = [
    "FIGURES",
    "SUFFIXES",
    "Figure",
    "draw",
    "figures_of",
    "in_all",
    "named",
    "register",
]

_PACKAGED = (
    group.FIGURE,
    intro.FIGURE,
    hitchhiking.FIGURE,
    disjoint.FIGURE,
    passk_weight.FIGURE,
    maxk_weight.FIGURE,
    curves.MAIN,
    difference.FIGURE,
    difficulty.FIGURE,
    entropy.FIGURE,
    curves.SCALABILITY,
    curves.MODEL_SIZE,
    curves.CONTAMINATION_FREE,
    curves.MAX_AT_K,
    curves.GRPO,
    exact.FIGURE,
    sample_efficiency.FIGURE,
)
FIGURES: dict[str, Figure] = {figure.name: figure for figure in _PACKAGED}


def register(figure: Figure) -> None:
    """Add a figure to `FIGURES`.

    Raises: ValueError for a name that is taken, or does not begin with "fig_", and for grids that
        are text instead of a tuple.
    """
    if not figure.name.startswith("fig_") or not figure.name.replace("_", "").isalnum():
        raise ValueError(f"figure {figure.name!r}: allowed: fig_ and letters, digits or _")
    if figure.name in FIGURES:
        raise ValueError(f"figure {figure.name!r} exists already; choose another name")
    if isinstance(figure.grids, str):
        raise ValueError(f"figure {figure.name!r}: grids = {figure.grids!r}; expected a tuple")
    FIGURES[figure.name] = figure


def figures_of(experiment: Experiment) -> dict[str, Figure]:
    """The figures of a config by name.

    These are the figures of `FIGURES` whose grids the config has, and fig_<grid> for each grid
    entry or study that no figure of `FIGURES` draws.

    Raises: InputError if fig_<grid> is the name of another figure.
    """
    drawn = {grid for figure in FIGURES.values() for grid in figure.grids}
    entries = experiment.config.grid | experiment.config.studies
    result = {
        name: figure for name, figure in FIGURES.items() if set(figure.grids) <= entries.keys()
    }
    for grid, entry in entries.items():
        if grid in drawn or not entry.suite:  # an entry without a suite is not evaluated
            continue
        if isinstance(entry, Study):
            figure = study.figure_of_study(grid, entry)
        else:
            figure = curves.figure_of_grid_entry(grid, entry)
        if figure.name in FIGURES:
            raise InputError(
                f"config/{experiment.scale}.yaml: grid.{grid} would be drawn as {figure.name}, "
                "the name of another figure; choose another name in the grid"
            )
        result[figure.name] = figure
    return result


def in_all(experiment: Experiment) -> list[str]:
    """Names of the figures that `snakemake all` draws: those without the cells of a study."""
    studies = experiment.config.studies
    names = []
    for name, figure in figures_of(experiment).items():
        if not any(grid in studies for grid in figure.grids):
            names.append(name)
    return names


def named(figures: Mapping[str, Figure], name: str) -> Figure:
    """The figure with a name.

    Raises: InputError that says which grids the config lacks, or which names there are.
    """
    if name in FIGURES and name not in figures:
        raise InputError(f"{name} draws {', '.join(FIGURES[name].grids)}; the config lacks one")
    require_name(f"figure {name!r}", name, figures)
    return figures[name]


def draw(experiment: Experiment, name: str, force: bool = False) -> None:
    """Write one figure, as `Figure.write` does."""
    named(figures_of(experiment), name).write(experiment, force)
