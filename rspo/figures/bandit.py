"""A policy that must bet: six strategies of which one is right, and two actions that never are.

A prompt's strategy j is drawn with the shares s_j of `rspo.datasets.generated` (the hidden rules of
divide and sequence) and cannot be told from the prompt, so a policy is one distribution q over the
eight actions, and

    Pass@k(q) = sum_j s_j (1 - (1 - q_j)^k).

It is concave in q; at its maximum k s_j (1 - q_j)^(k-1) has one value for all actions that are
played at all, so q_j = max(0, 1 - (v / (k s_j))^(1/(k-1))) with v such that they sum to 1, found by
bisection. For k = 1 all goes to the commonest strategy.

The gradient's signal-to-noise ratio is |E[g]|^2 / tr Cov[g] over prompts and responses, for g =
sum_i w_i grad log q with respect to the eight logits of the uniform policy: exact sums over the
numbers of correct responses, and the multinomial distribution of the wrong ones.
"""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Picture

from rspo.config.experiment import BASE
from rspo.datasets.generated import RULE_FRACTIONS
from rspo.figures import style
from rspo.figures.binary_groups import Floats, binomial, blocks_of
from rspo.figures.drawing import Row
from rspo.figures.methods import Method, label_of

COLUMNS = {
    "panel": "policy, pass_at_k: top; signal_to_noise, per_response: bottom",
    "line": "as the legend names it, with the k that it is best for or trained with",
    "k": "that the policy is the optimum for, or the objective's",
    "x": "action 1 .. 8 (7 and 8 are never right); k of Pass@k; n",
    "y": "probability; Pass@k in %; |E[g]|^2 / tr Cov[g] of a prompt, or that by response",
}

SHARES = np.array([*RULE_FRACTIONS, 0.0, 0.0])
KS = (1, 2, 4, 8)
EVALUATED = (1, 2, 4, 8, 16)
NS = (4, 8, 16, 32, 64)


def optimum(k: int) -> Floats:
    """The distribution over actions with the largest Pass@k, to rounding."""
    if k == 1:
        return np.eye(len(SHARES))[int(SHARES.argmax())]
    low, high = 0.0, k * float(SHARES.max())  # of v: all actions played in full, none at all
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
    blocks = blocks_of(objective, k, n)
    mean, square = np.zeros(len(policy)), 0.0
    for action, share in enumerate(SHARES):
        if share == 0:
            continue
        others = policy * (np.arange(len(policy)) != action) / (1 - policy[action])
        of_block, square_of_block = np.zeros(len(policy)), 0.0
        for c, chance in enumerate(binomial(blocks.size, policy[action])):
            wrong = blocks.size - c
            total = blocks.total_correct[c] + blocks.total_wrong[c]
            given = blocks.total_wrong[c] * others - total * policy
            given[action] += blocks.total_correct[c]
            of_block += chance * given
            # The wrong responses fall on the other actions in multinomial numbers.
            scatter = blocks.wrong[c] ** 2 * wrong * (1 - others @ others)
            square_of_block += chance * (given @ given + scatter)
        m = blocks.copies
        mean += share * m * of_block
        square += share * (m * square_of_block + m * (m - 1) * of_block @ of_block)
    return float(mean @ mean / (square - mean @ mean))


def numbers() -> list[Row]:
    rows: list[Row] = []
    for method in _optima():
        k, policy = _k(method), optimum(_k(method))
        rows += [_row("policy", method.label, k, i + 1, q) for i, q in enumerate(policy)]
        rows += [
            _row("pass_at_k", method.label, k, evaluated, 100 * pass_at_k(policy, evaluated))
            for evaluated in EVALUATED
        ]
    rows += [_row("policy", _SHARE.label, "", i + 1, share) for i, share in enumerate(SHARES)]
    uniform = np.full(len(SHARES), 1 / len(SHARES))
    for method in _objectives():
        for n in (n for n in NS if n >= _k(method)):
            ratio = signal_to_noise(method.objective, _k(method), n, uniform)
            rows.append(_row("signal_to_noise", method.label, _k(method), n, ratio))
            rows.append(_row("per_response", method.label, _k(method), n, ratio / n))
    return rows


def _row(panel: str, line: str, k: int | str, x: int, y: float) -> Row:
    return {"panel": panel, "line": line, "k": k, "x": x, "y": float(y)}


_SHARE = Method("share of prompts", BASE, None, None, ())


def _k(method: Method) -> int:
    return 1 if method.k is None else method.k


def _objectives() -> list[Method]:
    """Policy gradient, then RSPO and the baseline at every larger k."""
    larger = [k for k in KS if k > 1]
    return [
        Method(label_of("policy_gradient"), "policy_gradient", None, None, ()),
        *(
            Method(label_of(objective, k), objective, k, None, (), place, len(larger))
            for objective in ("rspo_pass_at_k", "hitchhiking")
            for place, k in enumerate(larger)
        ),
    ]


def _optima() -> list[Method]:
    """One line for each k; the baseline, unbiased for the same objective, has RSPO's optimum."""
    return [method for method in _objectives() if method.objective != "hitchhiking"]


def picture(rows: Sequence[Row]) -> Picture:
    result = style.new_picture(style.TEXT_WIDTH, 4.6)
    (policy, metric), (by_prompt, by_response) = result.subplots(2, 2)
    _draw(policy, rows, "policy", [*_optima(), _SHARE])
    policy.set(xlabel="action (7 and 8 are never right)", ylabel="probability")
    policy.set_title("optimum of each objective", loc="left")
    policy.set_xticks(range(1, len(SHARES) + 1))
    _draw(metric, rows, "pass_at_k", _optima())
    metric.set(xlabel="k of Pass@k", ylabel="Pass@k (%)")
    metric.set_title("Pass@k of these optima", loc="left")
    style.log2_axis(metric, EVALUATED)
    for axes, panel in ((by_prompt, "signal_to_noise"), (by_response, "per_response")):
        _draw(axes, rows, panel, _objectives())
        axes.set(xlabel="$n$, responses per prompt", ylabel="signal / noise")
        style.log10_axis(axes, "y")
        style.log2_axis(axes, NS)
    by_prompt.set_title("gradient of one prompt, uniform policy", loc="left")
    by_response.set_title("the same divided by n", loc="left")
    style.legend(result, [*_objectives(), _SHARE])
    style.note(
        result,
        "exact; strategies 1 to 6 are right for these shares of prompts: "
        + " ".join(f"{share:g}" for share in RULE_FRACTIONS),
        "RSPO and the baseline have the same optima",
    )
    return result


def _draw(axes: Axes, rows: Sequence[Row], panel: str, methods: Sequence[Method]) -> None:
    for height, method in enumerate(methods, start=2):
        points = [row for row in rows if (row["panel"], row["line"]) == (panel, method.label)]
        axes.plot(
            [row["x"] for row in points],
            [row["y"] for row in points],
            **style.line(method),
            zorder=height,
            clip_on=False,
            gid=method.label,
        )
