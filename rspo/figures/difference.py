"""RSPO's Pass@k minus that of the methods it is compared with, at each k that it is trained for.

These are the baseline and policy gradient, and GRPO if the grid has the entry of claim A3.

The differences, their errors and p-values are those of the claims (claim_comparisons.csv). The
p-values are adjusted by Holm over all points of the figure, because a reader looks at all of them.
"""

from collections.abc import Mapping
from itertools import product
from typing import Any

import pandas as pd

from rspo.analysis.comparisons import Method
from rspo.analysis.results import read_rows, shown_by, with_floor
from rspo.config.experiment import Experiment
from rspo.config.schema import POOLED
from rspo.evaluation.statistics import holm
from rspo.figures import style
from rspo.figures.figure import Figure
from rspo.figures.methods import (
    MARKS,
    about_marks,
    interval_over,
    methods_of,
    run_description,
)
from rspo.figures.style import Axes, Picture
from rspo.objectives import OBJECTIVES

RSPO = "rspo_pass_at_k"
# The objectives that RSPO is compared with, and the names of the differences.
SUBTRACTED = {"hitchhiking": "baseline", "policy_gradient": "policy gradient", "grpo": "GRPO"}

# The claims about grid.main; further claims compare the same cells on other problems.
CLAIMS = ("C1", "C3", "A3")

CAPTION = (
    "RSPO's Pass@k minus that of the baseline trained for the same k, and minus those of methods "
    "without a k, on all problems pooled, in percentage points; RSPO is trained for the k at which "
    "it is compared. Whiskers are 95 % intervals of the paired difference over problems and, with "
    "several training seeds, over seeds; they are not adjusted for the number of comparisons."
)
COLUMNS = [
    "against",
    "k",
    "estimate",
    "low",
    "high",
    "error",
    "p",
    "p_adjusted",
    "tie_margin",
    "p_tie",
    "p_tie_adjusted",
    "seeds",
    "problems",
    "samples",
]
_IN_POINTS = ["estimate", "low", "high", "error", "tie_margin"]
_P_VALUES = ["p_computed", "p", "p_tie"]
_COUNTS = ["seeds", "problems", "samples"]
_COPIED = _IN_POINTS + _P_VALUES + _COUNTS  # from the table of comparisons


def table(experiment: Experiment, figure: Figure) -> pd.DataFrame:
    """One row for each point; no rows if the claims have no such comparison."""
    (path,) = figure.task(experiment).input_files  # claim_comparisons.csv
    rows = read_rows(path)
    is_drawn = (rows["metric"] == figure.metric) & (rows["where"] == POOLED)
    rows = rows[rows["claim"].isin(CLAIMS) & is_drawn]
    methods = figure.methods(experiment)
    if "grpo" in experiment.config.grid:
        methods += methods_of(experiment, [cell.name for cell in experiment.cells_of("grpo")])
    points = []
    for objective, name in SUBTRACTED.items():
        for rspo, other in product(methods, methods):
            if rspo.objective != RSPO or other.objective != objective:
                continue
            if other.k not in (rspo.k, None):  # policy gradient has no k
                continue
            cells = " ".join(rspo.policies + other.policies)
            tested = rows[(rows["cells"] == cells) & (rows["k"] == str(rspo.k))].head(1)
            points.append(tested[_COPIED].assign(against=name, k=rspo.k))
    # Without any point, the empty table has the same columns.
    result = pd.concat(points or [rows[_COPIED].head(0).assign(against="", k=0)])
    result[_IN_POINTS] = 100 * result[_IN_POINTS]
    result = result.astype(dict.fromkeys(_COUNTS, int))
    result["p_adjusted"] = _adjusted(result, "p_computed")
    result["p_tie_adjusted"] = _adjusted(result, "p_tie")
    return result[COLUMNS].reset_index(drop=True)


def _adjusted(points: pd.DataFrame, computed: str) -> list[float]:
    """The p-values of a column, adjusted by Holm over all points.

    None is below the smallest that its number of seeds supports (`with_floor`).
    """
    adjusted = holm(points[computed])
    return [with_floor(p, seeds) for p, seeds in zip(adjusted, points["seeds"], strict=True)]


def draw(table: pd.DataFrame, experiment: Experiment, figure: Figure) -> Picture:
    shown = [name for name in SUBTRACTED.values() if name in set(table["against"])]
    several = len(shown) > 2
    picture = style.new_picture(style.TEXT_WIDTH if several else style.COLUMN_WIDTH, 2.5)
    axes = picture.subplots()
    axes.axhline(0, color=style.INK, linewidth=0.8)
    ks = sorted(set(table["k"]))
    # The points of a k are beside its tick: one of three, or a single one, is on it.
    gap = 0.27 if several else 0.18
    shifts = {name: gap * (place - (len(shown) - 1) / 2) for place, name in enumerate(shown)}
    points = table.assign(
        x=table["k"].map(ks.index) + table["against"].map(shifts).astype(float),
        method=table["against"] + ", k = " + table["k"].astype(str),
    )
    looks = {}
    for objective, name in SUBTRACTED.items():
        for k in ks:
            own_k = k if OBJECTIVES[objective].has_k else None
            looks[f"{name}, k = {k}"] = style.look(Method(name, objective=objective, k=own_k))
    style.draw(axes, points, looks, "x", "estimate", ends=("low", "high"), kind="points")
    for point in points.to_dict("records"):
        _write_value(axes, point, shifts[point["against"]] < 0)
    axes.set(
        xlabel="k of Pass@k and of training",
        ylabel="difference (percentage points)",
        xticks=range(len(ks)),
        xticklabels=[str(k) for k in ks],
        xlim=(-0.5, max(1, len(ks)) - 0.5),
    )
    axes.grid(visible=False, axis="x")
    axes.margins(y=0.12)
    # A point has the look of the subtracted method, which differs with k. The legend shows the look
    # for the middle k.
    entries = [f"{name}, k = {ks[len(ks) // 2]}" for name in shown]
    style.legend(picture, {entry: f"RSPO minus {entry.partition(',')[0]}" for entry in entries})
    notes = [run_description(experiment, figure.methods(experiment))]
    measured = table[["problems", "samples"]].drop_duplicates()
    notes += [
        f"{row.problems} problems, {row.samples} samples each" for row in measured.itertuples()
    ]
    notes.append(f"whiskers: 95 %, over {interval_over(table)}; above 0, RSPO is better")
    notes.append(about_marks(experiment))
    style.note(picture, *notes)
    return picture


def _write_value(axes: Axes, point: Mapping[str, Any], left: bool) -> None:
    """Write the estimate of a point, and what its test shows, to the left or the right of it."""
    value = point["estimate"]
    text = f"{value:+.1f}".replace("-", "\u2212") if abs(value) >= 0.05 else "0.0"
    text = f"{text} {MARKS[shown_by(point)]}".rstrip()
    axes.annotate(
        text,
        (point["x"], value),
        xytext=(-5 if left else 5, 0),
        textcoords="offset points",
        ha="right" if left else "left",
        va="center",
        fontsize=style.SMALL,
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5},
    )


FIGURE = Figure(
    "fig_difference",
    CAPTION,
    table,
    draw,
    grids=("main",),
    objectives=(RSPO, "hitchhiking", "policy_gradient"),
    inputs=("comparisons",),
)
