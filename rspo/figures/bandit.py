"""A policy that must bet: six strategies, one of them right, and two actions that never are.

The right strategy j of a prompt is drawn with the probabilities s_j of `rspo.datasets.generated`
(the hidden rules of divide and sequence). The prompt does not reveal it, so a policy is one
distribution q over the eight actions, and

    Pass@k(q) = sum_j s_j (1 - (1 - q_j)^k).

It is concave in q. At its maximum k s_j (1 - q_j)^(k-1) is equal for all actions with q_j > 0, so
q_j = max(0, 1 - (v / (k s_j))^(1/(k-1))), where bisection finds the v for which they sum to 1. For
k = 1 the most common strategy has probability 1.

The gradient's signal-to-noise ratio is |E[g]|^2 / tr Cov[g] over prompts and responses, for g =
sum_i w_i grad log q with respect to the eight logits of the uniform policy, exact.
"""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rspo.config.experiment import BASE
from rspo.datasets.generated import RULE_FRACTIONS
from rspo.figures import style
from rspo.figures.exact import expectations
from rspo.figures.figure import Figure
from rspo.figures.methods import Method, formula_lines

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure as Picture

CAPTION = (
    "A policy that must bet on one of six hidden strategies: the best policy for each k and its "
    "Pass@k (top), and the signal-to-noise ratio of one prompt's gradient at the uniform policy, "
    "of RSPO and of the baseline, which have the same optima (bottom); all values are exact."
)
COLUMNS = {
    "panel": "policy, pass_at_k: top; signal_to_noise, per_response: bottom",
    "line": "as in the legend, with the k that it is best for or trained with",
    "k": "that the policy is the optimum for, or the objective's",
    "x": "action 1 .. 8 (7 and 8 are never right); k of Pass@k; n",
    "y": "probability; Pass@k in %; |E[g]|^2 / tr Cov[g] of a prompt, or that per response",
}

Floats = NDArray[np.float64]

SHARES = np.array([*RULE_FRACTIONS, 0.0, 0.0])
KS = (1, 2, 4, 8)
EVALUATED = (1, 2, 4, 8, 16)
NS = (4, 8, 16, 32, 64)


def optimum(k: int) -> Floats:
    """The distribution over actions with the largest Pass@k, up to rounding."""
    if k == 1:
        return np.eye(len(SHARES))[int(SHARES.argmax())]
    low, high = 0.0, k * float(SHARES.max())  # of v: sum of q above 1, and 0
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if _played(middle, k).sum() > 1 else (low, middle)
    return _played(high, k)


def _played(value: float, k: int) -> Floats:
    with np.errstate(divide="ignore"):
        return np.maximum(0.0, 1 - (value / (k * SHARES)) ** (1 / (k - 1)))


def pass_at_k(policy: Floats, k: int) -> float:
    """sum_j s_j (1 - (1 - q_j)^k)."""
    return float(SHARES @ (1 - (1 - policy) ** k))


def signal_to_noise(objective: str, k: int, n: int, policy: Floats) -> float:
    """|E[g]|^2 / tr Cov[g] of one prompt's gradient with respect to the logits."""
    form = expectations(objective, k, n, policy)
    directions = np.eye(len(policy)) - policy  # grad log q of each action
    mean = (SHARES * policy * form.slope) @ directions
    # Given which responses are correct, g has its mean along the direction of the right action and
    # scatters around it because wrong responses are different actions.
    along = form.variance + (policy * (1 - policy) * form.slope) ** 2
    others = (policy @ policy - policy**2) / (1 - policy) ** 2  # sum of squared probabilities
    scatter = form.wrong_squares * (1 - others)
    square = SHARES @ (along * (directions**2).sum(axis=1) / (1 - policy) ** 2 + scatter)
    return float(mean @ mean / (square - mean @ mean))


_SHARE = Method("share of prompts", BASE)
# The baseline estimates the same objective as RSPO, so it has the same optima.
_OPTIMA = [*formula_lines("policy_gradient", [1]), *formula_lines("rspo_pass_at_k", KS[1:])]
_OBJECTIVES = [*_OPTIMA, *formula_lines("hitchhiking", KS[1:])]


def table() -> "pd.DataFrame":
    """One row for each point."""
    import pandas as pd

    rows: list[tuple[str, str, int | None, int, float]] = []
    for method, k in zip(_OPTIMA, KS, strict=True):
        policy = optimum(k)
        rows += [("policy", method.label, k, i + 1, q) for i, q in enumerate(policy)]
        rows += [
            ("pass_at_k", method.label, k, evaluated, 100 * pass_at_k(policy, evaluated))
            for evaluated in EVALUATED
        ]
    rows += [("policy", _SHARE.label, None, i + 1, share) for i, share in enumerate(SHARES)]
    uniform = np.full(len(SHARES), 1 / len(SHARES))
    for method in _OBJECTIVES:
        k = method.k or 1
        for n in (n for n in NS if n >= k):
            ratio = signal_to_noise(method.objective, k, n, uniform)
            rows.append(("signal_to_noise", method.label, k, n, ratio))
            rows.append(("per_response", method.label, k, n, ratio / n))
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype({"k": "Int64"})


def draw(table: "pd.DataFrame") -> "Picture":
    picture = style.new_picture(style.TEXT_WIDTH, 4.6)
    (policy, metric), (by_prompt, by_response) = picture.subplots(2, 2)
    panels = {
        "policy": (policy, [*_OPTIMA, _SHARE], "optimum of each objective"),
        "pass_at_k": (metric, _OPTIMA, "Pass@k of these optima"),
        "signal_to_noise": (by_prompt, _OBJECTIVES, "gradient of one prompt, uniform policy"),
        "per_response": (by_response, _OBJECTIVES, "the same divided by $n$"),
    }
    for panel, (axes, methods, title) in panels.items():
        rows = table[table["panel"] == panel]
        style.draw_lines(axes, rows, methods, "x", "y", by="line", clip_on=False)
        axes.set_title(title)
        if methods is _OBJECTIVES:
            style.make_log2(axes, NS)
            style.make_log10(axes, rows["y"])
            axes.set(xlabel="$n$, responses per prompt", ylabel="signal / noise")
    policy.set(xlabel="action (7 and 8 are never right)", ylabel="probability")
    policy.set_xticks(range(1, len(SHARES) + 1))
    style.make_log2(metric, EVALUATED)
    metric.set(xlabel="k of Pass@k", ylabel="Pass@k (%)")
    style.legend(picture, [*_OBJECTIVES, _SHARE])
    style.note(
        picture,
        "exact; actions 1 to 6 are right for these shares of prompts: "
        + " ".join(f"{share:g}" for share in RULE_FRACTIONS),
        "RSPO and the baseline have the same optima",
    )
    return picture


FIGURE = Figure("fig_bandit", CAPTION, COLUMNS, table, draw)
