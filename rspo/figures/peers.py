"""RSPO and the other published objectives: differences of Pass@k, training, and Pass@k curves.

It draws the table of the study `peers` (`rspo.studies.peers`), whose page has the statements.
"""

import re
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rspo.config.experiment import BASE
from rspo.figures import style
from rspo.figures.figure import Figure
from rspo.figures.methods import Method, label_of, model_labels

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Picture

    from rspo.config.experiment import Experiment

STUDY = "peers"
RSPO, RISK_NEUTRAL = "rspo_pass_at_k", "policy_gradient"
CAPTION = (
    "Every published objective of the registry, trained with the same prompts and seeds, each at "
    "the learning rate that is best on the validation split, those with the highest Pass@k first. "
    "Top: Pass@k minus RSPO's, in percentage points, with 95 % intervals of the paired difference, "
    "filled where it is significant after the adjustment for the number of tests; entropy late in "
    "training; noise of the gradient on the base model, tr Cov over the squared length of its "
    "mean; processor time of a training step; the line is RSPO's value. Bottom: Pass@k of each "
    "objective, with RSPO, policy gradient and the base model behind it."
)
COLUMNS = {
    "objective": "name in rspo.objectives; base: not trained",
    "line": "its label",
    "trained_k": "k of the objective; empty where it has none",
    "n": "responses per prompt in training",
    "k": "of Pass@k",
    "pass_at_k": "bottom, y: in %, on all problems, mean over seeds",
    "difference": "top, x: Pass@k minus RSPO's, in percentage points",
    "low": "lower end of its 95 % interval, not adjusted",
    "high": "upper end",
    "p_adjusted": "two-sided p-value, adjusted by Holm's method; below .05: filled",
    "entropy": "top, x: in the last third of training, nats per token",
    "noise": "top, x: of the gradient on the base model",
    "noise_low": "lower end of its 95 % interval over prompts",
    "noise_high": "upper end",
    "seconds": "top, x: processor seconds of a training step",
    "seeds": "training seeds of each objective",
    "problems": "test problems",
    "samples": "per problem",
}
_KEY = ["objective", "trained_k", "n"]
_WHOLE = ["trained_k", "n", "k", "seeds", "problems", "samples"]
_POINTS = ["pass_at_k", "difference", "low", "high"]
PANELS_PER_ROW = 6


def table(experiment: "Experiment", figure: Figure) -> "pd.DataFrame":
    """One row for each objective and evaluated k, in the order of the rows of the picture.

    Raises: InputError for a table of the study that is missing or lacks a column.
    """
    import pandas as pd

    from rspo.core.tables import read_csv

    given = [name for name in COLUMNS if name != "line"]
    (path,) = figure.step(experiment).input_files
    rows = read_csv(path, "part", "against", *given)
    rows = rows[rows["part"].isin(["objectives", BASE]) & rows["against"].isin(["rspo", ""])]
    rows = rows[given].assign(
        **{name: pd.to_numeric(rows[name]) for name in given if name != "objective"}
    )
    rows[_POINTS] *= 100
    rows["line"] = _labels(rows)
    own = rows[rows["objective"] == RSPO]["trained_k"].iloc[0]
    at_k = rows[rows["k"] == own].set_index(_KEY)["pass_at_k"]
    place = at_k.rank(ascending=False, method="first")
    base = rows["objective"] == BASE
    order = pd.Series([place.get(tuple(key)) for key in rows[_KEY].itertuples(index=False)])
    rows = rows.assign(place=order.set_axis(rows.index).mask(base, len(rows)))
    rows["seeds"] = rows["seeds"].max()
    rows = rows.astype(dict.fromkeys(_WHOLE, "Int64"))
    return rows.sort_values(["place", "k"], ignore_index=True)[list(COLUMNS)]


def _labels(rows: "pd.DataFrame") -> list[str]:
    """Labels without k or n, where they are those of a single line."""
    import pandas as pd

    keys = [
        (str(objective), None if pd.isna(k) else int(k), None if pd.isna(n) else int(n))
        for objective, k, n in rows[_KEY].itertuples(index=False)
    ]
    several = {a[0] for a in keys for b in keys if a[0] == b[0] and a != b}
    return [
        "Base" if objective == BASE else _label(objective, k, n, objective in several)
        for objective, k, n in keys
    ]


def _label(objective: str, k: int | None, n: int | None, full: bool) -> str:
    label = f"{label_of(objective, k)}, n={n}" if full else label_of(objective)
    return re.sub(r"[$^{}]", "", label)  # a formula's indices would be too small


