"""Training prefers one of two policies, and evaluation the other (the paper's figure 1).

Two pairs of policies, small enough for exact rational arithmetic:

    Max@k, one prompt with rewards R:   E[max of k] = sum_r r * (P(R <= r)^k - P(R < r)^k)
    Pass@k, prompts solved with w_x:    mean over prompts x of 1 - (1 - w_x)^k

w_x is the probability that a response to prompt x is correct. k = 1 is the objective of
risk-neutral training. Policy A is steady, policy B takes risks.
"""

from collections.abc import Mapping
from fractions import Fraction

import pandas as pd

from rspo.figures import style
from rspo.figures.figure import Figure
from rspo.figures.style import Axes, Picture

CAPTION = (
    "Training for the expected reward prefers policy A, while Max@k (top: one prompt, rewards "
    "between 0 and 1) and Pass@k (bottom: two prompts) at larger k prefer policy B; all values are "
    "exact."
)
# P(R = r) in tenths, for the rewards r = 0, 1/4, 1/2, 3/4 and 1.
_TENTHS = {"A": (0, 2, 6, 2, 0), "B": (5, 2, 1, 1, 1)}
REWARDS = {
    policy: {Fraction(r, 4): Fraction(chance, 10) for r, chance in enumerate(tenths)}
    for policy, tenths in _TENTHS.items()
}
PROMPTS = {
    "A": {"prompt 1": Fraction(9, 10), "prompt 2": Fraction(0)},
    "B": {"prompt 1": Fraction(3, 10), "prompt 2": Fraction(1, 5)},
}
K = range(1, 17)


def expected_maximum(distribution: Mapping[Fraction, Fraction], k: int) -> Fraction:
    """E[max of k independent rewards]."""
    below = Fraction(0)
    total = Fraction(0)
    for reward in sorted(distribution):
        up_to = below + distribution[reward]
        total += reward * (up_to**k - below**k)
        below = up_to
    return total


def pass_at_k(solved: Mapping[str, Fraction], k: int) -> Fraction:
    """Mean over prompts of P(at least one of k responses is correct)."""
    return sum((1 - (1 - w) ** k for w in solved.values()), Fraction(0)) / len(solved)


def table() -> pd.DataFrame:
    """One row for each bar and point."""
    rows: list[tuple[str, str, float | str, Fraction]] = []
    for policy in ("A", "B"):
        rewards = REWARDS[policy]
        prompts = PROMPTS[policy]
        rows += [("rewards", policy, float(r), chance) for r, chance in rewards.items()]
        rows += [("max_at_k", policy, k, expected_maximum(rewards, k)) for k in K]
        rows += [("prompts", policy, prompt, w) for prompt, w in prompts.items()]
        rows += [("pass_at_k", policy, k, pass_at_k(prompts, k)) for k in K]
    return pd.DataFrame(rows, columns=["panel", "policy", "x", "y"]).astype({"y": float})


def draw(table: pd.DataFrame) -> Picture:
    picture = style.new_picture(style.COLUMN_WIDTH, 3.5)
    (rewards, max_at_k), (prompts, pass_) = picture.subplots(2, 2)
    panels = dict(iter(table.groupby("panel")))
    _draw_bars(rewards, panels["rewards"])
    rewards.set(xlabel="reward", ylabel="probability", title="one prompt")
    _draw_bars(prompts, panels["prompts"])
    prompts.set(ylabel="P(correct)", title="two prompts")
    _draw_curves(max_at_k, panels["max_at_k"], "E[max of k]", "Max@k")
    _draw_curves(pass_, panels["pass_at_k"], "Pass@k", "Pass@k")
    style.legend(picture, {policy: f"policy {policy}" for policy in _LOOKS})
    style.note(picture, "exact values; k = 1 is the risk-neutral training objective")
    return picture


_LOOKS = {
    "A": style.Look(style.SKY, "--", 1.3, "s", 3.0, filled=False),
    "B": style.Look(style.ORANGE, "-", 1.3, "o", 3.0),
}


def _draw_bars(axes: Axes, table: pd.DataFrame) -> None:
    """Draw hollow, hatched bars for policy A beside solid ones for policy B."""
    style.draw(axes, table, _LOOKS, "x", "y", by="policy", kind="bars")
    places = list(dict.fromkeys(table["x"]))
    if not isinstance(places[0], str):  # rewards; seaborn labels the names of prompts itself
        axes.set_xticks(places, [f"{x:g}" for x in places])
    axes.grid(visible=False, axis="x")


def _draw_curves(axes: Axes, table: pd.DataFrame, label: str, title: str) -> None:
    style.draw(axes, table, _LOOKS, "x", "y", by="policy")
    style.make_log2(axes, [1, 2, 4, 8, 16])
    axes.set(xlabel="k", ylabel=label, title=title, ylim=(0, 1.5), yticks=[0, 0.5, 1])
    for k, stage, side in ((1, "training", "left"), (16, "evaluation", "right")):
        # The row of the better policy at this k.
        best = table.loc[table["y"].where(table["x"] == k).idxmax()]
        axes.vlines(k, best["y"] + 0.06, 1.1, color=style.FAINT, linewidth=0.6)
        preference = f"{stage}\nprefers {best['policy']}"
        axes.text(k, 1.5, preference, ha=side, va="top", size=style.SMALL)


FIGURE = Figure("fig_intro", CAPTION, table, draw)
