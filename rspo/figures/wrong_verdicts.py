"""Pass@k after training with wrong verdicts, and the expected weight of a false accept."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rspo.evaluation.statistics import LEVEL
from rspo.figures import style
from rspo.figures.figure import Figure
from rspo.figures.methods import Method, model_labels

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Picture

    from rspo.config.experiment import Experiment

STUDY = "wrong_verdicts"
CAPTION = (
    "Training with a verifier that errs. Left: change of Pass@k on all problems, in percentage "
    "points, by the rate of false accepts (top) and false rejects (bottom), with 95 % intervals "
    "paired over problems, not adjusted; filled: significant after the adjustment for the number "
    "of tests. Right, theory: expected weight of a false accept as a multiple of policy "
    "gradient's, by the prompt's probability of success (thin: almost no errors, thick: the "
    "largest rate); and the share of all weight that false accepts have, from the Pass@k before "
    "training (solid) and after training without errors (dotted)."
)
COLUMNS = {
    "part": "change (measured), weight or share (theory); the panel",
    "method": "label of the line",
    "objective": "name in rspo.objectives",
    "trained_k": "k of the objective; empty where it has none",
    "errors": "false accepts or false rejects; the row of panels",
    "rate": "x of change and share: of the responses that get a wrong verdict, in %",
    "k": "of Pass@k; the panel",
    "success": "x of weight: probability that a response is correct",
    "policy": "whose Pass@k give the share: base, or trained (without errors)",
    "value": "y: change in points, weight as a multiple of policy gradient's, or share in %",
    "low": "lower end of the whisker, the 95 % interval",
    "high": "upper end",
    "p_adjusted": "two-sided p-value, by Holm's method; below .05: filled",
    "seeds": "training seeds",
    "problems": "test problems",
    "samples": "of each problem",
}
_COUNTS = ["seeds", "problems", "samples"]
_TEXT = ["part", "method", "objective", "errors", "k", "policy"]


def table(experiment: "Experiment", figure: Figure) -> "pd.DataFrame":
    """The drawn rows of the study's table, in percent where they are fractions.

    Raises: InputError for a table of the study that is missing or lacks a column.
    """
    import pandas as pd

    from rspo.core.tables import read_csv

    given = [name for name in COLUMNS if name != "value"]
    (path,) = figure.step(experiment).input_files
    rows = read_csv(path, *given, "estimate", "weight", "share")
    rows = rows[rows["part"].isin(["change", "weight", "share"]) & (rows["errors"] != "control")]
    numbers = ["estimate", "weight", "share", *(name for name in given if name not in _TEXT)]
    rows = rows.assign(**{name: pd.to_numeric(rows[name]) for name in numbers})
    percent = ["estimate", "low", "high", "share", "rate"]
    rows[percent] *= 100
    rows["value"] = rows["estimate"].fillna(rows["share"]).fillna(rows["weight"])
    rows = rows.astype(dict.fromkeys([*_COUNTS, "trained_k"], "Int64"))
    return rows[list(COLUMNS)].reset_index(drop=True)


def draw(table: "pd.DataFrame", experiment: "Experiment", figure: Figure) -> "Picture":
    import numpy as np
    from matplotlib.lines import Line2D

    changes = table[table["part"] == "change"]
    ks, kinds = list(dict.fromkeys(changes["k"])), list(dict.fromkeys(changes["errors"]))
    methods = _methods(table)
    picture = style.new_picture(style.TEXT_WIDTH, 3.6)
    left, right = np.ravel(np.array(picture.subfigures(1, 2, width_ratios=[len(ks) + 0.2, 1.45])))
    panels = left.subplots(len(kinds), len(ks), sharex=True, sharey=True, squeeze=False)
    for row, errors in zip(panels, kinds, strict=True):
        for axes, k in zip(row, ks, strict=True):
            rows = changes[(changes["errors"] == errors) & (changes["k"] == k)]
            _draw_changes(axes, rows, methods)
            axes.set_title(f"{errors}, Pass@{k}")
        row[0].set_ylabel("change (points)")
    for axes in panels[-1]:
        axes.set_xlabel("rate of wrong verdicts (%)")
    above, below = right.subplots(2, 1)
    _draw_weights(above, table[table["part"] == "weight"], methods)
    _draw_shares(below, table[table["part"] == "share"], methods)
    picture.legend(
        handles=[Line2D([], [], label=one.label, **_line(one)) for one in methods],
        loc="outside upper center",
        ncols=len(methods),
    )
    first = changes.iloc[0]
    style.note(
        picture,
        f"{experiment.scale} scale, {model_labels(experiment, figure.policies(experiment))}, "
        f"{first['seeds']} seed{'s' if first['seeds'] > 1 else ''}",
        f"{first['problems']} problems, {first['samples']} samples each",
        "whiskers: 95 %; filled: significant; shares: before (solid) and after training (dotted)",
    )
    return picture


def _methods(table: "pd.DataFrame") -> list[Method]:
    """The lines, each objective's in the order of k."""
    keys = table[["method", "objective", "trained_k"]].drop_duplicates()
    sizes = keys["objective"].value_counts()
    places = keys.groupby("objective")["trained_k"].rank(method="first").fillna(1).astype(int) - 1
    return [
        Method(label, objective, position=int(place), family=int(sizes[objective]))
        for (label, objective), place in zip(
            keys[["method", "objective"]].itertuples(index=False), places, strict=True
        )
    ]