def draw(table: "pd.DataFrame", experiment: "Experiment", figure: Figure) -> "Picture":
    import numpy as np

    trained = table[table["objective"] != BASE]
    lines = list(dict.fromkeys(trained["line"]))
    panel_rows = -(-len(lines) // PANELS_PER_ROW)
    heights = [0.55 + 0.165 * len(lines), 0.25 + 1.05 * panel_rows]
    picture = style.new_picture(style.TEXT_WIDTH, 0.4 + sum(heights))
    above, below = np.ravel(np.array(picture.subfigures(2, 1, height_ratios=heights)))
    _draw_rows(above.subplots(1, 6, sharey=True), trained, lines)
    _draw_curves(
        below.subplots(panel_rows, PANELS_PER_ROW, sharex=True, sharey=True, squeeze=False).flat,
        table,
        lines,
    )
    first = trained.iloc[0]
    seeds = int(first["seeds"])
    style.note(
        picture,
        f"{experiment.scale} scale, {model_labels(experiment, figure.policies(experiment))}, "
        f"{seeds} seed{'s' if seeds > 1 else ''}",
        f"{first['problems']} problems, {first['samples']} samples each",
        "whiskers: 95 %; filled: significant; behind the curves: RSPO (red), PG (dashed), "
        "base model (dotted)",
    )
    return picture


def _draw_rows(panels: "Sequence[Axes]", table: "pd.DataFrame", lines: list[str]) -> None:
    """One row for each objective; differences at the smallest, the trained and the largest k."""
    ks = sorted(set(table["k"]))
    (own,) = set(table[table["objective"] == RSPO]["trained_k"].iloc[:1])
    shown = [ks[0], own if own in ks else ks[len(ks) // 2], ks[-1]]
    for axes, k in zip(panels, shown, strict=False):
        rows = table[table["k"] == k]
        filled = rows["p_adjusted"] < 0.05
        _draw_dots(axes, rows, "difference", ("low", "high"), filled)
        axes.axvline(0, color=_colour(RSPO), linewidth=0.8, zorder=1)
        axes.set_title(f"Pass@{k}")
        axes.set_xlabel("points vs. RSPO")
    once = table.drop_duplicates("line")
    for axes, column, title, unit in zip(
        panels[3:],
        ("entropy", "noise", "seconds"),
        ("entropy", "gradient noise", "processor time"),
        ("nats per token", "variance / signal", "seconds per step"),
        strict=True,
    ):
        ends = ("noise_low", "noise_high") if column == "noise" else None
        _draw_dots(axes, once, column, ends, once["seconds"].notna())
        if column == "noise" and once[column].min() > 0:
            style.make_log10(axes, [*once[column]], "x")
            axes.minorticks_off()
        value = once[once["objective"] == RSPO][column].iloc[0]
        axes.axvline(value, color=_colour(RSPO), linewidth=0.8, zorder=1)
        axes.set_title(title)
        axes.set_xlabel(unit)
    panels[0].set_yticks(range(len(lines)), lines)
    panels[0].set_ylim(len(lines) - 0.4, -0.6)
    for axes in panels:
        axes.grid(visible=False, axis="x")
        axes.tick_params(axis="y", length=0)


def _draw_dots(
    axes: "Axes",
    rows: "pd.DataFrame",
    column: str,
    ends: tuple[str, str] | None,
    filled: "pd.Series",
) -> None:
    """A dot for each objective, in its row, with a whisker from `ends[0]` to `ends[1]`."""
    places = {line: place for place, line in enumerate(dict.fromkeys(rows["line"]))}
    for (_, row), full in zip(rows.iterrows(), filled, strict=True):
        y, colour = places[row["line"]], _colour(row["objective"])
        if ends and row[ends[0]] <= row[ends[1]]:  # False for NaN
            axes.hlines(y, row[ends[0]], row[ends[1]], color=colour, linewidth=0.9)
        face = colour if full else "white"
        axes.plot(row[column], y, "o", color=colour, markersize=3.2, markerfacecolor=face)


def _draw_curves(panels: "Sequence[Axes]", table: "pd.DataFrame", lines: list[str]) -> None:
    """A panel for each objective."""
    panels, ks = list(panels), sorted(set(table["k"]))
    behind = {name: table[table["objective"] == name] for name in (BASE, RISK_NEUTRAL, RSPO)}
    for axes, line in zip(panels, lines, strict=False):
        for objective, rows in behind.items():
            look = style.line(Method("", objective)) | {"marker": "", "linewidth": 0.8}
            for _, one in rows.groupby("line"):
                axes.plot(one["k"], one["pass_at_k"], **look)
        rows = table[table["line"] == line]
        axes.plot(rows["k"], rows["pass_at_k"], "o-", color=style.INK, markersize=2, linewidth=0.9)
        axes.set_title(textwrap.fill(line, 18))
        axes.set_xscale("log", base=2)
        axes.set_xticks(ks, [str(k) for k in ks])
        axes.minorticks_off()
    for axes in panels[len(lines) :]:
        axes.set_axis_off()
    for axes in panels[::PANELS_PER_ROW]:
        axes.set_ylabel("Pass@k (%)")


def _colour(objective: str) -> str:
    rspo = str(style.line(Method("", RSPO))["color"])
    return rspo if objective == RSPO else style.INK


FIGURE = Figure("fig_peers", CAPTION, COLUMNS, table, draw, grids=(STUDY,), inputs=("study",))
