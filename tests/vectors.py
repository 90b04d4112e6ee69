"""Write docs/vectors.json: `python -m tests.vectors`.

The file has the weights of every objective, and the estimates of Pass@k, pass^k and Max@k with
their variances, for groups of up to 8 rewards and every k. All numbers come from the definitions in
tests/support by rational arithmetic over all subsets; nothing here imports `rspo`. docs/vectors.md
says how to read the file.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from decimal import Context, Decimal
from fractions import Fraction
from itertools import combinations
from pathlib import Path
from typing import Any

from tests.support import exact, peers
from tests.support.exact import Rewards, Weights

FILE = Path(__file__).parents[1] / "docs" / "vectors.json"
LARGEST = 8  # responses of a group
PRINTED = Context(prec=30)  # digits of numbers that are not rational
# Fractions with a larger denominator are approximations of roots and exponentials.
LARGEST_DENOMINATOR = 10**20

# Rewards of 8 responses; a group of n has the first n. All are exact in every floating-point type.
PATTERNS = {
    "both signs": "3/2 -1 1/4 2 -1/2 3 0 -2",
    "ties": "1/2 -1 1/2 2 2 -1 0 2",
    "negative, with ties": "-1/4 -3 -1/4 -2 -2 -5 -1/4 -3",
    "one best, ties below": "0 0 7/4 0 0 -1 0 0",
    "equal and negative": "-3/2 -3/2 -3/2 -3/2 -3/2 -3/2 -3/2 -3/2",
}
PLACES = (2, 5, 0, 7, 3, 6, 1, 4)  # in this order, responses of 0/1 groups become correct

Definition = Callable[[Rewards, int], Weights]
Text = dict[str, Any]  # what the file has as text

# The definitions of the objectives by the k that they accept.
WITHOUT_K: Mapping[str, Definition] = {
    "policy_gradient": exact.policy_gradient,
    "tailrl": peers.tailrl,
    "tailrl_centred": peers.tailrl_centred,
    "rs_grpo": peers.rs_grpo,
}
OF_TWO_OR_MORE: Mapping[str, Definition] = {"grpo": peers.grpo, "grpo_passk": peers.grpo_passk}
OF_THREE_OR_MORE: Mapping[str, Definition] = {"ttt_entropic": peers.ttt_entropic}
ANY_K: Mapping[str, Definition] = {
    "rspo_max_at_k": exact.marginal_contributions,
    "rspo_max_at_k_ranked": exact.marginal_contributions,
    "rspo_max_at_k_plug_in": exact.max_at_k_plug_in,
    "pkpo_s": peers.pkpo_s,
}
K_DIVIDES_N: Mapping[str, Definition] = {"hitchhiking": exact.hitchhiking}
K_BELOW_N: Mapping[str, Definition] = {
    "pkpo_s_loo": peers.pkpo_s_loo,
    "maxpo": peers.EXACT["maxpo"],
    "ordergrad_top_half": peers.EXACT["ordergrad_top_half"],
    "ordergrad_median": peers.EXACT["ordergrad_median"],
    "ordergrad_bottom_half": peers.EXACT["ordergrad_bottom_half"],
}
# Those that only take rewards of 0 and 1.
BINARY_WITHOUT_K: Mapping[str, Definition] = {
    "maxrl": peers.maxrl,
    "maxrl_uncentred": peers.maxrl_uncentred,
    "w_reinforce": peers.w_reinforce,
}
BINARY_ANY_K: Mapping[str, Definition] = {
    "rspo_pass_at_k": exact.marginal_contributions,
    "rspo_pass_at_k_plug_in": exact.pass_at_k_plug_in,
}
BINARY_K_BELOW_N: Mapping[str, Definition] = {"passk_training": peers.passk_training}


ABOUT = (
    "Weights of objectives and estimates of Pass@k, pass^k and Max@k, from the definitions by "
    "enumeration of subsets. Rational numbers are exact, such as -3/4; the others have 30 digits. "
    "docs/vectors.md describes the keys."
)


def groups() -> Iterator[list[Fraction]]:
    """Groups of 1 to 8 rewards: 0/1 rewards with every number of correct ones, then `PATTERNS`."""
    for n in range(1, LARGEST + 1):
        places = [place for place in PLACES if place < n]
        for correct in range(n + 1):
            yield [Fraction(i in places[:correct]) for i in range(n)]
        for pattern in PATTERNS.values():
            yield [Fraction(reward) for reward in pattern.split()[:n]]


def entry(rewards: list[Fraction]) -> Text:
    """The numbers of one group, as text."""
    n = len(rewards)
    binary = set(rewards) <= {0, 1}
    all_ks = range(1, n + 1)
    without_k = dict(WITHOUT_K)
    with_k = [(ANY_K, all_ks), (K_BELOW_N, range(1, n))]
    with_k.append((K_DIVIDES_N, [k for k in all_ks if n % k == 0]))
    if n >= 2:
        without_k |= OF_TWO_OR_MORE
    if n >= 3:
        without_k |= OF_THREE_OR_MORE
    if binary:
        without_k |= BINARY_WITHOUT_K
        with_k += [(BINARY_ANY_K, all_ks), (BINARY_K_BELOW_N, range(1, n))]
    weights: Text = {}
    for name, definition in without_k.items():
        weights[name] = texts(definition(rewards, 1))
    for definitions, ks in with_k:
        for name, definition in definitions.items():
            weights[name] = {str(k): texts(definition(rewards, k)) for k in ks}
    return {
        "rewards": texts(rewards),
        "weights": dict(sorted(weights.items())),
        "estimates": estimates(rewards, binary),
    }


def estimates(rewards: list[Fraction], binary: bool) -> Text:
    """The estimates at each k, as text; their variances only where 2k <= n."""
    found: Text = {}

    def add(name: str, k: int, value: Fraction) -> None:
        found.setdefault(name, {})[str(k)] = text(value)

    n = len(rewards)
    for k in range(1, n + 1):
        add("max_at_k", k, peers.of_subsets(rewards, k, max))
        if binary:
            add("pass_at_k", k, peers.of_subsets(rewards, k, max))
            add("pass_hat_k", k, peers.of_subsets(rewards, k, min))
        if 2 * k <= n:
            add("max_at_k_variance", k, variance(rewards, k, max))
            if binary:
                add("pass_at_k_variance", k, variance(rewards, k, max))
                add("pass_hat_k_variance", k, variance(rewards, k, min))
    return dict(sorted(found.items()))


def variance(rewards: list[Fraction], k: int, statistic: peers.Statistic) -> Fraction:
    """The unbiased estimate of the variance of the mean of a statistic over the k-subsets.

    It is the squared mean less the mean of statistic(S) statistic(T) over pairs of disjoint
    k-subsets S and T, which estimates the squared expectation.
    """
    n = len(rewards)
    products = []
    for first in combinations(range(n), k):
        rest = [i for i in range(n) if i not in first]
        for second in combinations(rest, k):
            one = statistic([rewards[i] for i in first])
            other = statistic([rewards[i] for i in second])
            products.append(one * other)
    return peers.of_subsets(rewards, k, statistic) ** 2 - peers.mean(products)


def texts(values: list[Fraction]) -> list[str]:
    return [text(value) for value in values]


def text(value: Fraction) -> str:
    """A number as the file has it: exact, such as `-3/4`, or with 30 digits."""
    if value.denominator < LARGEST_DENOMINATOR:
        return str(value)
    return str(PRINTED.divide(Decimal(value.numerator), Decimal(value.denominator)))


def as_text(entries: list[Text]) -> str:
    """The text of the file with these entries, a line for each."""
    lines = [json.dumps(entry, separators=(",", ":")) for entry in entries]
    return f'{{"about": {json.dumps(ABOUT)},\n"groups": [\n' + ",\n".join(lines) + "\n]}\n"


if __name__ == "__main__":
    FILE.write_text(as_text([entry(rewards) for rewards in groups()]), encoding="utf-8")
