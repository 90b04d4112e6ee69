"""The objectives of other papers as they define them, by enumeration of subsets where they do.

Weights include the factor 1/n, and are fractions. Those without square roots and exponentials are
exact, the others have `DIGITS` digits.
"""

import math
import operator
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from itertools import combinations

from tests.support.exact import Rewards, Weights, binomial, marginal_contributions

DIGITS = 60  # of roots and exponentials
CONTEXT = Context(prec=DIGITS)
EPSILON = Fraction(1, 10**6)  # added to a standard deviation

Statistic = Callable[[Sequence[Fraction]], Fraction]  # of k rewards


def mean(values: Iterable[Fraction]) -> Fraction:
    values = list(values)
    return sum(values, start=Fraction(0)) / len(values)


def of_subsets(rewards: Sequence[Fraction], k: int, statistic: Statistic = max) -> Fraction:
    """The mean of a statistic over the k-subsets."""
    return mean(statistic(subset) for subset in combinations(rewards, k))


def others(rewards: Rewards, i: int) -> list[Fraction]:
    return [*rewards[:i], *rewards[i + 1 :]]


def with_each(rewards: Rewards, k: int, statistic: Statistic = max) -> list[Fraction]:
    """q_i: the mean of a statistic over the k-subsets that contain response i."""
    return [
        mean(statistic((reward, *rest)) for rest in combinations(others(rewards, i), k - 1))
        for i, reward in enumerate(rewards)
    ]


# --- PKPO, MaxPO and OrderGrad ---------------------------------------------------------------


def pkpo_s(rewards: Rewards, k: int) -> Weights:
    return [Fraction(k, len(rewards)) * q for q in with_each(rewards, k)]


def pkpo_s_loo(rewards: Rewards, k: int) -> Weights:
    """s_i less the mean of the s_j that the other n-1 responses have among themselves."""
    baselines = [mean(pkpo_s(others(rewards, i), k)) for i in range(len(rewards))]
    return [s - b for s, b in zip(pkpo_s(rewards, k), baselines, strict=True)]


def centred(statistic: Statistic) -> Callable[[Rewards, int], Weights]:
    """(k/n) (the statistic's mean over the subsets with i - over those without i)."""

    def weights(rewards: Rewards, k: int) -> Weights:
        n = len(rewards)
        return [
            Fraction(k, n) * (q - of_subsets(others(rewards, i), k, statistic))
            for i, q in enumerate(with_each(rewards, k, statistic))
        ]

    return weights


