"""Functions of the figures of RSPO's weights: a line for each k, and the legend."""

from collections.abc import Sequence

from rspo.analysis.comparisons import Method
from rspo.analysis.labels import label_of
from rspo.figures import style
from rspo.figures.style import Picture
from rspo.objectives import OBJECTIVES


def lines_of(objective: str, ks: Sequence[int]) -> list[Method]:
    """A method for each k, so that its line looks as in the figures of results."""
    has_k = OBJECTIVES[objective].has_k
    return [Method(label_of(objective, k), objective=objective, k=k if has_k else None) for k in ks]


def add_legend(picture: Picture, lines: Sequence[Method]) -> None:
    """Add a legend that names all lines.

    These figures draw lines by k, so `draw` labels a line with its k. Policy gradient, which has no
    k, is drawn as k = 1.
    """
    style.legend(picture, {str(method.k or 1): method.label for method in lines})
