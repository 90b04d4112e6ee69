"""Formulas and claims of the paper that do not hold, with counterexamples in exact arithmetic.

`test_weights.py` tests what the code does instead. Equation and theorem numbers are those of the
compiled paper.
"""

import re
from fractions import Fraction
from itertools import combinations_with_replacement, product
from math import comb
from pathlib import Path

import numpy as np
import pytest

import rspo.objectives
from rspo.objectives import response_weights
from tests.support import exact
from tests.support.exact import Policy, binomial

HALF = Fraction(1, 2)

# Every multiset of up to six rewards over three values (one negative), so every pattern of ties.
ALL_SAMPLES = [
    [Fraction(r) for r in rewards]
    for n in range(1, 7)
    for rewards in combinations_with_replacement((-1, 0, 2), n)
]


# --- Algorithm 2 multiplies by pi(y'|x) a sum that is already over draws from pi -------------


def test_algorithm_2_without_its_probability_factor_is_the_closed_form_on_every_sample() -> None:
    for rewards in ALL_SAMPLES:
        for k in range(1, len(rewards) + 1):
            found = exact.max_at_k_algorithm(rewards, k)
            assert found == exact.max_at_k_appendix(rewards, k), (rewards, k)


def test_algorithm_2_as_printed_is_biased_and_without_the_factor_it_is_not() -> None:
    policy = Policy((Fraction(1), Fraction(2)), (HALF, HALF))

    def expected(n: int, k: int, *, as_printed: bool) -> list[Fraction]:
        def weights(drawn: tuple[int, ...]) -> exact.Weights:
            probabilities = [policy.probabilities[y] for y in drawn]
            rewards = policy.rewards_of(drawn)
            return exact.max_at_k_algorithm(rewards, k, probabilities if as_printed else None)

        return policy.expected_estimate(n, weights)

    for n, k in ((2, 2), (3, 2), (3, 3)):
        truth = policy.gradient_of_max_at_k(k)
        assert expected(n, k, as_printed=False) == truth
        assert expected(n, k, as_printed=True) != truth
    # In numbers: Max@2 = 2 - p^2 for p = pi(y of reward 1) = 1/2, with the gradient
    # 2 p p (1-p) = 1/4 in the logit of reward 2; as printed the expectation is 7/4 of that.
    assert policy.gradient_of_max_at_k(2) == [Fraction(-1, 4), Fraction(1, 4)]
    assert expected(2, 2, as_printed=True) == [Fraction(-7, 16), Fraction(7, 16)]


# --- Proof of theorem 4.1: the second product runs over the wrong draws ----------------------


def probability_of_first_best(policy: Policy, y: int, k: int, second_product: str) -> Fraction:
    """sum_i P_<^(i-1) pi(y) prod_j P_<=, with j over the printed or the corrected range."""
    r = policy.rewards[y]
    pairs = list(zip(policy.rewards, policy.probabilities, strict=True))
    below = sum((p for reward, p in pairs if reward < r), start=Fraction(0))
    up_to = sum((p for reward, p in pairs if reward <= r), start=Fraction(0))
    total = Fraction(0)
    for i in range(1, k + 1):
        factors = {"j = 1..i-1": i - 1, "j = i+1..k": k - i}[second_product]
        total += below ** (i - 1) * policy.probabilities[y] * up_to**factors
    return total


DIE = Policy(tuple(Fraction(face) for face in range(1, 7)), (Fraction(1, 6),) * 6)


def test_three_dice_need_the_second_product_over_j_from_i_plus_1_to_k() -> None:
    rolls = list(product(range(1, 7), repeat=3))
    counted = Fraction(sum(max(roll) == 4 for roll in rolls), len(rolls))
    face_4 = 3
    assert counted == Fraction(37, 216)
    assert probability_of_first_best(DIE, face_4, 3, "j = i+1..k") == counted
    assert probability_of_first_best(DIE, face_4, 3, "j = 1..i-1") == Fraction(52, 216)
    # With the printed range, the probabilities of the six faces do not add up to 1.
    for second_product, total in (("j = i+1..k", 1), ("j = 1..i-1", Fraction(2945, 1944))):
        faces = (probability_of_first_best(DIE, y, 3, second_product) for y in range(6))
        assert sum(faces, start=Fraction(0)) == total


# --- Theorem 4.1 itself: with ties it is the probability of being the *first* of the best ----

TIED_PAIR = Policy((Fraction(1), Fraction(1), Fraction(0)), (HALF, Fraction(1, 4), Fraction(1, 4)))


def count_draws(policy: Policy, y: int, k: int, *, first: bool) -> Fraction:
    """P(y among the best of k draws), or P(y is the first of the best)."""
    total = Fraction(0)
    for drawn, p in policy.outcomes(k):
        rewards = policy.rewards_of(drawn)
        best = [d for d, reward in zip(drawn, rewards, strict=True) if reward == max(rewards)]
        total += p * (best[0] == y if first else y in best)
    return total


@pytest.mark.parametrize("k", [2, 3])
def test_theorem_4_1_with_ties_counts_only_the_first_of_the_best(k: int) -> None:
    for y in range(3):
        formula = probability_of_first_best(TIED_PAIR, y, k, "j = i+1..k")
        assert formula == count_draws(TIED_PAIR, y, k, first=True)
    # As stated, "y is in the sample and has its highest reward", it is more likely.
    assert probability_of_first_best(TIED_PAIR, 0, k, "j = i+1..k") < count_draws(
        TIED_PAIR, 0, k, first=False
    )