def top_half(rewards: Sequence[Fraction]) -> Fraction:
    return mean(sorted(rewards)[len(rewards) // 2 :])


def bottom_half(rewards: Sequence[Fraction]) -> Fraction:
    return mean(sorted(rewards)[: -(-len(rewards) // 2)])


# --- TailRL and MaxRL ------------------------------------------------------------------------


def tailrl(rewards: Rewards, k: int) -> Weights:
    """sum_{j <= n} (marginal contribution to Max@j) / j."""
    n = len(rewards)
    of_each_j = [
        [weight / j for weight in marginal_contributions(rewards, j)] for j in range(1, n + 1)
    ]
    return [sum(weights, start=Fraction(0)) for weights in zip(*of_each_j, strict=True)]


def tailrl_centred(rewards: Rewards, k: int) -> Weights:
    weights = tailrl(rewards, k)
    return [weight - mean(weights) for weight in weights]


def maxrl_uncentred(rewards: Rewards, k: int) -> Weights:
    correct = sum(rewards)
    return [reward / correct if correct else Fraction(0) for reward in rewards]


def maxrl(rewards: Rewards, k: int) -> Weights:
    average = mean(rewards)
    if not average:
        return [Fraction(0)] * len(rewards)
    return [(reward - average) / average / len(rewards) for reward in rewards]


# --- Advantages and utilities ----------------------------------------------------------------


def root(value: Fraction) -> Fraction:
    """The square root: exact if it is rational, otherwise to `DIGITS` decimal places."""
    denominator = value.denominator
    product = value.numerator * denominator
    if math.isqrt(product) ** 2 == product:
        return Fraction(math.isqrt(product), denominator)
    unit = 10**DIGITS
    return Fraction(math.isqrt(product * unit**2), denominator * unit)


def power_of_e(exponent: Fraction) -> Fraction:
    """exp(exponent) to `DIGITS` digits."""
    return Fraction(decimal(exponent).exp(CONTEXT))


def decimal(value: Fraction) -> Decimal:
    """A fraction to `DIGITS` digits."""
    return CONTEXT.divide(Decimal(value.numerator), Decimal(value.denominator))


def deviation(rewards: Rewards) -> Fraction:
    """The standard deviation of a sample, with n-1."""
    average = mean(rewards)
    squares = [(reward - average) ** 2 for reward in rewards]
    return root(sum(squares, start=Fraction(0)) / (len(rewards) - 1))


def grpo(rewards: Rewards, k: int) -> Weights:
    scale = (deviation(rewards) + EPSILON) * len(rewards)
    return [(reward - mean(rewards)) / scale for reward in rewards]


def grpo_passk(rewards: Rewards, k: int) -> Weights:
    *_, second, best = sorted(rewards)
    scale = (deviation(rewards) + EPSILON) * len(rewards)
    return [(best - second) / scale * (reward == best) for reward in rewards]


def passk_training(rewards: Rewards, k: int) -> Weights:
    n, correct = len(rewards), int(sum(rewards))
    rho = 1 - Fraction(binomial(n - correct, k), math.comb(n, k))
    if rho in (0, 1):
        return [Fraction(0)] * n
    sigma = root(rho * (1 - rho))
    wrong = 1 - rho - Fraction(binomial(n - correct - 1, k - 1), math.comb(n - 1, k - 1))
    return [(1 - rho if reward else wrong) / sigma / n for reward in rewards]


def rs_grpo(rewards: Rewards, k: int) -> Weights:
    powers = [power_of_e(2 * reward) for reward in rewards]
    return [(power / mean(powers) - 1) / 2 / len(rewards) for power in powers]


def w_reinforce(rewards: Rewards, k: int) -> Weights:
    return [(Fraction(1, 10) if reward else Fraction(-1)) / len(rewards) for reward in rewards]


def ttt_entropic(rewards: Rewards, k: int) -> Weights:
    """The limit of the weights as b grows, where no b reaches ln 2."""
    n = len(rewards)
    best = max(rewards)
    if 2 * sum(reward == best for reward in rewards) < n:
        b = Fraction(_solved(rewards))
        powers = [power_of_e(b * (reward - best)) for reward in rewards]
    else:
        powers = [Fraction(reward == best) for reward in rewards]
    total = sum(powers, start=Fraction(0))
    return [(power / ((total - power) / (n - 1)) - 1) / n for power in powers]


def _solved(rewards: Rewards) -> Decimal:
    """The b with KL(softmax(b R) || uniform) = ln 2, by bisection and then by Newton's method."""
    with localcontext(CONTEXT):
        target = Decimal(2).ln()
        low = Decimal(0)
        high = Decimal(1)
        while _kl_and_slope(rewards, high)[0] < target:
            high *= 2
        for _ in range(16):
            middle = (low + high) / 2
            if _kl_and_slope(rewards, middle)[0] < target:
                low = middle
            else:
                high = middle
        for _ in range(6):  # each step doubles the number of right digits
            kl, slope = _kl_and_slope(rewards, high)
            high -= (kl - target) / slope
        return high


def _kl_and_slope(rewards: Rewards, b: Decimal) -> tuple[Decimal, Decimal]:
    """KL = log n + sum_i q_i log q_i, q the softmax, and its derivative b Var_q(R)."""
    below_best = [decimal(reward - max(rewards)) for reward in rewards]
    powers = [(b * value).exp() for value in below_best]
    total = sum(powers, start=Decimal(0))
    average = sum(map(operator.mul, powers, below_best), start=Decimal(0)) / total
    squares = [p * (v - average) ** 2 for p, v in zip(powers, below_best, strict=True)]
    kl = b * average + (len(rewards) / total).ln()
    return kl, b * sum(squares, start=Decimal(0)) / total


EXACT: dict[str, Callable[[Rewards, int], Weights]] = {
    "pkpo_s": pkpo_s,
    "pkpo_s_loo": pkpo_s_loo,
    "maxpo": centred(max),
    "ordergrad_top_half": centred(top_half),
    "ordergrad_median": centred(statistics.median),
    "ordergrad_bottom_half": centred(bottom_half),
    "tailrl": tailrl,
    "tailrl_centred": tailrl_centred,
    "maxrl": maxrl,
    "maxrl_uncentred": maxrl_uncentred,
    "w_reinforce": w_reinforce,
}
PEERS: Mapping[str, Callable[[Rewards, int], Weights]] = {
    **EXACT,
    "passk_training": passk_training,
    "grpo_passk": grpo_passk,
    "rs_grpo": rs_grpo,
    "ttt_entropic": ttt_entropic,
}
