"""The picture of a study: its first contrast as a forest plot and, if it has one, its frontier.

The forest plot has a row for each method or variant, and a panel for each k or claim; the frontier
has Pass@k at one k against another. A study with its own k has curves instead: Pass@k, and its
first contrast, at all of them.
"""

import re
from collections.abc import Sequence
from operator import attrgetter
from typing import Any

import numpy as np
import pandas as pd

from rspo.analysis import studies
from rspo.analysis.results import read_rows
from rspo.config.experiment import Experiment
from rspo.config.names import BASE
from rspo.config.schema import DEFAULT_VARIANT, Study
from rspo.evaluation.statistics import LEVEL
from rspo.figures import style
from rspo.figures.figure import Figure, methods_of, model_labels
from rspo.figures.style import Axes, Picture

COLUMNS = [
    *("part", "method", "variant", "against", "claim", "k", "estimate", "low", "high"),
    *("p_adjusted", "seeds", "problems", "samples"),
]
_POINTS = ["estimate", "low", "high"]
_WHOLE = ["seeds", "problems", "samples"]
_MOST_PANELS = 3  # of k: of more, the first, the middle and the last
# Places of a label, in points from the end of its line: beside it, then above and below that. The
# last one is kept if none is free.
_GAP = 4.0
_PLACES = [(x, y) for y in (0, 9, -9, 18, -18, 27, -27, 0) for x in (_GAP, -_GAP)]


def of_study(name: str, study: Study) -> Figure:
    frontier = ""
    if study.frontier:
        x, y = study.frontier
        frontier = f" Right: Pass@{x} and Pass@{y}; a line connects the variants of a method."
    caption = (
        f"{study.title}: differences in percentage points with 95 % intervals, paired over "
        "problems and not adjusted; filled: significant after the adjustment for the tests."
        f"{frontier}"
    )
    if study.k:
        caption = (
            f"{study.title}. Left: Pass@k on all problems pooled. Right: "
            f"{study.contrasts[0].family}, in percentage points, with 95 % intervals, paired over "
            "problems and not adjusted."
        )
    return Figure(f"fig_{name}", caption, table, draw, grids=(name,), inputs=("study",))


def table(experiment: Experiment, figure: Figure) -> pd.DataFrame:
    """The rows of the study's comparisons that are drawn."""
    study = studies.study_of(experiment, figure.grids[0])
    rows = read_rows(figure.step(experiment).input_files[0])
    kind = attrgetter("minus", "less", "mean", "claims", "each_variant")
    families = [one.family for one in study.contrasts if kind(one) == kind(study.contrasts[0])]
    if study.several_models:
        families += [f"{family}, {studies.OVER_MODELS}" for family in families]
    forest = rows[rows["family"].isin(families)].assign(part="curves" if study.k else "forest")
    ks = [str(k) for k in study.k or study.frontier or ()]
    levels = (rows["method_b"] == "") & (rows["claim"] == "") & rows["k"].isin(ks)
    part = "curves" if study.k else "frontier"
    found = pd.concat([forest, rows[levels].assign(part=part)], ignore_index=True)
    found[_POINTS] *= 100
    names = {"method_a": "method", "method_b": "against"}
    return found.rename(columns=names).astype(dict.fromkeys(_WHOLE, "Int64"))[COLUMNS]


