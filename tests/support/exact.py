"""The estimators as the papers print them, in exact rational arithmetic.

Rewards are `Fraction`s. Responses to one prompt are numbered from 0 in the order of sampling.
Weights include the factor 1/n.
"""

import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, product
from math import comb, prod

Rewards = Sequence[Fraction]
Weights = list[Fraction]


def binomial(a: int, b: int) -> int:
    """C(a, b); 0 for b < 0, a < b or a < 0, as in the papers."""
    return comb(a, b) if 0 <= b <= a else 0


def fractions(values: Iterable[float | Fraction]) -> list[Fraction]:
    """The exact values of floats."""
    return [Fraction(value) for value in values]


# --- The reference: enumeration of subsets ---------------------------------------------------


def marginal_contributions(rewards: Rewards, k: int) -> Weights:
    """w_i = (k/n) * average over the (k-1)-subsets S of the others of max(S + i) - max(S).

    For k = 1 the only S is empty, and w_i = R_i / n.
    """
    n = len(rewards)
    weights = []
    for i, reward in enumerate(rewards):
        others = [*rewards[:i], *rewards[i + 1 :]]
        gains = [
            max(reward, *subset) - max(subset) if subset else reward
            for subset in combinations(others, k - 1)
        ]
        weights.append(Fraction(k, n) * sum(gains, Fraction(0)) / len(gains))
    return weights