def _line(method: Method) -> dict[str, Any]:
    """The method's line, without its marker: markers show what is significant."""
    return style.line(method) | {"marker": ""}


def _draw_changes(axes: "Axes", rows: "pd.DataFrame", methods: Sequence[Method]) -> None:
    axes.axhline(0, color=style.INK, linewidth=0.8)
    for place, method in enumerate(methods):
        own = rows[rows["method"] == method.label]
        look, shift = _line(method), 0.25 * (place - (len(methods) - 1) / 2)
        x = own["rate"] + shift
        axes.vlines(x, own["low"], own["high"], color=look["color"], linewidth=0.9)
        axes.plot([0, *x], [0, *own["value"]], **look)
        for at, (_, row) in zip(x, own.iterrows(), strict=True):
            filled = row["p_adjusted"] < LEVEL
            face = look["color"] if filled else "white"
            axes.plot(
                at, row["value"], "o", color=look["color"], markersize=3.6, markerfacecolor=face
            )
    axes.set_xticks([0, *sorted(set(rows["rate"]))])
    axes.set_xticklabels([f"{rate:g}" for rate in axes.get_xticks()])


def _draw_weights(axes: "Axes", rows: "pd.DataFrame", methods: Sequence[Method]) -> None:
    rates = sorted(set(rows["rate"]))
    for method in methods:
        own = rows[rows["method"] == method.label]
        for rate in {rates[0], rates[-1]}:
            of_rate = own[own["rate"] == rate]
            look = _line(method) | {"linewidth": 0.8 if rate == rates[0] else 1.8}
            axes.plot(of_rate["success"], of_rate["value"], **look)
    axes.set(
        title=f"weight of a false accept / PG's,\nrate {rates[0]:g} % and {rates[-1]:g} %",
        xlabel="probability of success p",
        ylim=(0, None),
    )


def _draw_shares(axes: "Axes", rows: "pd.DataFrame", methods: Sequence[Method]) -> None:
    for method in methods:
        own = rows[rows["method"] == method.label]
        for policy, line in (("base", "-"), ("trained", ":")):
            some = own[own["policy"] == policy]
            look = _line(method) | {"linestyle": line, "linewidth": 1.2}
            axes.plot([0, *some["rate"]], [0, *some["value"]], **look)
    axes.set(title="false accepts' share\nof the weight (%)", xlabel="rate (%)")
    axes.set_ylim(0, None)


FIGURE = Figure(
    "fig_wrong_verdicts", CAPTION, COLUMNS, table, draw, grids=(STUDY,), inputs=("study",)
)
