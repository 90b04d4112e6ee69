"""Computes exactly what a weight function maximizes, how noisy it is, and what centring changes.

`rspo diagnose` prints the result. For 0/1 rewards, let w+(c) and w-(c) be the weights of a correct
and of a wrong response if c of n responses are correct. If each response is correct with
probability p, the expected update follows the gradient of F(p), with F(0) = 0 and

    F'(p) = n sum_m Bin(m; n-1, p) [w+(m+1) - w-(m)]                   (RL2ML, arXiv 2605.30154)
    F(p)  =   sum_m P(Bin(n, p) > m) [w+(m+1) - w-(m)]

so F is what a weight function maximizes on one prompt, whatever it was derived from. Bin(m; n, p)
is the probability of m successes in n trials, and P(Bin(n, p) > m) that of more than m.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from rspo.objectives.contract import check_weights
from rspo.objectives.mixture import mixture_of, rounding_of, target_of
from rspo.objectives.registry import OBJECTIVES, response_weights
from rspo.objectives.risk_neutral import grpo
from rspo.passk import (
    Floats,
    Slope,
    WeightFunction,
    Weights,
    binary_groups,
    require_integers,
    weights_of,
)

MOST = 1024  # largest n; the weights of n + 1 groups are computed
MOST_ORDERED = 16  # largest n for weights that depend on the order: 2^n groups
P = np.linspace(0.0, 1.0, 101)  # default probabilities of a correct response
SHOWN = (1, 5, 10, 25, 50, 75, 90)  # indices of P in the table
SLOPE = "F'"
LEGEND = (
    "p: chance that a response is correct; F: what the expected update maximizes, F' its slope",
    "S/N: squared mean over variance, of the gradient of the logit of p; zeros: weights that are 0",
    "centred: less the group's mean; standardized: also over its standard deviation",
)


@dataclass(frozen=True)
class Form:
    """The numbers of one form of the weights: as they are, centred or standardized.

    Arrays have one number for each p of the `Diagnosis`.

    slope, value: F'(p) and F(p).
    variance: the variance of g = sum_i w_i (R_i - p), which is the gradient of a policy whose only
        parameter is the logit of p.
    signal_to_noise: E[g]^2 / Var[g], NaN where g does not vary. A constant factor of the weights
        does not change it. For the mean of g over several equal prompts, multiply it by their
        number.
    zeros: expected fraction of weights that are 0.
    correct, wrong: expected total weight of the correct and of the wrong responses.
    exact_slope: the coefficients of the polynomial F', and the precision of the weights, see
        `Slope`.
    """

    slope: Floats
    value: Floats
    variance: Floats
    signal_to_noise: Floats
    zeros: Floats
    correct: Floats
    wrong: Floats
    exact_slope: Slope

    @property
    def unbiased_for(self) -> int | None:
        """The j for which F is `factor` > 0 times Pass@j; None if there is none, or several fit."""
        return self.exact_slope.unbiased_for

    @property
    def factor(self) -> float:
        """F divided by Pass@j with j = `unbiased_for`; NaN if that is None."""
        return self.exact_slope.factor

    @property
    def mixture(self) -> dict[int, float] | None:
        """The coefficients of F = sum_j b_j Pass@j by their j, without those that are 0.

        None if n > 20, if rounding errors are too large, or if F has more than two terms of which
        one is below 0.
        """
        return mixture_of(self.exact_slope)

    @property
    def target(self) -> str:
        """What the weights maximize, in words: a multiple of one Pass@j, or else the `mixture`."""
        return target_of(self.exact_slope)


@dataclass(frozen=True)
class Diagnosis:
    """The exact properties of a weight function for groups of n responses.

    k: the k of the objective; 1 for an objective without k.
    p: probabilities of a correct response.
    weights: the properties of the weights as they are.
    centred: those of the weights minus their mean over the group, as some trainers compute them.
    standardized: those of the centred weights, divided by their standard deviation plus 1e-6 and by
        n. This is `grpo` with n times the weights as rewards.
    """

    name: str
    k: int
    n: int
    p: Floats
    weights: Form
    centred: Form
    standardized: Form

    def __str__(self) -> str:
        """The table of the command `rspo diagnose`."""
        return "\n".join(lines(self))


def diagnose(
    objective: str | WeightFunction, k: int | None = None, n: int = 16, p: ArrayLike | None = None
) -> Diagnosis:
    """Compute the exact properties of an objective, by its name, or of a function of your own.

    Args:
        objective: a name in `OBJECTIVES`, or a function of float64 rewards [..., n] and k that
            returns weights [..., n]; it only gets rewards of 0 and 1.
        k: the k of the objective; may be omitted if the objective has no k.
        n: number of responses of a group, at most 1024.
        p: probabilities of a correct response, of shape [points]; default: 0, 0.01, ..., 1.

    Raises: ValueError for a name or k that `response_weights` does not accept, for n or p outside
        its range, and for a function that fails `check_weights`. Weights may depend on the order of
        the responses if the objective is `ordered`, as hitchhiking is, and n <= 16.
    """
    points = P if p is None else np.asarray(p, dtype=np.float64)
    if points.ndim != 1 or not ((points >= 0) & (points <= 1)).all():
        raise ValueError("p must be a list of probabilities between 0 and 1")
    require_integers(n=n)
    if n > MOST:
        raise ValueError(f"n must be an integer from 1 to {MOST}, got {n!r}")
    if not callable(objective) and not isinstance(objective, str):
        raise ValueError(f"objective must be a name or a function, got {objective!r}")
    if isinstance(objective, str):
        name = objective
        function = _by_name(objective, k)
        function(np.zeros(n), 1)  # raises ValueError for an unknown name or a k that does not fit n
        ordered = OBJECTIVES[name].ordered
    else:
        name = getattr(objective, "__name__", "weights")
        function = objective
        ordered = False
    if ordered and n > MOST_ORDERED:
        raise ValueError(f"{name} depends on the order of the responses; allowed: n <= 16, got {n}")
    if k is None:
        k = 1
    if ordered:
        rewards = _all_groups(n)
    else:
        check_weights(function, k, n)
        rewards = binary_groups(n)
    weights = weights_of(function, rewards, k)
    centred, standardized = _centred_and_standardized(weights)
    return Diagnosis(
        name,
        k,
        n,
        points,
        weights=_form(rewards, weights, points),
        centred=_form(rewards, centred, points),
        standardized=_form(rewards, standardized, points),
    )


def lines(diagnosis: Diagnosis) -> Iterator[str]:
    """The lines of a table for a terminal.

    It has a row for every p that the user gave, or for some of the default p.
    """
    forms = {
        "weights": diagnosis.weights,
        "centred": diagnosis.centred,
        "standardized": diagnosis.standardized,
    }
    for name, form in forms.items():
        yield f"{name + ':':14}{form.target}"
    yield ""
    yield f"{'':6}{'weights':^36}{'centred':^28}{'standardized':^28}".rstrip()
    columns = f"{'F':>9}{SLOPE:>10}{'S/N':>9}"
    yield f"{'p':>6}{columns}{'zeros':>8}{columns}{columns}"
    points = diagnosis.p
    shown = SHOWN if np.array_equal(points, P) else range(len(points))
    for i in shown:
        row = f"{points[i]:6.2f}"
        for name, form in forms.items():
            row += f"{form.value[i]:9.4f}{form.slope[i]:10.4f}{form.signal_to_noise[i]:9.3g}"
            if name == "weights":
                row += f"{form.zeros[i]:8.0%}"
        yield row
    yield from LEGEND


def _by_name(objective: str, k: int | None) -> WeightFunction:
    """The weight function of a registered objective, with this k and the name of the objective.

    Like every weight function, it takes a k, but ignores it.
    """

    def function(rewards: Floats, _: int) -> Floats:
        return response_weights(rewards, objective, k)

    function.__name__ = objective
    return function


def _all_groups(n: int) -> Floats:
    """All groups of n rewards of 0 and 1, (2^n, n): the binary digits of 0 to 2^n - 1."""
    return (np.arange(2**n)[:, None] >> np.arange(n) & 1).astype(np.float64)


def _centred_and_standardized(weights: Weights) -> tuple[Weights, Weights]:
    """Two forms of the weights, `centred` and `standardized` of `Diagnosis`.

    If the weights of a group are equal up to rounding, both forms are 0, because division by their
    deviation would enlarge the rounding errors.
    """
    values = weights.values
    n = values.shape[-1]
    centred = values - values.mean(axis=-1, keepdims=True)
    centred[np.ptp(values, axis=-1) <= rounding_of(weights)] = 0.0
    standardized = grpo(n * centred, 1) if n > 1 else centred
    return weights._replace(values=centred), weights._replace(values=standardized)


def _form(rewards: Floats, computed: Weights, p: Floats) -> Form:
    """The numbers of one form of the weights, exactly, from all groups of 0/1 rewards.

    Groups with the same number of correct responses are equally likely.

    Args:
        rewards: (groups, n).
        computed: their weights, (groups, n).
        p: probabilities of a correct response, (points,).
    """
    weights = computed.values
    n = rewards.shape[-1]
    correct = rewards.sum(axis=-1).astype(np.int64)
    groups_with = np.bincount(correct, minlength=n + 1)  # number of groups with c correct, (n+1,)

    def mean_by_correct(values: Floats) -> Floats:
        """The mean of a value of each group over the groups with c correct responses, (n+1,)."""
        return np.bincount(correct, values, minlength=n + 1) / groups_with

    total = weights.sum(axis=-1)
    total_correct = (weights * rewards).sum(axis=-1)
    mean_correct = mean_by_correct(total_correct)
    mean_wrong = mean_by_correct(total - total_correct)
    # F' and F of the formulas at the top. The mean weight of one correct response is the mean total
    # divided by their number, and the same for wrong responses.
    m = np.arange(n)
    steps = mean_correct[1:] / (m + 1) - mean_wrong[:-1] / (n - m)  # w+(m+1) - w-(m)
    slope = n * _binomial(n - 1, p) @ steps
    chances = _binomial(n, p)
    # P(at least m of n are correct), (points, n+1).
    at_least = np.cumsum(chances[:, ::-1], axis=-1)[:, ::-1]
    # E[g] and Var[g] of g = sum_i w_i (R_i - p), which is total_correct - p * total for a group.
    # `chance` is the probability of each group, (points, groups).
    mean = p * (1 - p) * slope
    chance = (chances / groups_with)[:, correct]
    deviations = total_correct - p[:, None] * total - mean[:, None]
    variance = (chance * deviations**2).sum(axis=-1)
    rounding = rounding_of(computed)
    varies = variance > rounding**2
    zero = (abs(weights) <= rounding).mean(axis=-1)
    return Form(
        slope=slope,
        value=at_least[:, 1:] @ steps,
        variance=variance,
        signal_to_noise=np.where(varies, mean**2 / np.where(varies, variance, 1.0), np.nan),
        zeros=chances @ mean_by_correct(zero),
        correct=chances @ mean_correct,
        wrong=chances @ mean_wrong,
        exact_slope=Slope(n * steps, n * float(abs(weights).max()), computed.precision),
    )


def _binomial(n: int, p: Floats) -> Floats:
    """Probabilities of c = 0 .. n correct responses of n, (points, n+1).

    Computed with logarithms, because binomials overflow for large n. p = 0 and p = 1, whose
    logarithms are infinite, are set at the end.
    """
    c = np.arange(n + 1)
    log_factorial = np.array([math.lgamma(i + 1) for i in c])
    log_count = log_factorial[n] - log_factorial - log_factorial[::-1]
    inner = np.where((p > 0) & (p < 1), p, 0.5)[:, None]
    chances = np.exp(log_count + c * np.log(inner) + (n - c) * np.log1p(-inner))
    chances[p == 0] = c == 0
    chances[p == 1] = c == n
    return chances