def hitchhiking(rewards: Rewards, k: int) -> Weights:
    """w_i = (k/n) * best reward of i's block of k consecutive responses."""
    n = len(rewards)
    return [Fraction(k, n) * max(rewards[i // k * k : i // k * k + k]) for i in range(n)]


def policy_gradient(rewards: Rewards, k: int) -> Weights:
    """w_i = R_i / n."""
    return [reward / len(rewards) for reward in rewards]


# --- The paper's estimators ------------------------------------------------------------------


def pass_at_k_as_printed(rewards: Rewards, k: int) -> Weights:
    """Theorem 4.3: k C(n-c, k-1)/C(n-1, k-1) * R_i / n."""
    n = len(rewards)
    correct = sum(reward == 1 for reward in rewards)
    scale = Fraction(k * binomial(n - correct, k - 1), n * binomial(n - 1, k - 1))
    return [scale * reward for reward in rewards]


def pass_at_k_plug_in(rewards: Rewards, k: int) -> Weights:
    """Section 4.2: (k/n) R_i (1 - c/n)^(k-1)."""
    n = len(rewards)
    wrong = 1 - Fraction(sum(rewards)) / n
    return [Fraction(k, n) * reward * wrong ** (k - 1) for reward in rewards]


def max_at_k_appendix(rewards: Rewards, k: int) -> Weights:
    """Theorem C.4: positions up to c_< = the number of rewards strictly below R_i."""
    return _max_at_k(rewards, k, [sum(r < reward for r in rewards) for reward in rewards])


def max_at_k_main_text(rewards: Rewards, k: int) -> Weights:
    """Theorem 4.4: positions up to i-1 in sorted order, ties in the order of sampling."""
    return _max_at_k(rewards, k, _positions(rewards))


def _max_at_k(rewards: Rewards, k: int, below: Sequence[int]) -> Weights:
    """The two theorems share this formula, exactly as printed, and differ only in `below`:

    (k/n) [ R_i C(below, k-1)/C(n-1, k-1)
            - (k-1)/(n-1) sum_{j=1}^{below} R_(j) C(j-1, k-2)/C(n-2, k-2) ]
    """
    n = len(rewards)
    ascending = sorted(rewards)
    weights = []
    for reward, count in zip(rewards, below, strict=True):
        first = reward * Fraction(binomial(count, k - 1), binomial(n - 1, k - 1))
        second = Fraction(0)
        if k > 1:  # for k = 1 its factor k-1 is 0 and C(n-2, k-2) does not exist
            second = Fraction(k - 1, n - 1) * sum(
                ascending[j - 1] * Fraction(binomial(j - 1, k - 2), binomial(n - 2, k - 2))
                for j in range(1, count + 1)
            )
        weights.append(Fraction(k, n) * (first - second))
    return weights


def _positions(rewards: Rewards) -> list[int]:
    order = sorted(range(len(rewards)), key=lambda i: rewards[i])
    return [order.index(i) for i in range(len(rewards))]


def max_at_k_plug_in(rewards: Rewards, k: int) -> Weights:
    """Section 4.3: (k/n) [R_i F_i^(k-1) - (k-1)/n sum_j 1(R_j < R_i) R_j F_j^(k-2)]."""
    n = len(rewards)
    cdf = [Fraction(sum(other <= reward for other in rewards), n) for reward in rewards]
    return [
        Fraction(k, n)
        * (
            reward * cdf[i] ** (k - 1)
            - Fraction(k - 1, n)
            * sum(
                (rewards[j] * cdf[j] ** (k - 2) for j in range(n) if rewards[j] < reward),
                start=Fraction(0),
            )
        )
        for i, reward in enumerate(rewards)
    ]


def max_at_k_algorithm(
    rewards: Rewards, k: int, probabilities: Sequence[Fraction] | None = None
) -> Weights:
    """Algorithm 2, "An Unbiased Estimator for Max@k", line by line.

    probabilities: pi(y_j | x) of each sampled response, by which the algorithm as printed
        multiplies its second and third terms; None leaves the factor out.
    """
    n = len(rewards)
    weights = []
    for i, r in enumerate(rewards):
        others = [j for j in range(n) if j != i]
        below = sum(rewards[j] < r for j in others)
        equal = sum(rewards[j] == r for j in others)
        weight = Fraction(0)
        for t in range(1, k + 1):  # first term
            weight += r * _powers(below, equal, t - 1, k - t, n - 1)
        for j in others:  # second and third terms
            r_j = rewards[j]
            factor = Fraction(1) if probabilities is None else probabilities[j]
            rest = [m for m in others if m != j]
            below_j = sum(rewards[m] < r_j for m in rest)
            equal_j = sum(rewards[m] == r_j for m in rest)
            for t in range(1, k):
                estimate = _powers(below_j, equal_j, t - 1, k - t - 1, n - 2)
                if r_j == r:
                    weight -= r_j * factor * Fraction(t, n - 1) * estimate
                elif r_j < r:
                    weight -= r_j * factor * Fraction(k, n - 1) * estimate
        weights.append(weight / n)
    return weights


def _powers(below: int, equal: int, a: int, b: int, total: int) -> Fraction:
    """Unbiased estimate of P_<^a P_<=^b from `total` other responses (lemma of appendix C)."""
    return Fraction(
        binomial(below, a) * binomial(below + equal - a, b),
        binomial(total, a + b) * binomial(a + b, a),
    )


# --- The nearest published estimator ---------------------------------------------------------


def max_at_k_estimate(rewards: Rewards, k: int) -> Fraction:
    """sum_{i>=k} C(i-1, k-1) R_(i) / C(n, k): the average of max over the k-subsets."""
    total = sum(
        (binomial(i - 1, k - 1) * r for i, r in enumerate(sorted(rewards), start=1)),
        start=Fraction(0),
    )
    return total / binomial(len(rewards), k)


# --- Small policies, whose outcomes can be enumerated ---------------------------------------


@dataclass(frozen=True)
class Policy:
    """A softmax policy over a few responses: their rewards and their probabilities.

    Its parameters are the logits, so d log pi(y) / d theta_a = 1(y = a) - pi(a) is rational.
    """

    rewards: tuple[Fraction, ...]
    probabilities: tuple[Fraction, ...]

    def __post_init__(self) -> None:
        assert len(self.rewards) == len(self.probabilities)
        assert sum(self.probabilities) == 1

    def outcomes(self, n: int) -> Iterator[tuple[tuple[int, ...], Fraction]]:
        """All sequences of n draws, as indices of responses, with their probabilities."""
        for drawn in product(range(len(self.rewards)), repeat=n):
            yield drawn, prod((self.probabilities[y] for y in drawn), start=Fraction(1))

    def rewards_of(self, drawn: Sequence[int]) -> list[Fraction]:
        return [self.rewards[y] for y in drawn]

    def max_at_k(self, k: int) -> Fraction:
        """E max of k draws, by enumeration."""
        terms = (p * max(self.rewards_of(drawn)) for drawn, p in self.outcomes(k))
        return sum(terms, start=Fraction(0))

    def gradient_of_max_at_k(self, k: int) -> list[Fraction]:
        """d Max@k / d logits, from the distribution function.

        Max@k = sum_v v [P(R <= v)^k - P(R < v)^k] is a polynomial in the probabilities; the
        chain rule through the softmax is d/d theta_a = pi(a) (D_a - sum_b pi(b) D_b).
        """
        derivatives = [Fraction(0)] * len(self.rewards)
        for value in set(self.rewards):
            below = self._probability(value, operator.lt)
            up_to = self._probability(value, operator.le)
            for a, reward in enumerate(self.rewards):
                slope = (reward <= value) * up_to ** (k - 1) - (reward < value) * below ** (k - 1)
                derivatives[a] += k * value * slope
        return self._through_softmax(derivatives)

    def expected_estimate(
        self, n: int, weights_of: Callable[[tuple[int, ...]], Sequence[Fraction]]
    ) -> list[Fraction]:
        """Sum over outcomes of P(outcome) * sum_i w_i grad log pi(y_i)."""
        total = [Fraction(0)] * len(self.rewards)
        for drawn, p in self.outcomes(n):
            for y, weight in zip(drawn, weights_of(drawn), strict=True):
                for a, pi in enumerate(self.probabilities):
                    total[a] += p * weight * ((y == a) - pi)
        return total

    def expected_estimate_of(
        self, formula: Callable[[Rewards, int], Weights], n: int, k: int
    ) -> list[Fraction]:
        """The same for weights that depend only on the rewards."""
        return self.expected_estimate(n, lambda drawn: formula(self.rewards_of(drawn), k))

    def _probability(
        self, value: Fraction, comparison: Callable[[Fraction, Fraction], bool]
    ) -> Fraction:
        pairs = zip(self.rewards, self.probabilities, strict=True)
        return sum((p for reward, p in pairs if comparison(reward, value)), start=Fraction(0))

    def _through_softmax(self, derivatives: Sequence[Fraction]) -> list[Fraction]:
        pairs = list(zip(self.probabilities, derivatives, strict=True))
        mean = sum((p * d for p, d in pairs), start=Fraction(0))
        return [p * (d - mean) for p, d in pairs]
