"""Weights from one sample of rewards: hitchhiking baseline against RSPO (the paper's figure 2).

Both are `rspo.objectives.response_weights` of the same eight rewards at k = 4: the baseline gives
all four responses of a group (k/n) * the group's best reward, RSPO for Max@k gives each response
(k/n) * its mean marginal contribution to the best of k. Both are unbiased for the same gradient.
"""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Picture

from rspo.figures import style
from rspo.figures.drawing import Row
from rspo.objectives import response_weights

COLUMNS = {
    "quantity": "panel: reward, baseline weight or RSPO weight",
    "response": "x: 1 .. n in the order of sampling",
    "group": "of the baseline: 1 .. n/k",
    "value": "height of the bar, and the number above it",
}

REWARDS = (0.9, 0.1, 0.0, 0.3, 0.2, 0.7, 0.6, 0.4)
K = 4

_COLOURS = {
    "reward": "#8C8C8C",
    "baseline weight": style.shade("Blues", 1, 3),
    "RSPO weight": style.shade("Reds", 1, 3),
}


def numbers() -> list[Row]:
    rewards = np.array(REWARDS)
    values = {
        "reward": rewards,
        "baseline weight": response_weights(rewards, "hitchhiking", K),
        "RSPO weight": response_weights(rewards, "rspo_max_at_k", K),
    }
    return [
        {"quantity": quantity, "response": i + 1, "group": i // K + 1, "value": float(value)}
        for quantity, of_responses in values.items()
        for i, value in enumerate(of_responses)
    ]


def picture(rows: Sequence[Row]) -> Picture:
    result = style.new_picture(style.COLUMN_WIDTH, 3.5)
    quantities = list(dict.fromkeys(str(row["quantity"]) for row in rows))
    panels = result.subplots(len(quantities), 1, sharex=True)
    riders = _riders(rows)
    for axes, quantity in zip(panels, quantities, strict=True):
        shown = [row for row in rows if row["quantity"] == quantity]
        _bars(axes, shown, riders if quantity == "baseline weight" else set())
        axes.set_title(quantity, loc="left")
        # The two kinds of weight on one scale.
        unit = [row for row in rows if ("weight" in str(row["quantity"])) == ("weight" in quantity)]
        axes.set_ylim(0, 1.3 * max(float(row["value"]) for row in unit))
        # Between the baseline's groups.
        for first in range(K + 1, len(REWARDS) + 1, K):
            axes.axvline(first - 0.5, color=style.FAINT, linewidth=0.6, linestyle=":", gid="guide")
    _name_groups(panels[0], rows)
    panels[-1].set_xlabel("response")
    panels[-1].set_xticks(sorted({row["response"] for row in rows}))
    style.note(
        result, f"k = {K}, Max@k", "hatched: rides along with the best response of its group"
    )
    return result


def _riders(rows: Sequence[Row]) -> set[int]:
    """Responses that are not the best of their group."""
    rewards = [row for row in rows if row["quantity"] == "reward"]
    best: dict[int, float] = {}
    for row in rewards:
        group = int(row["group"])
        best[group] = max(best.get(group, float("-inf")), float(row["value"]))
    return {int(r["response"]) for r in rewards if float(r["value"]) < best[int(r["group"])]}


def _bars(axes: Axes, rows: Sequence[Row], hatched: set[int]) -> None:
    for row in rows:
        colour = _COLOURS[str(row["quantity"])]
        rides = row["response"] in hatched
        (bar,) = axes.bar(
            [row["response"]],
            [row["value"]],
            width=0.7,
            facecolor="white" if rides else colour,
            edgecolor=colour,
            hatch="////" if rides else "",
        )
        bar.set_gid(str(row["quantity"]))
        axes.annotate(
            f"{round(float(row['value']), 3):g}",
            (float(row["response"]), float(row["value"])),
            xytext=(0, 1.5),
            textcoords="offset points",
            ha="center",
            size=style.SMALL,
        )
    axes.grid(visible=False)  # the numbers above the bars serve better


def _name_groups(axes: Axes, rows: Sequence[Row]) -> None:
    """Name the baseline's groups in the first panel."""
    members: dict[int, list[int]] = {}
    for row in rows:
        members.setdefault(int(row["group"]), []).append(int(row["response"]))
    for group, responses in members.items():
        middle = (min(responses) + max(responses)) / 2
        axes.text(
            middle,
            1.0,
            f"group {group}",
            ha="center",
            va="top",
            transform=axes.get_xaxis_transform(),
        )
