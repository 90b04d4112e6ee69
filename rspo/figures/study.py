"""The picture of a study: its first contrast as a forest plot and, if it has one, its frontier.

The forest plot has a row for each method or variant, and a panel for each k or claim; the frontier
has Pass@k at one k against another. A study with its own k has curves instead: Pass@k, and its
first contrast, at all of them, for the default variant if there is one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import mode
from typing import Any

import numpy as np
import pandas as pd

from rspo.analysis import studies
from rspo.analysis.comparisons import Method
from rspo.analysis.labels import label_of
from rspo.analysis.results import read_rows, shown_by
from rspo.config.experiment import Experiment
from rspo.config.names import BASE
from rspo.config.schema import DEFAULT_VARIANT, Contrast, Study, Subtrahend
from rspo.figures import style
from rspo.figures.figure import Figure
from rspo.figures.methods import MARKS, about_marks, interval_over, methods_of, model_labels
from rspo.figures.style import Axes, Picture

COLUMNS = [
    "part",
    "method",
    "variant",
    "against",
    "claim",
    "k",
    "estimate",
    "low",
    "high",
    "p_adjusted",
    "p_tie_adjusted",
    "seeds",
    "problems",
    "samples",
]
_IN_PERCENT = ["estimate", "low", "high"]
_COUNTS = ["seeds", "problems", "samples"]
_PANEL_LIMIT = 3  # if there are more k, the first, the middle and the last have a panel
_LABEL_LIMIT = 16  # if the frontier has more points, only the ends of lines have labels
_FEW = 10  # if the frontier has more points, those of other papers are faint
_PG = label_of("policy_gradient")
# The paper's methods and the base model.
_PAPER_METHODS = (label_of("rspo_pass_at_k"), _PG, label_of("grpo"), label_of("hitchhiking"), BASE)
_CLAIM_LOOK = style.Look(style.INK, marker="o")
# The offsets (x, y) of a label from its point, in 1/72 inch, in the order in which they are tried:
# beside the point, then further and further above and below. The last one, beside the point again,
# is kept if none is free.
_GAP = 4.0
_LINE_HEIGHT = 9
_HEIGHTS = [0]
for _lines_away in range(1, 9):
    _HEIGHTS += [_LINE_HEIGHT * _lines_away, -_LINE_HEIGHT * _lines_away]
_HEIGHTS += [0]
_PLACES = [(x, y) for y in _HEIGHTS for x in (_GAP, -_GAP)]


def figure_of_study(name: str, study: Study) -> Figure:
    """The figure fig_<name> of a study: curves if the study has its own k, else a forest plot."""
    frontier = ""
    if study.frontier:
        x, y = study.frontier
        frontier = f" Right: Pass@{x} and Pass@{y}; a line connects the variants of a method."
    caption = (
        f"{study.title}: differences in percentage points with 95 % intervals, paired over "
        "problems and not adjusted; *: significant after the adjustment for the tests; =: a tie."
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
    rows = read_rows(figure.task(experiment).input_files[0])  # the study's comparisons
    first = study.contrasts[0]
    families = [contrast.family for contrast in study.contrasts if _share_a_plot(contrast, first)]
    if study.several_models:
        families += [f"{family}, {studies.OVER_MODELS}" for family in families]
    forest = rows[rows["family"].isin(families)].assign(part="curves" if study.k else "forest")
    ks = [str(k) for k in study.k or study.frontier or ()]
    # A level is the Pass@k of a method itself: nothing is subtracted, and it is not about a claim.
    is_level = (rows["method_b"] == "") & (rows["claim"] == "") & rows["k"].isin(ks)
    if study.k and study.choose_by_pass_at:
        is_level &= _is_compared(rows, forest)
    levels = rows[is_level].assign(part="curves" if study.k else "frontier")
    drawn = pd.concat([forest, levels], ignore_index=True)
    if study.k and (drawn["variant"] == DEFAULT_VARIANT).any():
        # Curves of other variants as well would hide each other.
        drawn = drawn[drawn["variant"].isin(("", DEFAULT_VARIANT))].reset_index(drop=True)
    drawn[_IN_PERCENT] *= 100
    drawn = drawn.rename(columns={"method_a": "method", "method_b": "against"})
    return drawn.astype(dict.fromkeys(_COUNTS, "Int64"))[COLUMNS]


def _is_compared(rows: pd.DataFrame, forest: pd.DataFrame) -> pd.Series:
    """Whether all policies of each row are among those of the comparisons that are drawn.

    Those of a variant that the study does not choose are not; base policies always are.
    """
    compared = {cell for cells in forest["cells"] for cell in cells.split()}
    is_base = rows["method_a"] == BASE
    return is_base | rows["cells"].map(lambda cells: compared.issuperset(cells.split()))


def _share_a_plot(first: Contrast, second: Contrast) -> bool:
    """Whether two contrasts share the forest plot, which has a panel for each k.

    They subtract the same, from one method each, or from all; or each subtracts an objective of its
    own from methods at the k that these are trained for. A method minus another one is then a
    difference of one of them only.
    """
    keys = ("less", "mean", "claims", "each_variant", "benchmarks")
    is_alike = all(getattr(first, key) == getattr(second, key) for key in keys)
    if first.minus == second.minus:
        return is_alike and bool(first.method) == bool(second.method)
    if not isinstance(first.minus, Subtrahend) or not isinstance(second.minus, Subtrahend):
        return False
    are_own = first.k == "own" and second.k == "own"
    return is_alike and are_own and first.minus.objective != second.minus.objective


def draw(table: pd.DataFrame, experiment: Experiment, figure: Figure) -> Picture:
    if (table["part"] == "curves").all():
        return _draw_curves(table, experiment, figure)
    looks = _looks(table, experiment, figure)
    levels = _in_order(table[table["part"] == "frontier"], list(experiment.config.variants))
    forest = table[table["part"] == "forest"]
    # A contrast of claims has a panel for each claim, and any other one for each k.
    panel = forest["claim"].where(forest["claim"] != "", forest["k"])
    study = studies.study_of(experiment, figure.grids[0])
    choosing = studies.chooser(experiment, figure.grids[0])
    forest = forest.assign(panel=panel, label=_labels(_with_own_rates(forest, study, choosing)))
    height = max(_least_height(levels), 0.9 + 0.165 * forest["label"].nunique())
    picture = style.new_picture(style.TEXT_WIDTH, height)
    if levels.empty:
        _draw_forests(picture, forest, looks, margin=0.14)
    else:
        left, right = np.ravel(np.array(picture.subfigures(1, 2, width_ratios=[1.1, 1])))
        _draw_forests(left, forest, looks, margin=0.22)
    marks = about_marks(experiment)
    _note(picture, table, experiment, figure, "whiskers", marks, *_orders(levels))
    if not levels.empty:  # after the note, because labels take the room that is left
        _draw_frontier(right.subplots(), levels, looks)
    return picture


def _least_height(levels: pd.DataFrame) -> float:
    """The height in inches that a picture has at least, so that there is room for labels."""
    return 3.6 if _has_many_points(levels) else 2.4


def _has_many_points(levels: pd.DataFrame) -> bool:
    """Whether a frontier has so many points that only the ends of lines have labels."""
    return len(levels) > 2 * _LABEL_LIMIT  # a point has two levels, one for each axis


def _draw_forests(
    side: Any, forest: pd.DataFrame, looks: Mapping[str, style.Look], margin: float
) -> None:
    """Draw a panel for each k or claim, with a row for each method or variant.

    Args:
        side: the picture, or the half of it that has the panels.
        margin: room for stars on both sides, as a fraction of a panel; narrow panels need more.
    """
    panels = _panels(forest)
    axes = side.subplots(1, max(1, len(panels)), sharex=True, sharey=True, squeeze=False)[0]
    # The rows of a method are adjacent, in the order in which methods first appear.
    by_method = forest.groupby("method", sort=False)["label"]
    order = list(dict.fromkeys(label for _, labels in by_method for label in labels))
    forest = forest.assign(place=forest["label"].map(order.index))
    for panel, name in zip(axes, panels, strict=False):
        rows = forest[forest["panel"] == name]
        _draw_forest(panel, rows, looks)
        panel.set_title(_title(name, rows, forest))
    axes[0].set_yticks(range(len(order)), order)
    axes[0].set_ylim(len(order) - 0.4, -0.6)  # the first row is at the top
    for panel in axes:
        panel.margins(x=margin)
        panel.label_outer()
    # Below the middle panel, or between the two panels in the middle.
    place = 0.5 if len(axes) % 2 else 0.0
    axes[len(axes) // 2].set_xlabel(f"difference{_minus(forest)} (percentage points)", x=place)


def _title(panel: str, rows: pd.DataFrame, forest: pd.DataFrame) -> str:
    """The title of a panel: the claim or the k, and what it subtracts if that is its own."""
    if (rows["claim"] != "").any():
        return panel
    title = f"Pass@{panel.replace(' ', ', ')}"  # several k, of which it is the mean, have spaces
    subtracted = rows["against"].unique()
    if _minus(forest) or len(subtracted) > 1:
        return title
    return f"{title}\n\u2212 {subtracted[0]}"  # a minus sign, because panels are narrow


def _panels(forest: pd.DataFrame) -> list[str]:
    """The k or claims that have a panel, in their order."""
    panels = list(dict.fromkeys(forest["panel"]))
    if all(panel.isdecimal() for panel in panels):
        panels.sort(key=int)
    if len(panels) > _PANEL_LIMIT:
        panels = [panels[0], panels[len(panels) // 2], panels[-1]]
    return panels


def _in_order(levels: pd.DataFrame, variants: Sequence[str]) -> pd.DataFrame:
    """The levels in the order of the config's variants, which lines then connect in this order.

    Levels with the default variant, which the config does not list, stay in their order.
    """
    if DEFAULT_VARIANT in set(levels["variant"]):
        return levels
    places = levels["variant"].map({name: place for place, name in enumerate(variants)})
    return levels.iloc[places.argsort(kind="stable")]


def _orders(levels: pd.DataFrame) -> list[str]:
    """For the small print, the variants that each line connects, if their points have no labels."""
    if not _has_many_points(levels):
        return []
    orders: dict[str, None] = {}  # as keys, so that each is said once
    for _, variants in levels[levels["variant"] != ""].groupby("method", sort=False)["variant"]:
        for names in _lines(variants).values():
            if len(names) > 1:
                orders[f"lines join {', '.join(names)}"] = None
    return list(orders)


def _minus(rows: pd.DataFrame) -> str:
    """What is subtracted, as the end of a label; empty if that is not the same in all rows.

    Methods that differ only in k are named once.
    """
    names = list(dict.fromkeys(rows["against"]))
    stems = {name.partition(" k=")[0] for name in names}
    if len(names) == 1:
        return f", minus {names[0]}"
    return f", minus {stems.pop()} of the same k" if len(stems) == 1 else ""


def _looks(table: pd.DataFrame, experiment: Experiment, figure: Figure) -> dict[str, style.Look]:
    """The look of each method of the table; all claims have the same one."""
    lines = studies.lines_of(experiment, figure.grids[0])
    looks = {BASE: style.look(Method(BASE))} | style.looks(lines)
    claims = dict.fromkeys(table["claim"][table["claim"] != ""], _CLAIM_LOOK)
    return looks | claims


def _note(
    picture: Picture,
    table: pd.DataFrame,
    experiment: Experiment,
    figure: Figure,
    intervals: str,
    *more: str,
) -> None:
    """Write the small print: what was measured, and how the intervals are drawn.

    Args:
        intervals: what draws them, such as "whiskers".
        more: further parts.
    """
    first = table.iloc[0]
    seeds = first["seeds"]
    is_over_models = table["variant"] == studies.OVER_MODELS
    over = interval_over(table[~is_over_models])
    if is_over_models.any():
        over += "; of means over models, also over these"
    parts = [
        f"{experiment.scale} scale, {model_labels(experiment, figure.policies(experiment))}, "
        f"{seeds} seed{'s' if seeds > 1 else ''}",
        f"{first['problems']} problems, {first['samples']} samples each",
        f"{intervals}: 95 %, over {over}",
    ]
    parts.extend(more)
    named = pd.concat([table["method"], table["against"]])
    if _PG in set(named.map(_without_k_and_n)):
        parts.append(f"{_PG}: policy gradient")
    style.note(picture, *parts)


def _draw_curves(table: pd.DataFrame, experiment: Experiment, figure: Figure) -> Picture:
    """Draw Pass@k of every method and of the base model, and differences with bands, against k."""
    lines = _lines_of_curves(table, experiment, figure)
    variants = _other_variants(table)
    # The same labels as those of the lines, by which these find their looks.
    labels = table["method"].replace(BASE, "Base")
    if _has_variants(table):
        labels = labels.where(labels == "Base", labels + ", " + table["variant"])
    table = table.assign(method=labels, k=table["k"].astype(int))
    picture = style.new_picture(style.TEXT_WIDTH, 3.1)
    levels, differences = picture.subplots(1, 2)
    looks = style.looks(lines)
    is_level = table["against"] == ""
    style.draw(levels, table[is_level], looks, "k", "estimate")
    ends = ("low", "high")
    style.draw(differences, table[~is_level], looks, "k", "estimate", ends=ends)
    for axes in (levels, differences):
        # Ticks at powers of two only: those of other k would overlap.
        style.make_log2(axes, [k for k in table["k"] if k.bit_count() == 1])
        axes.set_xlabel("k of Pass@k")
    differences.axhline(0, color=style.INK, linewidth=0.8, zorder=1)
    levels.set_ylabel("Pass@k (%)")
    against = ", ".join(table["against"][~is_level].unique())
    differences.set_ylabel(f"minus {against} (points)")
    style.legend_of(picture, lines)
    _note(picture, table, experiment, figure, "bands", *variants)
    return picture


def _lines_of_curves(table: pd.DataFrame, experiment: Experiment, figure: Figure) -> list[Method]:
    """The lines that are drawn, labelled with their variant if a method has several."""
    lines = methods_of(experiment, experiment.policies_of(figure.grids[0]))
    if _has_variants(table):
        return lines
    drawn = set(zip(table["method"], table["variant"], strict=True))
    every_line = studies.lines_of(experiment, figure.grids[0])
    chosen = [line for line in every_line if (line.label, line.variant) in drawn]
    return chosen + [line for line in lines if not line.trained]


def _other_variants(table: pd.DataFrame) -> list[str]:
    """For the small print, the variants if each method has one and that is not the same one."""
    trained = table[table["method"] != BASE]
    if trained.empty or _has_variants(trained):
        return []
    variants = dict(zip(trained["method"], trained["variant"], strict=True))
    usual = mode(variants.values())
    others = [f"{method}: {variant}" for method, variant in variants.items() if variant != usual]
    if not others:
        return []
    return [f"{', '.join(others)}, other methods: {usual}"]


def _has_variants(table: pd.DataFrame) -> bool:
    """Whether a method of the table has several variants."""
    return bool((table.groupby("method")["variant"].nunique() > 1).any())


def _with_own_rates(forest: pd.DataFrame, study: Study, choosing: Study) -> pd.DataFrame:
    """The rows with one name for all variants among which a study chooses at each k.

    The variant of a method may then be another one in another panel.

    Args:
        choosing: the study whose trainings decide.
    """
    if study.choose_by_pass_at != "each" or study.contrasts[0].each_variant:
        return forest
    within = choosing.choose_within
    outside = set(forest["variant"]) - set(within) if within else set()
    return forest.assign(
        variant=forest["variant"].where(forest["variant"].isin(outside), "own rate")
    )


def _labels(forest: pd.DataFrame) -> pd.Series:
    """The label of each row of the forest plot.

    It is the method, with the variant if there are several variants; and if several methods are
    subtracted from it, the difference. A contrast of claims compares variants only, so it is the
    variant there.
    """
    if (forest["claim"] != "").any():
        return forest["variant"]
    if (forest.groupby(["method", "variant", "k"])["against"].nunique() > 1).any():
        # The panel has the k.
        return (
            forest["method"].map(_without_k_and_n)
            + " \u2212 "
            + forest["against"].map(_without_k_and_n)
        )
    if forest["variant"].nunique() == 1:
        return forest["method"]
    return forest["method"] + ", " + forest["variant"]


def _draw_forest(axes: Axes, rows: pd.DataFrame, looks: Mapping[str, style.Look]) -> None:
    """Draw a point with a whisker for each row at its `place`, and the mark of its test, if any."""
    style.draw(axes, rows, looks, "estimate", "place", ends=("low", "high"), kind="forest")
    axes.axvline(0, color=style.INK, linewidth=0.8, zorder=1)
    rows = rows.assign(mark=[MARKS[shown_by(row)] for row in rows.to_dict("records")])
    for row in rows[rows["mark"] != ""].itertuples():
        right = row.estimate > 0  # away from the line at 0
        end = (row.high if right else row.low, row.place)
        side = "left" if right else "right"
        shift = (1.5 if right else -1.5, -2.5 if row.mark == "*" else 0)  # a star stands high
        axes.annotate(row.mark, end, xytext=shift, textcoords="offset points", ha=side, va="center")
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="y", length=0)


def _draw_frontier(axes: Axes, levels: pd.DataFrame, looks: Mapping[str, style.Look]) -> None:
    """Draw Pass@k at the larger k against the smaller k.

    Among many points, the paper's methods stand out.
    """
    ks = sorted(set(levels["k"]), key=int)
    points = _points(levels, ks[0], ks[-1])
    shown = {
        point.line: replace(looks[point.method], opacity=0.4 if point.faint else 1.0)
        for point in points.itertuples()
    }
    style.draw(axes, points, shown, "x", "y", by="line")
    axes.set(xlabel=f"Pass@{ks[0]} (%)", ylabel=f"Pass@{ks[-1]} (%)")
    axes.margins(y=0.12)  # room for labels
    _label(axes, _named(points), looks)


def _points(levels: pd.DataFrame, x: str, y: str) -> pd.DataFrame:
    """The points of each line: Pass@x and Pass@y.

    The default variant is on each line of its method, so it may have several rows.
    """
    by_k = levels.pivot(index=["method", "variant"], columns="k", values="estimate")
    are_few = len(by_k) <= _FEW
    rows = []
    for method in dict.fromkeys(levels["method"]):
        lines = _lines(levels["variant"][levels["method"] == method])
        faint = not are_few and _without_k_and_n(method) not in _PAPER_METHODS
        for stem, variants in lines.items():
            name = method if len(lines) == 1 else f"{method}, {stem}"
            for variant in variants:
                values = by_k.loc[(method, variant)]
                rows.append((name, method, variant, faint, values[x], values[y]))
    return pd.DataFrame(rows, columns=["line", "method", "variant", "faint", "x", "y"])


def _without_k_and_n(method: str) -> str:
    """The label of a method without its k and n, which is that of its objective."""
    return method.split(" k=")[0].split(", n=")[0]


def _named(points: pd.DataFrame) -> pd.DataFrame:
    """The points that get a label, with this label; those of the paper's methods come first.

    If there are more than `_LABEL_LIMIT`, only the last point of each line gets a label, which is
    the name of the line.
    """
    points = points.drop_duplicates(["method", "variant"])
    if len(points) > _LABEL_LIMIT:
        ends = points.drop_duplicates("line", keep="last")
        return ends.assign(label=ends["line"]).sort_values(["faint", "y"], ascending=[True, False])
    # The default variant is labelled with its method. Any other variant is labelled with its own
    # name, preceded by the method if there are few points or the method has only this variant.
    plain = points["variant"].isin(("", DEFAULT_VARIANT))
    own = points.groupby("method")["variant"].transform("nunique") == 1
    own = own | (len(points) <= _FEW)
    labels = points["variant"].mask(own, points["method"] + ", " + points["variant"])
    labels = labels.mask(plain, points["method"])
    return points.assign(label=labels).sort_values(["faint", "y"], ascending=[True, False])


def _label(axes: Axes, points: pd.DataFrame, looks: Mapping[str, style.Look]) -> None:
    """Label points inside the panel, apart from points and from each other.

    A faint point gets a label only if there is room beside it.
    """
    picture = axes.get_figure(root=True)
    assert picture is not None
    picture.draw_without_rendering()  # gives the panels their places
    panel = axes.get_window_extent()
    boxes: list[Any] = []  # of labels that are placed
    marks = axes.transData.transform(np.concatenate([line.get_xydata() for line in axes.lines]))
    for point in points.to_dict("records"):
        place = (point["x"], point["y"])
        label = axes.annotate(
            point["label"],
            place,
            xytext=(_GAP, 0),
            textcoords="offset points",
            va="center",
            fontsize=style.SMALL,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0, "alpha": 0.7},
            zorder=4,
        )
        label.set_in_layout(False)  # or matplotlib would shrink the panel to make room for it
        places = _PLACES[:2] if point["faint"] else _PLACES
        shift = _move_to_free_place(label, places, panel, marks, boxes)
        if shift is None:
            if point["faint"]:
                label.remove()
        elif shift[1]:  # a label above or below its point needs a line to it
            colour = looks[point["method"]].colour
            line = {"arrowstyle": "-", "linewidth": 0.5, "color": colour, "shrinkA": 0}
            end: dict[str, Any] = {"xytext": shift, "textcoords": "offset points"}
            axes.annotate("", place, arrowprops=line, **end).set_in_layout(False)


def _move_to_free_place(
    label: Any,
    places: Sequence[tuple[float, float]],
    panel: Any,
    marks: Any,
    boxes: list[Any],
) -> tuple[float, float] | None:
    """Move a label to the first place that is free, and return the place.

    Args:
        panel: the box that a label may not leave.
        marks: the points that it may not cover.
        boxes: the boxes of earlier labels, to which this one is added.

    Returns: None if no place is free; the label is then at the last one.
    """
    for x, y in places:
        label.set(position=(x, y), ha="left" if x > 0 else "right")
        box = label.get_window_extent()
        is_inside = panel.contains(*box.min) and panel.contains(*box.max)
        is_covered = box.padded(2).count_contains(marks) or box.count_overlaps(boxes)
        if is_inside and not is_covered:
            boxes.append(box)
            return x, y
    return None


def _lines(variants: pd.Series) -> dict[str, list[str]]:
    """The variants that each line connects, by the part of their names before the last hyphen.

    The default variant is on every line, at its place among the others. If there is no other
    variant, there is one line, with the empty name.
    """
    names = list(dict.fromkeys(variants))
    stems = dict.fromkeys(_stem(name) for name in names if name != DEFAULT_VARIANT)
    return {
        stem: [name for name in names if name == DEFAULT_VARIANT or _stem(name) == stem]
        for stem in stems or [""]
    }


def _stem(variant: str) -> str:
    """The name of the line that a variant is on: `rate` for the variant `rate-third`."""
    return variant.rpartition("-")[0]
