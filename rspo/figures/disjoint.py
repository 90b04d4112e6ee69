"""P(max of three dice = 4) = 37/216 as three disjoint cases (the paper's figure 3, theorem 4.1).

In case i, die i is the first to show the maximum: the dice before it show less, and the dice after
it at most as much. The probability of the case is P_<^(i-1) * pi * P_<=^(3-i), where pi, P_< and
P_<= are the probabilities that a die shows 4, less than 4 and at most 4. All 216 outcomes are
enumerated; a die may show a face in a case if it does in an outcome of the case.
"""

from itertools import product

import numpy as np
import pandas as pd

from rspo.analysis.comparisons import Method
from rspo.figures import style
from rspo.figures.figure import Figure
from rspo.figures.style import Axes, Picture

CAPTION = (
    "The probability that the maximum of three dice is 4 as a sum over disjoint cases, one for "
    "each die that can be the first to show it; counted by enumerating all outcomes."
)
COLUMNS = ["kind", "case", "die", "face", "numerator", "denominator"]

DICE = 3
FACES = range(1, 7)
MAXIMUM = 4


def cases() -> dict[int, list[tuple[int, ...]]]:
    """Outcomes with the wanted maximum, by the number of the die that shows it first."""
    result: dict[int, list[tuple[int, ...]]] = {die: [] for die in range(1, DICE + 1)}
    for outcome in product(FACES, repeat=DICE):
        if max(outcome) == MAXIMUM:
            result[outcome.index(MAXIMUM) + 1].append(outcome)
    return result


def table() -> pd.DataFrame:
    """One row for each face, each factor, each case and the total."""
    every = len(FACES) ** DICE  # number of all outcomes
    rows: list[tuple[str, int | None, int | None, int | None, int, int]] = []
    for case, outcomes in cases().items():
        for die in range(1, DICE + 1):
            allowed = {outcome[die - 1] for outcome in outcomes}
            rows += [("face", case, die, face, int(face in allowed), 1) for face in FACES]
            rows.append(("factor", case, die, None, len(allowed), len(FACES)))
        rows.append(("case", case, None, None, len(outcomes), every))
    total = sum(len(outcomes) for outcomes in cases().values())
    rows.append(("total", None, None, None, total, every))
    result = pd.DataFrame(rows, columns=COLUMNS)
    return result.astype(dict.fromkeys(("case", "die", "face"), "Int64"))


def draw(table: pd.DataFrame) -> Picture:
    picture = style.new_picture(style.COLUMN_WIDTH, 2.6)
    grid = picture.subplots(DICE, DICE)
    fractions = table["numerator"].astype(str) + "/" + table["denominator"].astype(str)
    kinds = dict(iter(table.assign(fraction=fractions).groupby("kind")))
    faces = kinds["face"].groupby(["case", "die"])
    for row in kinds["factor"].itertuples():
        axes = grid[row.case - 1][row.die - 1]
        allowed = faces.get_group((row.case, row.die)).query("numerator == 1")["face"].tolist()
        _draw_die(axes, allowed)
        axes.set_title(f"D{row.die} {_rule(allowed)}", loc="center", size=7, pad=3)
        axes.set_xlabel(row.fraction, size=style.SMALL, labelpad=2)
        after = "\u00d7" if row.die < DICE else ""
        axes.text(1.28, 0.5, after, transform=axes.transAxes, ha="center", va="center")
    for row in kinds["case"].itertuples():
        first, *_, last = grid[row.case - 1]
        first.set_ylabel(f"case {row.case}", rotation=0, ha="right", va="center")
        last.text(1.15, 0.5, f"= {row.fraction}", transform=last.transAxes, va="center")
    terms = " + ".join(kinds["case"]["fraction"])
    total = kinds["total"]["fraction"].item()
    picture.supxlabel(f"P(max = {MAXIMUM}) = {terms} = {total}", size=8)
    return picture


def _draw_die(axes: Axes, allowed: list[int]) -> None:
    """Draw the six faces of a die; those that the case allows are coloured."""
    import seaborn
    from matplotlib.colors import ListedColormap

    faces = np.array(FACES).reshape(2, 3)
    red = style.look(Method("", objective="rspo_max_at_k", k=4)).colour
    seaborn.heatmap(
        # 0 for a face that is not allowed, 1 for an allowed one, 2 if it is the maximum.
        np.isin(faces, allowed) * np.where(faces == MAXIMUM, 2, 1),
        vmin=0,
        vmax=2,
        cmap=ListedColormap(["white", "#9ECAE1", red]),
        annot=faces,
        annot_kws={"size": style.SMALL},
        linewidths=0.5,
        linecolor=style.INK,
        square=True,
        cbar=False,
        xticklabels=False,
        yticklabels=False,
        ax=axes,
    )
    _grey(axes, allowed)


def _grey(axes: Axes, allowed: list[int]) -> None:
    """Make the numbers of the faces that are not allowed grey."""
    for face, text in zip(FACES, axes.texts, strict=True):
        if face not in allowed:
            text.set_color("#999999")


def _rule(allowed: list[int]) -> str:
    """The allowed faces as a relation: = 4, < 4 or <= 4."""
    if allowed == [MAXIMUM]:
        return f"= {MAXIMUM}"
    return f"\u2264 {MAXIMUM}" if MAXIMUM in allowed else f"< {MAXIMUM}"


FIGURE = Figure("fig_disjoint", CAPTION, table, draw)
