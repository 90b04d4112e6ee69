"""Whether a weight or advantage function gives an unbiased gradient of Pass@k, and for which k."""

from rspo.objectives.contract import WeightFunction
from rspo.objectives.diagnose import diagnose

MOST = 16  # responses for which every k is tried


def check_pass_at_k(objective: str | WeightFunction, k: int, n: int) -> tuple[bool, list[str]]:
    """Whether weights are an unbiased gradient of Pass@k on 0/1 rewards, up to a positive factor.

    Args:
        objective: a name in `OBJECTIVES`, or a function of rewards [..., n] and k that returns
            weights or advantages [..., n], such as `rspo.diagnose` takes.
        k: as the function gets it, and of the Pass@k that it is checked for.
        n: responses of a group.

    Returns: the answer; and what the function maximizes with each other k too (powers of 2 for
        n > 16), a line each, then the verdict.

    Raises: ValueError as `diagnose` does, for this k; other k that fail are lines.
    """
    ks = range(1, n + 1) if n <= MOST else [2**i for i in range(n.bit_length())]
    lines, unbiased = [], []
    for tried in sorted({*ks, k}):
        try:
            form = diagnose(objective, tried, n).weights
        except Exception as error:  # of a user's function
            if tried == k:
                raise
            lines.append(f"k = {tried:<3} refused: {error}")
            continue
        lines.append(f"k = {tried:<3} {form.target}")
        if form.unbiased_for == tried:
            unbiased.append(tried)
    verdict = "unbiased" if k in unbiased else "not unbiased"
    of_which = f"unbiased with k = {', '.join(map(str, unbiased))}" if unbiased else "with no k"
    lines.append(f"{verdict} for Pass@{k} with n = {n}; {of_which}")
    return k in unbiased, lines


def assert_unbiased(objective: str | WeightFunction, k: int, n: int = 16) -> None:
    """For a test of your own: the weights are an unbiased gradient of Pass@k on 0/1 rewards.

        def test_my_advantages():
            assert_unbiased(my_advantages, k=4, n=8)

    A positive factor, such as the n of an advantage, is allowed. Arguments as `check_pass_at_k`.

    Raises: AssertionError that says for which k the function is unbiased, and what it maximizes.
    """
    passed, lines = check_pass_at_k(objective, k, n)
    if not passed:
        raise AssertionError("\n".join([lines[-1], *lines[:-1]]))
