"""P(max of three dice = 4) = 37/216 as three disjoint cases (the paper's figure 3, theorem 4.1).

Case i: die i is the first to show the maximum, so those before it show less and those after it at
most as much: P_<^(i-1) * pi * P_<=^(3-i). All 216 outcomes are enumerated; the faces that each die
may show are read off the outcomes of the case, not typed.
"""

from collections.abc import Sequence
from itertools import product

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Picture
from matplotlib.patches import Rectangle

from rspo.figures import style
from rspo.figures.drawing import Row

COLUMNS = {
    "kind": "face: a square; factor: P(die shows one of its faces); case: their product; total",
    "case": "row: which die is the first to show the maximum; empty for the total",
    "die": "1 .. 3; empty for cases and the total",
    "face": "1 .. 6; empty but for faces",
    "numerator": "of the probability; of a face: 1 if the case allows it (coloured), else 0",
    "denominator": "of the probability, not reduced; of a face: 1",
}

DICE = 3
FACES = range(1, 7)
MAXIMUM = 4


def cases() -> dict[int, list[tuple[int, ...]]]:
    """Outcomes with the wanted maximum, by the number of the die that shows it first."""
    found: dict[int, list[tuple[int, ...]]] = {die: [] for die in range(1, DICE + 1)}
    for outcome in product(FACES, repeat=DICE):
        if max(outcome) == MAXIMUM:
            found[outcome.index(MAXIMUM) + 1].append(outcome)
    return found


def numbers() -> list[Row]:
    every = len(FACES) ** DICE
    rows = []
    for case, outcomes in cases().items():
        for die in range(1, DICE + 1):
            allowed = {outcome[die - 1] for outcome in outcomes}
            rows += [_row("face", case, die, face, int(face in allowed), 1) for face in FACES]
            rows.append(_row("factor", case, die, "", len(allowed), len(FACES)))
        rows.append(_row("case", case, "", "", len(outcomes), every))
    total = sum(len(outcomes) for outcomes in cases().values())
    rows.append(_row("total", "", "", "", total, every))
    return rows


def _row(
    kind: str, case: int | str, die: int | str, face: int | str, numerator: int, denominator: int
) -> Row:
    return {
        "kind": kind,
        "case": case,
        "die": die,
        "face": face,
        "numerator": numerator,
        "denominator": denominator,
    }


# Inches, as is everything below.
_FACE = 0.155
_DIE = 3 * _FACE
_STEP = 0.8  # from one die to the next
_CASE = 0.77  # from one case to the next
_LEFT = 0.5


def picture(rows: Sequence[Row]) -> Picture:
    height = DICE * _CASE + 0.22
    result = style.new_picture(style.COLUMN_WIDTH, height + 0.1)
    axes = result.subplots()
    for case in range(1, DICE + 1):
        _draw_case(axes, [row for row in rows if row["case"] == case], height - _CASE * case)
    parts = [row for row in rows if row["kind"] == "case"]
    total = next(row for row in rows if row["kind"] == "total")
    terms = " + ".join(_fraction(row) for row in parts)
    said = f"P(max = {MAXIMUM}) = {terms} = {_fraction(total)}"
    axes.text(style.COLUMN_WIDTH / 2, 0.1, said, ha="center", va="center", size=8, gid="total")
    axes.set(xlim=(0, style.COLUMN_WIDTH - 0.1), ylim=(0, height), aspect="equal")
    axes.set_axis_off()
    return result


def _draw_case(axes: Axes, rows: Sequence[Row], bottom: float) -> None:
    """A line of the sum: its dice, what each may show, and their product."""
    middle = bottom + 0.18 + _FACE
    case = next(row for row in rows if row["kind"] == "case")
    axes.text(0, middle, f"case {case['case']}", ha="left", va="center")
    for die in range(1, DICE + 1):
        left = _LEFT + (die - 1) * _STEP
        _draw_die(axes, [row for row in rows if row["die"] == die], left, bottom)
        sign = "\u00d7" if die < DICE else "="
        axes.text(left + (_DIE + _STEP) / 2, middle, sign, ha="center", va="center", size=8)
    right = _LEFT + DICE * _STEP
    axes.text(
        right, middle, _fraction(case), ha="left", va="center", size=8, gid=f"case/{case['case']}"
    )


def _draw_die(axes: Axes, rows: Sequence[Row], left: float, bottom: float) -> None:
    """Six faces, those that the case allows coloured; above it the rule, below it its share."""
    faces = [row for row in rows if row["kind"] == "face"]
    for index, row in enumerate(faces):
        allowed = row["numerator"] == 1
        x = left + _FACE * (index % 3)
        y = bottom + 0.18 + _FACE * (1 - index // 3)
        colour = style.shade("Reds", 1, 3) if row["face"] == MAXIMUM else "#9ECAE1"
        square = Rectangle(
            (x, y), _FACE, _FACE, facecolor=colour if allowed else "white", edgecolor=style.INK
        )
        square.set(linewidth=0.5, gid=f"face/{row['case']}/{row['die']}/{row['face']}")
        axes.add_patch(square)
        axes.text(
            x + _FACE / 2,
            y + _FACE / 2 - 0.008,
            str(row["face"]),
            ha="center",
            va="center",
            size=style.SMALL,
            color=_ink(row),
        )
    factor = next(row for row in rows if row["kind"] == "factor")
    centre = left + _DIE / 2
    axes.text(centre, bottom + 0.56, f"D{factor['die']} {_rule(faces)}", ha="center", size=7)
    axes.text(
        centre,
        bottom + 0.05,
        _fraction(factor),
        ha="center",
        size=style.SMALL,
        gid=f"factor/{factor['case']}/{factor['die']}",
    )


def _ink(face: Row) -> str:
    if face["numerator"] == 0:
        return "#999999"
    return "white" if face["face"] == MAXIMUM else style.INK


def _rule(faces: Sequence[Row]) -> str:
    """The allowed faces in words: = 4, < 4 or <= 4."""
    allowed = [int(row["face"]) for row in faces if row["numerator"] == 1]
    if allowed == [MAXIMUM]:
        return f"= {MAXIMUM}"
    return f"\u2264 {MAXIMUM}" if MAXIMUM in allowed else f"< {MAXIMUM}"


def _fraction(row: Row) -> str:
    return f"{row['numerator']}/{row['denominator']}"
