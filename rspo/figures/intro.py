"""Training prefers one policy, evaluation another (the paper's figure 1).

Two pairs of policies that are small enough for exact rational arithmetic:

    Max@k, one prompt with rewards R:   E[max of k] = sum_r r * (P(R <= r)^k - P(R < r)^k)
    Pass@k, prompts solved with w_x:    mean over prompts x of 1 - (1 - w_x)^k

k = 1 is what risk-neutral training maximises. Policy A is steady, policy B takes risks.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Picture

from rspo.figures import style
from rspo.figures.drawing import Row

COLUMNS = {
    "panel": "rewards: P(R = x); max_at_k: E[max of x]; prompts: P(solving x); pass_at_k: Pass@x",
    "policy": "A or B",
    "x": "reward, k, or name of the prompt",
    "y": "probability, expected maximum, or Pass@k",
}

REWARDS = {
    "A": {
        Fraction(1, 4): Fraction(1, 5),
        Fraction(1, 2): Fraction(3, 5),
        Fraction(3, 4): Fraction(1, 5),
    },
    "B": {
        Fraction(0): Fraction(1, 2),
        Fraction(1, 4): Fraction(1, 5),
        Fraction(1, 2): Fraction(1, 10),
        Fraction(3, 4): Fraction(1, 10),
        Fraction(1): Fraction(1, 10),
    },
}
PROMPTS = {
    "A": {"prompt 1": Fraction(9, 10), "prompt 2": Fraction(0)},
    "B": {"prompt 1": Fraction(3, 10), "prompt 2": Fraction(1, 5)},
}
K = range(1, 17)

_LOOKS: dict[str, dict[str, Any]] = {
    "A": {"color": style.SKY, "linestyle": "--", "marker": "s"},
    "B": {"color": style.ORANGE, "linestyle": "-", "marker": "o"},
}


def expected_maximum(distribution: Mapping[Fraction, Fraction], k: int) -> Fraction:
    """E[max of k independent rewards]."""
    below = total = Fraction(0)
    for reward in sorted(distribution):
        up_to = below + distribution[reward]
        total += reward * (up_to**k - below**k)
        below = up_to
    return total


def pass_at_k(solved: Mapping[str, Fraction], k: int) -> Fraction:
    """Mean over prompts of P(at least one of k responses is correct)."""
    return sum((1 - (1 - w) ** k for w in solved.values()), Fraction(0)) / len(solved)


def numbers() -> list[Row]:
    support = sorted({reward for policy in REWARDS.values() for reward in policy})
    rows: list[tuple[str, str, Fraction | str | int, Fraction]] = []
    for policy in ("A", "B"):
        rewards, prompts = REWARDS[policy], PROMPTS[policy]
        rows += [("rewards", policy, r, rewards.get(r, Fraction(0))) for r in support]
        rows += [("max_at_k", policy, k, expected_maximum(rewards, k)) for k in K]
        rows += [("prompts", policy, prompt, w) for prompt, w in prompts.items()]
        rows += [("pass_at_k", policy, k, pass_at_k(prompts, k)) for k in K]
    return [
        {
            "panel": panel,
            "policy": policy,
            "x": float(x) if isinstance(x, Fraction) else x,
            "y": float(y),
        }
        for panel, policy, x, y in rows
    ]


def picture(rows: Sequence[Row]) -> Picture:
    result = style.new_picture(style.COLUMN_WIDTH, 3.5)
    (rewards, max_at_k), (prompts, pass_) = result.subplots(2, 2)
    _bars(rewards, rows, "rewards")
    rewards.set(xlabel="reward", ylabel="probability", title="one prompt")
    _curves(max_at_k, rows, "max_at_k")
    max_at_k.set(xlabel="k", ylabel="E[max of k]", title="Max@k")
    _bars(prompts, rows, "prompts")
    prompts.set(ylabel="P(correct)", title="two prompts")
    _curves(pass_, rows, "pass_at_k")
    pass_.set(xlabel="k", ylabel="Pass@k", title="Pass@k")
    handles, labels = max_at_k.get_legend_handles_labels()
    result.legend(handles, labels, loc="outside upper center", ncols=2, handlelength=3.0)
    style.note(result, "exact values; k = 1 is the risk-neutral training objective")
    return result


def _bars(axes: Axes, rows: Sequence[Row], panel: str) -> None:
    names = list(dict.fromkeys(row["x"] for row in rows if row["panel"] == panel))
    places = sorted(names) if panel == "rewards" else names
    for offset, hatch, policy in ((-0.2, "////", "A"), (0.2, "", "B")):
        height = {row["x"]: row["y"] for row in _of(rows, panel, policy)}
        bars = axes.bar(
            [index + offset for index in range(len(places))],
            [height[place] for place in places],
            width=0.4,
            facecolor="white" if hatch else _LOOKS[policy]["color"],
            edgecolor=_LOOKS[policy]["color"],
            hatch=hatch,
        )
        for bar in bars:
            bar.set_gid(f"{panel}/{policy}")
    axes.set_xticks(range(len(places)), [_short(place) for place in places])
    axes.grid(axis="x", visible=False)


def _short(place: str | float) -> str:
    return place if isinstance(place, str) else f"{place:g}".removeprefix("0") or "0"


def _curves(axes: Axes, rows: Sequence[Row], panel: str) -> None:
    for policy in ("A", "B"):
        points = _of(rows, panel, policy)
        axes.plot(
            [row["x"] for row in points],
            [row["y"] for row in points],
            label=f"policy {policy}",
            markersize=3,
            gid=f"{panel}/{policy}",
            **_LOOKS[policy],
        )
    style.log2_axis(axes, [1, 2, 4, 8, 16])
    axes.set_ylim(0, 1.5)
    axes.set_yticks([0, 0.5, 1])
    _say(axes, rows, panel, 1, "training", "left")
    _say(axes, rows, panel, 16, "evaluation", "right")


def _of(rows: Sequence[Row], panel: str, policy: str) -> list[Row]:
    return [row for row in rows if row["panel"] == panel and row["policy"] == policy]


def _say(axes: Axes, rows: Sequence[Row], panel: str, k: int, who: str, side: str) -> None:
    """Write above its point which policy is better at k."""
    values = {p: row["y"] for p in ("A", "B") for row in _of(rows, panel, p) if row["x"] == k}
    best = max(values, key=lambda policy: values[policy])
    axes.annotate(
        f"{who}\nprefers {best}",
        (k, float(values[best])),
        xytext=(k, 1.5),
        ha=side,
        va="top",
        size=style.SMALL,
        arrowprops={
            "arrowstyle": "-",
            "linewidth": 0.6,
            "color": style.FAINT,
            "relpos": (0.0 if side == "left" else 1.0, 0.0),
            "shrinkA": 0,
            "shrinkB": 3,
        },
    )
