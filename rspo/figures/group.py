"""The weights of the responses to two prompts, one of which is seldom solved.

Policy gradient weights a right response alike whatever the others are. GRPO subtracts the mean
reward of the group and divides by the standard deviation. The baseline gives every response the
best reward of its k. RSPO gives a response what it adds to Pass@k: much where it is the only right
one, and nothing where any k of the others contain a right one.
"""

import numpy as np
import pandas as pd

from rspo.analysis.comparisons import Method
from rspo.figures import style
from rspo.figures.figure import Figure
from rspo.figures.style import Axes, Picture
from rspo.objectives import OBJECTIVES, response_weights

CAPTION = (
    "Weights of eight responses to a hard prompt (top) and to an easy one (bottom); RSPO and the "
    "baseline are for k = 4. Each number is the weight times the number of responses, and "
    "multiplies the gradient of a response's log-probability."
)
K = 4
# 1 for a right response; each group has a right and a wrong one among its first K and its last K.
GROUPS = {
    "1 of 8 is right": (0, 1, 0, 0, 0, 0, 0, 0),
    "6 of 8 are right": (1, 1, 0, 1, 1, 0, 1, 1),
}
OBJECTIVES_SHOWN = {
    "policy_gradient": "Policy gradient",
    "grpo": "GRPO",
    "hitchhiking": f"Baseline, k = {K}",
    "rspo_pass_at_k": f"RSPO, k = {K}",
}
# Where the report cuts the picture for a phone, as fractions of its width and height: between the
# second and the third method, and between the panels and the small print.
MIDDLE = 0.537
BOTTOM = 0.936
HEIGHT = 3.3  # of the picture, in inches
ASPECT = style.TEXT_WIDTH / HEIGHT
_RIGHT = "\u2713"
_WRONG = "\u2717"


def table() -> pd.DataFrame:
    """One row for each response and method."""
    parts = []
    for group, rewards in GROUPS.items():
        for objective, name in OBJECTIVES_SHOWN.items():
            k = K if OBJECTIVES[objective].has_k else None
            weights = response_weights(np.array(rewards, dtype=float), objective, k)
            columns = {
                "group": group,
                "method": name,
                "objective": objective,
                "response": range(1, len(rewards) + 1),
                "correct": [bool(reward) for reward in rewards],
                "weight": len(rewards) * weights,
            }
            parts.append(pd.DataFrame(columns))
    return pd.concat(parts, ignore_index=True)


def draw(table: pd.DataFrame) -> Picture:
    picture = style.new_picture(style.TEXT_WIDTH, HEIGHT)
    panels = picture.subplots(len(GROUPS), len(OBJECTIVES_SHOWN), sharey=True)
    for row, group in zip(panels, GROUPS, strict=True):
        for axes, objective in zip(row, OBJECTIVES_SHOWN, strict=True):
            shown = (table["group"] == group) & (table["objective"] == objective)
            _draw_group(axes, table[shown], objective)
        row[0].set_ylabel(f"{group}\nweight", size=8)
    for axes, name in zip(panels[0], OBJECTIVES_SHOWN.values(), strict=True):
        axes.set_title(name, size=9, weight="bold")
    for axes in panels[:, 1:].flat:
        axes.tick_params(axis="y", labelleft=False)
    style.note(
        picture,
        f"{_RIGHT}: right, {_WRONG} and hatched: wrong",
        "weights times 8",
        f"baseline: its groups are responses 1 to {K} and {K + 1} to {2 * K}",
    )
    return picture


def _draw_group(axes: Axes, rows: pd.DataFrame, objective: str) -> None:
    """Draw the weights of a group as bars, and write the weight of each kind of response once."""
    k = K if OBJECTIVES[objective].has_k else None
    colour = style.look(Method("", objective=objective, k=k)).colour
    looks = {right: style.Look(colour, filled=right) for right in (True, False)}
    style.draw(axes, rows, looks, "response", "weight", by="correct", kind="bars")
    axes.axhline(0, color=style.INK, linewidth=0.6)
    weighted = rows[rows["weight"] != 0].round({"weight": 6})
    for _, same in weighted.groupby("weight"):
        first = same.iloc[0]
        is_above = first["weight"] > 0
        axes.annotate(
            f"{first['weight']:+.1f}".replace("-", "\u2212"),
            (first["response"], first["weight"]),
            xytext=(0, 2 if is_above else -2),
            textcoords="offset points",
            ha="center",
            va="bottom" if is_above else "top",
            fontsize=style.SMALL,
        )
    if weighted.empty:
        axes.annotate("all are 0", (0.5, 0.62), xycoords="axes fraction", ha="center", size=8)
    marks = [_RIGHT if right else _WRONG for right in rows["correct"]]
    axes.set(xticks=rows["response"], xticklabels=marks, xlim=(0.3, 8.7), ylim=(-2.6, 5))
    axes.tick_params(axis="x", length=0)
    axes.grid(visible=False, axis="x")


FIGURE = Figure("fig_group", CAPTION, table, draw)
