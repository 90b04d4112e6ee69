"""A forest plot of the study `open_choices`: the estimates of three claims under each choice."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from rspo.config.schema import CONTROL_VARIANT, DEFAULT_VARIANT
from rspo.evaluation.statistics import LEVEL
from rspo.figures import style
from rspo.figures.figure import Figure
from rspo.figures.methods import model_labels

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Picture

    from rspo.config.experiment import Experiment

STUDY = "open_choices"
CHANGED = style.ORANGE

CAPTION = (
    "Settings that the paper leaves open, each varied alone. One panel for each claim: its "
    "estimate, the mean of its comparisons over the k that methods are trained for, in percentage "
    "points of Pass@k, with its 95 % interval (paired over problems, not adjusted). C1: RSPO above "
    "the baseline. C3: RSPO best at its own k. C10: above the base model. Filled: the claim is "
    "supported; hollow: not resolved; cross: contradicted. Grey band: the default and its "
    "interval. Orange: the estimate differs significantly from the default's (paired test, Holm "
    "over all choices and claims). Control: a change of a setting that is too small to matter."
)
TITLES = {
    "C1": "C1: RSPO minus baseline",
    "C3": "C3: own k minus other k",
    "C10": "C10: trained minus base model",
}
MARKERS = {"supported": "o", "contradicted": "X"}
COLUMNS = {
    "variant": "name in the config's variants; default: the config as it is",
    "choice": "y: the changed setting and its value",
    "claim": "panel",
    "estimate": "x: the claim's estimate, in percentage points",
    "low": "lower end of its 95 % interval, not adjusted",
    "high": "upper end",
    "verdict": "on the claim, with this choice; the marker",
    "change": "estimate minus that of the default, paired, in percentage points",
    "change_low": "lower end of its 95 % interval, not adjusted",
    "change_high": "upper end",
    "p_adjusted": "two-sided p-value of the change, by Holm's method; below .05: orange",
    "seeds": "training seeds",
    "problems": "test problems",
    "samples": "of each problem",
}
_POINTS = ["estimate", "low", "high", "change", "change_low", "change_high"]


def table(experiment: "Experiment", figure: Figure) -> "pd.DataFrame":
    """One row for each choice and claim, the default first.

    Raises: InputError for a table of the study that is missing or lacks a column.
    """
    import pandas as pd

    from rspo.core.tables import read_csv

    (path,) = figure.step(experiment).input_files
    key, ends = ["variant", "claim"], ["estimate", "low", "high"]
    counts = ["seeds", "problems", "samples"]
    rows = read_csv(path, "part", "choice", "value", "verdict", "p_adjusted", *key, *ends, *counts)
    changes = rows[rows["part"] == "change"][[*key, *ends, "p_adjusted"]]
    names = {"estimate": "change", "low": "change_low", "high": "change_high"}
    claims = rows[rows["part"] == "claim"].drop(columns="p_adjusted")
    merged = claims.merge(changes.rename(columns=names), "left", key)
    merged["choice"] = _labels(merged)
    numbers = [*_POINTS, "p_adjusted"]
    merged[numbers] = merged[numbers].apply(pd.to_numeric)
    merged[_POINTS] *= 100
    merged[counts] = merged[counts].astype(int)
    order = pd.Series(range(len(merged))).mask(merged["variant"] == DEFAULT_VARIANT, -1)
    order = order.mask(merged["variant"] == CONTROL_VARIANT, len(merged))
    merged = merged.assign(order=order).sort_values("order", kind="stable", ignore_index=True)
    return merged[list(COLUMNS)]


def _labels(rows: "pd.DataFrame") -> list[str]:
    special = {DEFAULT_VARIANT: "default", CONTROL_VARIANT: "control"}
    return [
        special.get(row["variant"], f"{row['choice']}: {row['value']}")
        for _, row in rows.iterrows()
    ]


def draw(table: "pd.DataFrame", experiment: "Experiment", figure: Figure) -> "Picture":
    choices, claims = list(dict.fromkeys(table["choice"])), list(dict.fromkeys(table["claim"]))
    picture = style.new_picture(style.TEXT_WIDTH, 0.9 + 0.19 * len(choices))
    panels = picture.subplots(1, len(claims), sharey=True, squeeze=False)[0]
    for axes, claim in zip(panels, claims, strict=True):
        rows = table[table["claim"] == claim]
        _draw_claim(axes, rows, choices)
        axes.set(title=TITLES.get(claim, claim), xlabel="points of Pass@k")
    panels[0].set_yticks(range(len(choices)), choices)
    panels[0].set_ylim(len(choices) - 0.4, -0.6)
    _legend(picture, set(table["verdict"]))
    first = table.iloc[0]
    style.note(
        picture,
        f"{experiment.scale} scale, {model_labels(experiment, figure.policies(experiment))}, "
        f"{first['seeds']} seed{'s' if first['seeds'] > 1 else ''}",
        f"{first['problems']} problems, {first['samples']} samples each",
        "whiskers: 95 % intervals",
    )
    return picture


def _draw_claim(axes: "Axes", rows: "pd.DataFrame", choices: list[str]) -> None:
    """A point with a whisker for each choice, before the band of the default."""
    default = rows[rows["variant"] == DEFAULT_VARIANT].iloc[0]
    axes.axvspan(default["low"], default["high"], color="#E4E4E4", zorder=0)
    axes.axvline(default["estimate"], color=style.FAINT, linewidth=0.8, zorder=1)
    axes.axvline(0, color=style.INK, linewidth=0.8, zorder=1)
    for _, row in rows.iterrows():
        y = choices.index(row["choice"])
        colour = CHANGED if row["p_adjusted"] < LEVEL else style.INK
        axes.hlines(y, row["low"], row["high"], color=colour, linewidth=1.1)
        axes.plot(row["estimate"], y, **_look(row["verdict"], colour))
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="y", length=0)


def _look(verdict: str, colour: str) -> dict[str, Any]:
    filled = verdict in MARKERS
    return {
        "marker": MARKERS.get(verdict, "o"),
        "color": colour,
        "markerfacecolor": colour if filled else "white",
        "markersize": 5.0 if verdict == "contradicted" else 4.0,
        "linestyle": "none",
    }


def _legend(picture: "Picture", verdicts: Iterable[str]) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Line2D | Patch] = [
        Line2D([], [], label=verdict, **_look(verdict, style.INK)) for verdict in sorted(verdicts)
    ]
    handles += [
        Line2D([], [], color=CHANGED, linewidth=1.6, label="differs from the default"),
        Patch(color="#E4E4E4", label="default, 95 % interval"),
    ]
    picture.legend(handles=handles, loc="outside upper center", ncols=len(handles))


FIGURE = Figure(
    "fig_open_choices", CAPTION, COLUMNS, table, draw, grids=(STUDY,), inputs=("study",)
)
