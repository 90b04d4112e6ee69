"""What the figures of RSPO's weights share: a line for each k, and its legend."""

from collections.abc import Sequence

from rspo.analysis.comparisons import Method
from rspo.analysis.labels import label_of
from rspo.figures import style
from rspo.figures.style import Picture
from rspo.objectives import OBJECTIVES


def lines_of(objective: str, ks: Sequence[int]) -> list[Method]:
    """A line for each k, with the styles of the figures of results."""
    has_k = OBJECTIVES[objective].has_k
    return [Method(label_of(objective, k), objective=objective, k=k if has_k else None) for k in ks]


def add_legend(picture: Picture, lines: Sequence[Method]) -> None:
    """Name all lines in one row.

    The label of a drawn line is its k; that of policy gradient, which has no k, is 1.
    """
    style.legend(picture, {str(method.k or 1): method.label for method in lines})