def draw(table: pd.DataFrame, experiment: Experiment, figure: Figure) -> Picture:
    if (table["part"] == "curves").all():
        return _draw_curves(table, experiment, figure)
    forest, levels = (table[table["part"] == part] for part in ("forest", "frontier"))
    labels = _labels(forest)
    forest = forest.assign(panel=forest["claim"].where(forest["claim"] != "", forest["k"]))
    panels = list(dict.fromkeys(forest["panel"]))
    if all(panel.isdecimal() for panel in panels):
        panels.sort(key=int)
    if len(panels) > _MOST_PANELS:
        panels = [panels[0], panels[len(panels) // 2], panels[-1]]
    picture = style.new_picture(style.TEXT_WIDTH, max(2.2, 0.9 + 0.165 * labels.nunique()))
    sides: list[Any] = [picture]
    if not levels.empty:
        sides = [*np.ravel(np.array(picture.subfigures(1, 2, width_ratios=[1.25, 1])))]
    axes = sides[0].subplots(1, max(1, len(panels)), sharex=True, sharey=True, squeeze=False)[0]
    by_method = forest.groupby("method", sort=False).groups.values()
    order = list(dict.fromkeys(labels[row] for rows in by_method for row in rows))
    for panel, name in zip(axes, panels, strict=False):
        chosen = forest[forest["panel"] == name]
        _draw_forest(panel, chosen, [order.index(label) for label in labels[chosen.index]])
        title = f"Pass@{name.replace(' ', ', ')}"
        panel.set_title(name if (chosen["claim"] != "").any() else title)
    axes[0].set_yticks(range(len(order)), order)
    axes[0].set_ylim(len(order) - 0.4, -0.6)
    against = forest["against"].unique()
    minus = f", minus {against[0]}" if len(against) == 1 else ""
    axes[len(axes) // 2].set_xlabel(f"difference{minus} (percentage points)")
    _note(picture, table, experiment, figure, "whiskers: 95 %; filled: significant")
    if not levels.empty:
        _draw_frontier(sides[1].subplots(), levels)
    return picture


def _note(
    picture: Picture, table: pd.DataFrame, experiment: Experiment, figure: Figure, more: str
) -> None:
    first = table.iloc[0]
    style.note(
        picture,
        f"{experiment.scale} scale, {model_labels(experiment, figure.policies(experiment))}, "
        f"{first['seeds']} seed{'s' if first['seeds'] > 1 else ''}",
        f"{first['problems']} problems, {first['samples']} samples each",
        more,
    )


def _draw_curves(table: pd.DataFrame, experiment: Experiment, figure: Figure) -> Picture:
    """Pass@k of every method and of the base model; and differences at the same k, with bands."""
    lines = methods_of(experiment, experiment.policies_of(figure.grids[0]))
    labels = table["method"].replace(BASE, "Base")
    if table.loc[labels != "Base", "variant"].nunique() > 1:
        labels = labels.where(labels == "Base", labels + ", " + table["variant"])
    table = table.assign(method=labels, k=table["k"].astype(int))
    picture = style.new_picture(style.TEXT_WIDTH, 3.1)
    levels, differences = picture.subplots(1, 2)
    for axes, rows in (
        (levels, table[table["against"] == ""]),
        (differences, table[table["against"] != ""]),
    ):
        style.draw_lines(axes, rows, lines, "k", "estimate")
        style.make_log2(axes, [k for k in rows["k"] if k.bit_count() == 1])
        axes.set_xlabel("k of Pass@k")
    style.draw_intervals(differences, table[table["against"] != ""], lines, "k", ("low", "high"))
    differences.axhline(0, color=style.INK, linewidth=0.8, zorder=1)
    levels.set_ylabel("Pass@k (%)")
    against = ", ".join(table["against"][table["against"] != ""].unique())
    differences.set_ylabel(f"minus {against} (points)")
    style.legend(picture, lines)
    _note(picture, table, experiment, figure, "bands: 95 %")
    return picture


def _labels(forest: pd.DataFrame) -> pd.Series:
    """The name of each row: what tells it from the others."""
    if (forest["claim"] != "").any():
        return forest["variant"]
    by_method = forest.groupby("method")["variant"].nunique()
    if by_method.max() == 1:
        return forest["method"]
    return forest["method"] + ", " + forest["variant"]


def _draw_forest(axes: Axes, rows: pd.DataFrame, places: Sequence[int]) -> None:
    """A point with a whisker for each row, at its place."""
    axes.axvline(0, color=style.INK, linewidth=0.8, zorder=1)
    for (_, row), y in zip(rows.iterrows(), places, strict=True):
        filled = row["p_adjusted"] < LEVEL
        axes.hlines(y, row["low"], row["high"], color=style.INK, linewidth=0.9)
        face = style.INK if filled else "white"
        axes.plot(row["estimate"], y, "o", color=style.INK, markersize=3.4, markerfacecolor=face)
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="y", length=0)


def _draw_frontier(axes: Axes, levels: pd.DataFrame) -> None:
    """Pass@k at the larger k against that at the smaller one; RSPO and PG stand out."""
    ks = sorted(set(levels["k"]), key=int)
    by_k = levels.pivot(index=["method", "variant"], columns="k", values="estimate")
    ends: list[tuple[str, tuple[float, float], dict[str, Any]]] = []
    for method in sorted(dict.fromkeys(levels["method"]), key=lambda one: _look(one) is _OTHER):
        x, y = (by_k.loc[method][k] for k in ks)
        look = _look(method)
        lines = _lines(levels["variant"][levels["method"] == method])
        for stem, order in lines.items():
            axes.plot(x[order], y[order], zorder=2 if look is _OTHER else 3, **look)
            label = method if len(lines) == 1 else f"{method}, {stem}"
            ends.append((label, (x[order[-1]], y[order[-1]]), look))
    axes.set(xlabel=f"Pass@{ks[0]} (%)", ylabel=f"Pass@{ks[-1]} (%)")
    axes.margins(y=0.12)  # room for labels
    _label_ends(axes, ends)


def _label_ends(
    axes: Axes, ends: Sequence[tuple[str, tuple[float, float], dict[str, Any]]]
) -> None:
    """Label the ends of lines inside the panel, apart from points and from each other.

    A grey line gets a label only if there is room beside its end.
    """
    picture = axes.get_figure(root=True)
    assert picture is not None
    picture.draw_without_rendering()  # gives the panels their places
    panel, labels = axes.get_window_extent(), list[Any]()
    points = axes.transData.transform(np.concatenate([line.get_xydata() for line in axes.lines]))
    for name, place, look in sorted(ends, key=lambda end: (end[2] is _OTHER, -end[1][1])):
        is_grey = look is _OTHER
        label = axes.annotate(
            name,
            place,
            xytext=(_GAP, 0),
            textcoords="offset points",
            va="center",
            color=style.FAINT if is_grey else look["color"],
            fontsize=style.SMALL,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0, "alpha": 0.7},
            zorder=4,
        )
        label.set_in_layout(False)
        for x, y in _PLACES[:2] if is_grey else _PLACES:
            label.set(position=(x, y), ha="left" if x > 0 else "right")
            box = label.get_window_extent()
            is_inside = panel.contains(*box.min) and panel.contains(*box.max)
            is_covered = box.padded(2).count_contains(points) or box.count_overlaps(labels)
            if is_inside and not is_covered:
                labels.append(box)
                break
        else:
            if is_grey:
                label.remove()
        if y:
            line = {"arrowstyle": "-", "linewidth": 0.5, "color": look["color"], "shrinkA": 0}
            to: dict[str, Any] = {"xytext": (x, y), "textcoords": "offset points"}
            axes.annotate("", place, arrowprops=line, **to).set_in_layout(False)


def _look(method: str) -> dict[str, Any]:
    """Of a method with any k and n."""
    return _LOOKS.get(re.split(" k=|, n=", method)[0], _OTHER)


def _lines(variants: pd.Series) -> dict[str, list[str]]:
    """The variants that a line connects, by what their names have before the last hyphen.

    The default, at its place among them, is on every line.
    """
    names = list(dict.fromkeys(variants))
    stems = dict.fromkeys(name.rpartition("-")[0] for name in names if name != DEFAULT_VARIANT)
    return {
        stem: [one for one in names if one == DEFAULT_VARIANT or one.rpartition("-")[0] == stem]
        for stem in stems or [""]
    }


_OTHER: dict[str, Any] = {"color": "#BBBBBB", "linewidth": 0.8, "marker": "o", "markersize": 2.4}
_LOOKS: dict[str, dict[str, Any]] = {
    "RSPO": {"color": "#B2182B", "linewidth": 1.6, "marker": "o", "markersize": 3.6},
    "PG": {
        "color": style.INK,
        "linewidth": 1.4,
        "linestyle": "--",
        "marker": "s",
        "markersize": 3.6,
    },
    BASE: {"color": style.FAINT, "linestyle": "none", "marker": "v", "markersize": 5},
}
