"""Tells whether weights or advantages give an unbiased gradient of Pass@k, and for which k."""

from itertools import pairwise

from rspo.objectives.diagnose import diagnose
from rspo.objectives.mixture import target_of
from rspo.passk import Answer, Slope, WeightFunction, answer_of, equal, require_integers, slope_of

MOST_TRIED = 16  # largest n for which every k is tried; above it, only powers of 2


def check_pass_at_k(
    objective: str | WeightFunction, k: int, n: int, factor: float | None = None
) -> Answer:
    """Check that weights are an unbiased gradient of Pass@k, and tell for which other k they are.

    This does the same as `rspo.passk.check`, and also accepts the name of an objective. In
    addition, it tells what the weights maximize if they are computed for another k.

    Args:
        objective: a name in `OBJECTIVES`, or a function as `check` takes it.
        k, n, factor: as `check` takes them.

    Returns: the answer of `check`, with more lines before its own. Each of them says what the
        weights maximize if they are computed for one k: for every k up to n, or only for powers of
        2 if n > 16. The verdict ends with those k for which the weights are unbiased.

    Raises: ValueError as `check` does. If the function fails with another k, the line of that k has
        the message instead.
    """
    require_integers(k=k, n=n)
    tried = set(range(1, n + 1)) if n <= MOST_TRIED else {2**i for i in range(n.bit_length())}
    # One line for each k. If the function refuses a k, its message becomes the line; if it refuses
    # the given k, the error is raised.
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
    # The factor for each j with which the weights are unbiased for Pass@j. One learning rate serves
    # all these j only if their factors are equal.
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
