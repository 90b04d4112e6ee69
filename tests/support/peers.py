"""The objectives of other papers as they define them, by enumeration of subsets where they do.

Weights include the factor 1/n. Those without square roots and exponentials are exact fractions.
"""

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import combinations

from tests.support.exact import Rewards, Weights, binomial, marginal_contributions

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


def passk_training(rewards: Rewards, k: int) -> list[float]:
    n, correct = len(rewards), int(sum(rewards))
    rho = 1 - Fraction(binomial(n - correct, k), math.comb(n, k))
    if rho in (0, 1):
        return [0.0] * n
    sigma = math.sqrt(rho * (1 - rho))
    wrong = 1 - rho - Fraction(binomial(n - correct - 1, k - 1), math.comb(n - 1, k - 1))
    return [float(1 - rho if reward else wrong) / sigma / n for reward in rewards]


def grpo_passk(rewards: Rewards, k: int) -> list[float]:
    *_, second, best = sorted(rewards)
    deviation = statistics.stdev(map(float, rewards))
    return [
        float(best - second) / (deviation + 1e-6) / len(rewards) * (reward == best)
        for reward in rewards
    ]


def rs_grpo(rewards: Rewards, k: int) -> list[float]:
    powers = [math.exp(2 * reward) for reward in rewards]
    average = statistics.fmean(powers)
    return [(power / average - 1) / 2 / len(rewards) for power in powers]


def w_reinforce(rewards: Rewards, k: int) -> Weights:
    return [(Fraction(1, 10) if reward else Fraction(-1)) / len(rewards) for reward in rewards]


def ttt_entropic(rewards: Rewards, k: int) -> list[float]:
    """b by bisection; 2^20 where none reaches ln 2, as in the authors' code."""
    n, best = len(rewards), max(rewards)

    def kl(b: float) -> float:
        powers = [math.exp(b * float(reward - best)) for reward in rewards]
        chances = [power / math.fsum(powers) for power in powers]
        return math.fsum(q * math.log(q * n) for q in chances if q > 0)

    low, high = 0.0, 2.0**20
    for _ in range(200 if 2 * sum(reward == best for reward in rewards) < n else 0):
        middle = (low + high) / 2
        low, high = (middle, high) if kl(middle) < math.log(2) else (low, middle)
    powers = [math.exp(high * float(reward - best)) for reward in rewards]
    total = math.fsum(powers)
    return [(power / ((total - power) / (n - 1)) - 1) / n for power in powers]


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
PEERS: Mapping[str, Callable[[Rewards, int], Sequence[Fraction | float]]] = {
    **EXACT,
    "passk_training": passk_training,
    "grpo_passk": grpo_passk,
    "rs_grpo": rs_grpo,
    "ttt_entropic": ttt_entropic,
}
