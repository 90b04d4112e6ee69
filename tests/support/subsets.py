"""Max@k and its errors by enumeration of all subsets, independent of `rspo.estimators`."""

from collections.abc import Sequence
from itertools import combinations, product

import numpy as np


def mean_with_errors(prompts: Sequence[Sequence[float]], k: int) -> tuple[float, float, float]:
    """Mean over prompts, standard error over them, and the part of it from sampling.

    Args:
        prompts: the rewards of the responses to each.

    Returns: mean, error, within; `within` is NaN if 2k > n for a prompt.
    """
    values, variances = [], []
    for rewards in prompts:
        subsets = [set(each) for each in combinations(range(len(rewards)), k)]
        best = [max(rewards[i] for i in each) for each in subsets]
        pairs = product(zip(subsets, best, strict=True), repeat=2)
        of_disjoint = [one * two for (first, one), (second, two) in pairs if not first & second]
        values.append(np.mean(best))
        variances.append(values[-1] ** 2 - np.mean(of_disjoint) if of_disjoint else np.nan)
    within = np.sqrt(np.maximum(np.sum(variances), 0.0)) / len(prompts)
    error = np.std(values, ddof=1) / np.sqrt(len(prompts))
    return float(np.mean(values)), float(np.fmax(error, within)), float(within)
