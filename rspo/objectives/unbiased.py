"""Whether a weight or advantage function gives an unbiased gradient of Pass@k, and for which k."""

from rspo.objectives.diagnose import diagnose
from rspo.passk import Answer, Slope, WeightFunction, answer_of, check


def check_pass_at_k(
    objective: str | WeightFunction, k: int, n: int, factor: float | None = None
) -> Answer:
    """`rspo.passk.check`, also for the name of an objective.

    Args:
        objective: a name in `OBJECTIVES`, or a function as `check` takes it.
        k, n, factor: as `check` takes them.

    Returns: the answer, as (passed, lines).

    Raises: ValueError as `check` does.
    """
    if callable(objective):
        return check(objective, k, n, factor)

    def slope(tried: int) -> Slope:
        return diagnose(objective, tried, n).weights.exact_slope

    return answer_of(slope, k, n, factor)


def assert_unbiased(
    objective: str | WeightFunction, k: int, n: int = 16, factor: float | None = None
) -> None:
    """For a test of your own: the weights are an unbiased gradient of Pass@k on 0/1 rewards.

        def test_my_advantages():
            assert_unbiased(my_advantages, k=4, n=8, factor=8)  # advantages are n times the weights

    Without `factor`, any positive one is allowed. Arguments as `check_pass_at_k`.

    Raises: AssertionError that says for which k the function is unbiased, and what it maximizes.
    """
    answer = check_pass_at_k(objective, k, n, factor)
    if not answer:
        raise AssertionError("\n".join([answer.lines[-1], *answer.lines[:-1]]))
