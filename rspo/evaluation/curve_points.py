"""Means over problems of Pass@k and Max@k, with errors. Imports no pandas."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rspo.config.names import Metric
from rspo.evaluation.outcomes import Outcomes
from rspo.evaluation.statistics import resampled_problems, stratified_variance


def curve_points(
    outcomes: Outcomes, metrics: Sequence[Metric], ks: Sequence[int], resamples: int, seed: int
) -> list[dict[str, Any]]:
    """Estimates with errors of each metric at each k: CURVES without `cell` and `benchmark`.

    Problems with fewer than k responses are left out; `samples` is the smallest number of responses
    of the others.

    error_within: standard error of the mean over these problems, from sampling; NaN if 2k > N for
        one of them.
    error_total: standard error over resampled problems, each benchmark's from its own population.
    low, high: the middle 95 % of the mean over resampled problems. Samples are never resampled
        within a problem: that would centre Pass@k on 1-(1-c/N)^k.

    Raises: InputError for a k below 1, or above every problem's number of responses.
    """
    drawn: dict[tuple[int, ...], NDArray[np.int64]] = {}
    points = []
    for metric in metrics:
        for k in ks:
            answered = np.flatnonzero(outcomes.responses >= k)
            estimates = outcomes.estimates(metric, k)[answered]
            variances = outcomes.variances(metric, k)[answered]
            part = outcomes.select(answered)
            if part.strata not in drawn:
                drawn[part.strata] = resampled_problems(part.strata, resamples, seed)
            means = estimates[drawn[part.strata]].mean(axis=1)
            low, high = np.quantile(means, (0.025, 0.975))
            points.append(
                {
                    "metric": metric,
                    "k": k,
                    "estimate": estimates.mean(),
                    "error_within": np.sqrt(variances.sum()) / len(answered),
                    "error_total": np.sqrt(stratified_variance(estimates, part.strata)),
                    "low": low,
                    "high": high,
                    "problems": len(answered),
                    "samples": int(part.responses.min()),
                }
            )
    return points