@pytest.mark.parametrize("k", [1, 2, 3])
def test_theorem_4_2_holds_with_ties_because_exactly_one_response_is_first(k: int) -> None:
    parts = (
        reward * probability_of_first_best(TIED_PAIR, y, k, "j = i+1..k")
        for y, reward in enumerate(TIED_PAIR.rewards)
    )
    assert sum(parts, start=Fraction(0)) == TIED_PAIR.max_at_k(k)


# --- Section 4.3: "exactly zero for i < k, and strictly positive for i >= k" -----------------


def test_weights_are_zero_for_the_k_minus_1_smallest_rewards_with_or_without_ties() -> None:
    for rewards in ALL_SAMPLES:
        for k in range(2, len(rewards) + 1):
            assert not any(exact.max_at_k_main_text(sorted(rewards), k)[: k - 1])


def test_strictly_positive_from_position_k_on_fails_with_ties() -> None:
    # Positions 2 and 3 of 4 are tied with position 1 and beat nobody.
    rewards = [Fraction(0), Fraction(0), Fraction(0), Fraction(1)]
    for formula in (exact.max_at_k_main_text, exact.max_at_k_appendix):
        assert formula(rewards, 2) == [0, 0, 0, HALF]
    found = response_weights(np.array(rewards, dtype=np.float64), "rspo_max_at_k", 2)
    assert found.tolist() == [0, 0, 0, 0.5]


def test_non_negative_whatever_the_sign_of_the_reward_fails_for_k_1() -> None:
    rewards = [Fraction(-1), Fraction(3)]
    assert exact.max_at_k_main_text(rewards, 1) == [-HALF, Fraction(3, 2)]
    assert (response_weights(np.array([-1.0, 3.0]), "rspo_max_at_k", k=1) < 0).any()


# --- Theorem 4.4 needs no "mild approximation" -----------------------------------------------


def test_positions_or_counts_below_make_no_difference_on_any_sample() -> None:
    # Replacing c_< by i-1 adds, for each j of those tied with i, R_i C(j-1,k-2) to the first
    # term (hockey stick: C(i-1,k-1) = sum_{j<i} C(j-1,k-2)) and the same to the second.
    for rewards in ALL_SAMPLES:
        for k in range(1, len(rewards) + 1):
            main_text = exact.max_at_k_main_text(rewards, k)
            assert main_text == exact.max_at_k_appendix(rewards, k), (rewards, k)


# --- Appendix C, the sum that leads to theorem C.4 -------------------------------------------


def lemma_c_3_right_side(below: int, equal: int, m: int) -> Fraction:
    return (
        Fraction((m + 1) * (m + 2), (equal + 1) * (equal + 2)) * binomial(below + equal + 2, m + 2)
        - Fraction((below + 1) * (below - m), equal + 1) * binomial(below, m)
        + Fraction((below - m) * (below - m - 1), equal + 2) * binomial(below, m)
    )


def test_lemmas_c_2_and_c_3_hold() -> None:
    for below, equal in product(range(6), repeat=2):
        for m in range(below + equal + 1):
            terms = [
                Fraction(binomial(below, a) * binomial(below + equal - a, m - a), comb(m, a))
                for a in range(m + 1)
            ]
            difference = binomial(below + equal + 1, m + 1) - binomial(below, m + 1)
            assert sum(terms) == Fraction(m + 1, equal + 1) * difference
            weighted = sum((a + 1) * term for a, term in enumerate(terms))
            assert weighted == lemma_c_3_right_side(below, equal, m)


def first_and_second_term(below: int, equal: int, n: int, k: int, equal_in_lemma: int) -> Fraction:
    """What multiplies R(x, y) when the first two terms are summed up, as printed before C.4."""
    difference = binomial(below + equal + 1, k) - binomial(below, k)
    first = Fraction(k, (equal + 1) * binomial(n - 1, k - 1)) * difference
    scale = Fraction(equal, (n - 1) * binomial(n - 2, k - 2))
    return first - scale * lemma_c_3_right_side(below, equal_in_lemma, k - 2)


def test_the_sum_before_theorem_c_4_must_count_ties_without_the_partner() -> None:
    # Each of the c_= partners y' sees c'_= = c_= - 1 others tied with it among the n-2 left.
    # With that count in lemma C.3 (and its m = k-2) the sum is k C(c_<, k-1)/C(n-1, k-1), always;
    # with c_=, as printed, it is not from k = 3 on. The theorem itself stands.
    for below, equal, above in product(range(5), range(1, 5), range(4)):
        n = below + equal + above + 1
        for k in range(2, n + 1):
            truth = k * Fraction(binomial(below, k - 1), binomial(n - 1, k - 1))
            assert first_and_second_term(below, equal, n, k, equal - 1) == truth
    # The smallest case: three responses, one below and two tied, k = 3.
    assert first_and_second_term(below=1, equal=1, n=3, k=3, equal_in_lemma=0) == 0
    assert first_and_second_term(below=1, equal=1, n=3, k=3, equal_in_lemma=1) == -HALF


def test_each_erratum_names_its_tests_and_these_are_all_other_tests(
    request: pytest.FixtureRequest,
) -> None:
    text = Path(rspo.objectives.__file__).with_name("errata.md").read_text()
    there = re.findall(r"^def (test_\w+)\(", Path(__file__).read_text(), flags=re.MULTILINE)
    assert sorted(re.findall(r"`(test_\w+)`", text)) == sorted({*there} - {request.node.name})
