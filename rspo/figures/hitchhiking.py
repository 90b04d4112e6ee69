"""Weights of one sample of rewards: hitchhiking baseline against RSPO (the paper's figure 2).

The baseline gives all four responses of a group (k/n) times the best reward of the group. RSPO for
Max@k gives each response (k/n) times its mean marginal contribution to the best of k. Both are
unbiased for the same gradient.
"""

import numpy as np
import pandas as pd

from rspo.analysis.comparisons import Method
from rspo.figures import style
from rspo.figures.figure import Figure
from rspo.figures.style import Picture
from rspo.objectives import response_weights

CAPTION = (
    "Weights that the hitchhiking baseline and RSPO (Max@k, k = 4) give to one sample of eight "
    "rewards: the baseline gives every response the weight of the best one in its group, RSPO "
    "gives each response the weight of its own contribution."
)
REWARDS = (0.9, 0.1, 0.0, 0.3, 0.2, 0.7, 0.6, 0.4)
K = 4


def table() -> pd.DataFrame:
    """One row for each quantity and response."""
    rewards = np.array(REWARDS)
    values = {
        "reward": rewards,
        "baseline weight": response_weights(rewards, "hitchhiking", K),
        "RSPO weight": response_weights(rewards, "rspo_max_at_k", K),
    }
    places = np.arange(len(rewards))
    response = places + 1
    group = places // K + 1
    parts = []
    for name, value in values.items():
        columns = {"quantity": name, "response": response, "group": group, "value": value}
        parts.append(pd.DataFrame(columns))
    return pd.concat(parts, ignore_index=True)


def draw(table: pd.DataFrame) -> Picture:
    picture = style.new_picture(style.COLUMN_WIDTH, 3.5)
    rewards = table[table["quantity"] == "reward"]
    # The response with the best reward in each group.
    best = rewards.loc[rewards.groupby("group")["value"].idxmax(), "response"]
    panels = picture.subplots(3, 1, sharex=True)
    colours = [style.REWARD]
    for objective in ("hitchhiking", "rspo_max_at_k"):
        colours.append(style.look(Method("", objective=objective, k=K)).colour)
    for axes, colour, (quantity, rows) in zip(
        panels, colours, table.groupby("quantity", sort=False), strict=True
    ):
        solid = (quantity != "baseline weight") | rows["response"].isin(best)
        looks = {filled: style.Look(colour, filled=filled) for filled in (True, False)}
        bars = rows.assign(solid=solid)
        style.draw(axes, bars, looks, "response", "value", by="solid", kind="bars")
        for response, value in zip(rows["response"], rows["value"], strict=True):
            above = {"xytext": (0, 1.5), "textcoords": "offset points", "ha": "center"}
            axes.annotate(f"{round(value, 3):g}", (response, value), **above)
        # Both kinds of weight have the same scale.
        is_weight = str(quantity).endswith("weight")
        same_scale = table["quantity"].str.endswith("weight") == is_weight
        axes.set(title=quantity, ylim=(0, 1.3 * table["value"][same_scale].max()))
        axes.label_outer()
        axes.grid(visible=False)  # the numbers above the bars are easier to read
        # Dotted lines between the groups.
        for first in range(K + 1, len(REWARDS) + 1, K):
            axes.axvline(first - 0.5, color=style.FAINT, linewidth=0.6, linestyle=":")
    place = {"ha": "center", "va": "top", "transform": panels[0].get_xaxis_transform()}
    for group, middle in rewards.groupby("group")["response"].mean().items():
        panels[0].text(middle, 1.0, f"group {group}", **place)
    panels[-1].set(xlabel="response", xticks=range(1, len(REWARDS) + 1))
    style.note(picture, f"k = {K}, Max@k", "hatched: not the best response of its group")
    return picture


FIGURE = Figure("fig_hitchhiking", CAPTION, table, draw)
