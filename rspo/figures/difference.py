"""RSPO's Pass@k minus the baseline's and policy gradient's, at each k that RSPO is trained for.

The differences, their errors and p-values are those of the claims (claim_comparisons.csv). The
p-values are adjusted by Holm over all points of the figure, because a reader looks at all of them.
"""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from rspo.analysis.comparisons import Method
from rspo.analysis.results import printed, read_rows
from rspo.config.experiment import Experiment
from rspo.config.schema import POOLED
from rspo.evaluation.statistics import holm
from rspo.figures import style
from rspo.figures.figure import Figure, interval_over, run_description
from rspo.figures.style import Axes, Picture
from rspo.objectives import OBJECTIVES

RSPO = "rspo_pass_at_k"
# The objectives that RSPO is compared with, and the names of the differences.
OTHERS = {"hitchhiking": "baseline", "policy_gradient": "policy gradient"}

# The claims about grid.main; others compare the same cells on other problems.
CLAIMS = ("C1", "C3")

CAPTION = (
    "RSPO's Pass@k minus that of the baseline trained for the same k, and minus that of policy "
    "gradient, on all problems pooled, in percentage points; RSPO is trained for the k at which it "
    "is compared. Whiskers are 95 % intervals of the paired difference over problems and, with "
    "several training seeds, over seeds; they are not adjusted for the number of comparisons."
)
COLUMNS = [
    *("against", "k", "estimate", "low", "high", "error", "p", "p_adjusted"),
    *("tie_margin", "p_tie", "p_tie_adjusted", "seeds", "problems", "samples"),
]
_POINTS = ["estimate", "low", "high", "error", "tie_margin"]
_NUMBERS = [*_POINTS, "p_computed", "p", "p_tie", "seeds", "problems", "samples"]


def table(experiment: Experiment, figure: Figure) -> pd.DataFrame:
    """One row for each point; no rows if the claims have no such comparison."""
    (path,) = figure.task(experiment).input_files
    rows = read_rows(path)
    of_figure = (rows["metric"] == figure.metric) & (rows["where"] == POOLED)
    rows = rows[rows["claim"].isin(CLAIMS) & of_figure]
    methods = figure.methods(experiment)
    found = []
    for objective, name in OTHERS.items():
        for rspo in (one for one in methods if one.objective == RSPO):
            for other in (one for one in methods if one.objective == objective):
                if other.k not in (rspo.k, None):
                    continue
                cells = " ".join(rspo.policies + other.policies)
                tested = rows[(rows["cells"] == cells) & (rows["k"] == str(rspo.k))].head(1)
                found.append(tested[_NUMBERS].assign(against=name, k=rspo.k))
    columns = [*_NUMBERS, "against", "k"]
    result = pd.concat(found) if found else pd.DataFrame(columns=columns)
    result[_POINTS] = 100 * result[_POINTS]
    counts = dict.fromkeys(("seeds", "problems", "samples"), int)
    result = result.astype(counts)
    for adjusted, computed in (("p_adjusted", "p_computed"), ("p_tie_adjusted", "p_tie")):
        result[adjusted] = [*map(printed, holm(result[computed]), result["seeds"])]
    return result[COLUMNS].reset_index(drop=True)


def draw(table: pd.DataFrame, experiment: Experiment, figure: Figure) -> Picture:
    picture = style.new_picture(style.COLUMN_WIDTH, 2.5)
    axes = picture.subplots()
    axes.axhline(0, color=style.INK, linewidth=0.8)
    ks = sorted(set(table["k"]))
    shown = [name for name in OTHERS.values() if name in set(table["against"])]
    # The points of a k are beside its tick: two of them left and right of it, a single one on it.
    shifts = {name: 0.09 * (2 * at - len(shown) + 1) for at, name in enumerate(shown)}
    points = table.assign(
        x=table["k"].map(ks.index) + table["against"].map(shifts).astype(float),
        method=table["against"] + ", k = " + table["k"].astype(str),
    )
    looks = {
        f"{name}, k = {k}": style.look(Method(name, objective=objective, k=_own_k(objective, k)))
        for objective, name in OTHERS.items()
        for k in ks
    }
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
    # Each k has the look of the method that is subtracted; the legend has the middle one.
    entries = [f"{name}, k = {ks[len(ks) // 2]}" for name in shown]
    style.legend(picture, {entry: f"RSPO minus {entry.partition(',')[0]}" for entry in entries})
    samples = [f"{n} samples per problem" for n in dict.fromkeys(table["samples"])]
    style.note(
        picture,
        run_description(experiment, figure.methods(experiment)),
        *samples,
        f"whiskers: 95 %, over {interval_over(table)}; above 0, RSPO is better",
    )
    return picture


def _own_k(objective: str, k: int) -> int | None:
    return k if OBJECTIVES[objective].has_k else None


def _write_value(axes: Axes, point: Mapping[str, Any], left: bool) -> None:
    """The estimate, beside its point."""
    value = point["estimate"]
    axes.annotate(
        f"{value:+.1f}".replace("-", "\u2212") if abs(value) >= 0.05 else "0.0",
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
    objectives=(RSPO, *OTHERS),
    inputs=("comparisons",),
)
