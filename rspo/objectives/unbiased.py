"""Tells whether weights or advantages give an unbiased gradient of Pass@k, and for which k."""

from itertools import pairwise

from rspo.objectives.diagnose import diagnose
from rspo.objectives.mixture import target_of
from rspo.passk import Answer, Slope, WeightFunction, answer_of, equal, require_integers, slope_of

MOST_TRIED = 16  # largest n for which every k is tried; above it, only powers of 2


def check_pass_at_k(
    objective: str | WeightFunction, k: int, n: int, factor: float | None = None
) -> Answer:
    """Check that weights are an unbiased gradient of Pass@k, and tell what other k would maximize.

    This is `rspo.passk.check`, which also takes the name of an objective here.

    Args:
        objective: a name in `OBJECTIVES`, or a function as `check` takes it.
        k, n, factor: as `check` takes them.

    Returns: the answer of `check`. Before its lines, it has one for each k (powers of 2 for n > 16)
        that says what is maximized with this k. Its verdict ends with the k that are unbiased.

    Raises: ValueError as `check` does. If the function fails with another k, its line says so.
    """
    require_integers(k=k, n=n)
    tried = set(range(1, n + 1)) if n <= MOST_TRIED else {2**i for i in range(n.bit_length())}
    # What each k maximizes. A k that the function refuses gets a line, unless it is the given k.
    lines = []
    slopes = {}
    for other in sorted(tried | {k}):
        try:
            slopes[other] = _slope(objective, other, n)
        except ValueError as error:
            if other == k:
                raise
            lines.append(f"k = {other:<3} refused: {error}")
        else:
            lines.append(f"k = {other:<3} {target_of(slopes[other])}")
    # Whether one learning rate serves every k: the same factor wherever F is a multiple of Pass@k.
    factors = {j: slope.factor for j, slope in slopes.items() if slope.unbiased_for == j}
    tolerance = slopes[k].tolerance
    if not all(equal(first, second, tolerance) for first, second in pairwise(factors.values())):
        lines.append(
            "the factor depends on k: each k has a learning rate of its own, also in a sum over k"
        )
    answer = answer_of(slopes, k, n, factor)
    unbiased = f"unbiased with k = {', '.join(map(str, factors))}" if factors else "with no k"
    lines += answer.lines
    lines[-1] += f"; {unbiased}"
    return Answer(answer.passed, lines)


def _slope(objective: str | WeightFunction, k: int, n: int) -> Slope:
    """The slope of the weights of a function, or of an objective by name."""
    if callable(objective):
        return slope_of(objective, k, n)
    return diagnose(objective, k, n).weights.exact_slope


def assert_unbiased(
    objective: str | WeightFunction, k: int, n: int = 16, factor: float | None = None
) -> None:
    """Assert, in a test of your own, that weights are an unbiased gradient of Pass@k.

        def test_my_advantages():
            assert_unbiased(my_advantages, k=4, n=8, factor=8)  # advantages are n times the weights

    The rewards are 0 or 1. Without `factor`, any positive factor is allowed. The arguments are
    those of `check_pass_at_k`.

    Raises: AssertionError that says for which k the function is unbiased, and what it maximizes.
    """
    answer = check_pass_at_k(objective, k, n, factor)
    if not answer:
        verdict = answer.lines[-1]
        raise AssertionError("\n".join([verdict] + answer.lines[:-1]))
