"""Means over problems of Pass@k, Max@k and figures of answers, with errors. Imports no pandas."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rspo.config.names import Metric
from rspo.evaluation.different import different_answers
from rspo.evaluation.outcomes import Outcomes
from rspo.evaluation.statistics import Floats, resampled_problems, stratified_variance

_Draw = Callable[[tuple[int, ...]], NDArray[np.int64]]  # resampled problems for sizes of benchmarks


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
    draw = _draw(resamples, seed)
    return [
        {"metric": metric, "k": k}
        | _mean(outcomes, k, outcomes.estimates(metric, k), outcomes.variances(metric, k), draw)
        for metric in metrics
        for k in ks
    ]


def answer_points(
    outcomes: Outcomes,
    answers: Sequence[list[str | None]],
    ks: Sequence[int],
    resamples: int,
    seed: int,
) -> list[dict[str, Any]]:
    """As `curve_points`, without `error_within`, for the answers in the responses.

    `no_answer`, k = 1: fraction of a problem's responses without an answer.
    `different_answers`: expected number of different answers among k responses.

    Args:
        answers: for each problem the answer of each response; None if it has none.
    """
    draw = _draw(resamples, seed)
    unknown = np.full(len(answers), np.nan)
    missing = np.array([of.count(None) / len(of) for of in answers])
    points = [{"metric": "no_answer", "k": 1} | _mean(outcomes, 1, missing, unknown, draw)]
    for k in ks:
        kinds = [different_answers(of, k) if len(of) >= k else np.nan for of in answers]
        mean = _mean(outcomes, k, np.array(kinds), unknown, draw)
        points.append({"metric": "different_answers", "k": k} | mean)
    return points


def _draw(resamples: int, seed: int) -> _Draw:
    return cache(lambda strata: resampled_problems(strata, resamples, seed))


def _mean(
    outcomes: Outcomes, k: int, estimates: Floats, variances: Floats, draw: _Draw
) -> dict[str, Any]:
    """The mean over the problems with k responses, with its errors."""
    answered = np.flatnonzero(outcomes.responses >= k)
    part, estimates = outcomes.select(answered), estimates[answered]
    low, high = np.quantile(estimates[draw(part.strata)].mean(axis=1), (0.025, 0.975))
    return {
        "estimate": estimates.mean(),
        "error_within": np.sqrt(variances[answered].sum()) / len(answered),
        "error_total": np.sqrt(stratified_variance(estimates, part.strata)),
        "low": low,
        "high": high,
        "problems": len(answered),
        "samples": int(part.responses.min()),
    }
