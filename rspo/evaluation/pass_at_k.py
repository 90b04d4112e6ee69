"""Pass@k, pass^k and Max@k: means over problems, as rows of a table or as lines."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rspo.config.names import Metric
from rspo.core.errors import InputError
from rspo.evaluation.outcomes import Outcomes
from rspo.evaluation.statistics import (
    ENOUGH_PROBLEMS,
    Estimate,
    resampled_problems,
    score_interval,
    stratified_variance,
)

# For files of responses; the config has those for policies.
RESAMPLES = 1000
SEED = 0
_TITLE_LENGTH = 60  # characters of a problem that are shown
_Draw = Callable[[tuple[int, ...]], NDArray[np.int64]]  # resampled problems for sizes of benchmarks


def curve_points(
    outcomes: Outcomes,
    metrics: Sequence[Metric],
    ks: Sequence[int],
    resamples: int,
    seed: int,
) -> list[dict[str, Any]]:
    """Estimates with errors of each metric at each k: CURVES without `cell` and `benchmark`.

    Problems with fewer than k responses are left out; `samples` is the smallest number of responses
    to the remaining ones.

    error_within: standard error of the mean over these problems, from sampling; NaN if 2k > N for
        one of them.
    error_total: standard error over problems, each benchmark's from its own population, and at
        least `error_within`, which is part of it.
    low, high: the middle 95 % of the mean over resampled problems; with fewer than
        `ENOUGH_PROBLEMS`, or where all have the same value, `score_interval`, and for Max@k
        Student's interval. Samples are never resampled within a problem: that would centre Pass@k
        on 1-(1-c/N)^k.
    """
    draw = cache(partial(resampled_problems, resamples=resamples, seed=seed))
    return [
        {"metric": metric, "k": k} | _mean(outcomes, metric, k, draw)
        for metric in metrics
        for k in ks
    ]


def _mean(outcomes: Outcomes, metric: Metric, k: int, draw: _Draw) -> dict[str, Any]:
    """The mean over the problems with k responses, with its errors."""
    answered = np.flatnonzero(outcomes.responses >= k)
    part = outcomes.select(answered)
    estimates = outcomes.estimates(metric, k)[answered]
    variance = outcomes.variances(metric, k)[answered].sum()
    within = np.sqrt(variance) / len(answered)
    total = np.sqrt(stratified_variance(estimates, part.strata))
    if within > total:  # by chance, with few problems
        total = within
    low, high = np.quantile(estimates[draw(part.strata)].mean(axis=1), (0.025, 0.975))
    if len(answered) < ENOUGH_PROBLEMS or low == high:
        low, high = _interval_of_few(metric, estimates.mean(), total, len(answered))
    return {
        "estimate": estimates.mean(),
        "error_within": within,
        "error_total": total,
        "low": low,
        "high": high,
        "problems": len(answered),
        "samples": int(part.responses.min()),
    }


def _interval_of_few(
    metric: Metric, value: float, error: float, problems: int
) -> tuple[float, float]:
    """The interval of a mean over few problems, or over equal ones; NaN if it is unknown."""
    if metric != "max_at_k":
        return score_interval(value, error, problems)
    estimate = Estimate(value, error, 0.0, error, problems - 1.0)
    return estimate.interval() if error > 0 else (np.nan, np.nan)


def chosen_ks(responses: NDArray[np.int64], ks: Iterable[int] | None) -> list[int]:
    """The k to evaluate, in ascending order.

    Args:
        responses: number of responses to each problem.
        ks: those that the user names, or None for 1, 2, 4, ... up to the smallest number of
            responses, so that no problem is left out.
    """
    if ks is None:
        ks = [2**power for power in range(int(responses.min()).bit_length())]
    for k in ks:
        if not 1 <= k <= responses.max():
            raise InputError(
                f"k = {k}; allowed: 1 to {responses.max()}, the largest number of responses to a "
                "problem"
            )
    return sorted(set(ks))


def pass_at_k_table(outcomes: Outcomes, ks: Sequence[int]) -> Iterator[str]:
    """Lines with Pass@k and pass^k at each k, with errors, and which problems are left out."""
    last = f"{'95 % interval':<16}{'pass^k':>8}{'error':>9}"
    yield f"{'k':>5}{'Pass@k':>10}{'error':>9}{'within':>9}  {last}"
    points = curve_points(outcomes, ["pass_at_k"], ks, RESAMPLES, SEED)
    hats = curve_points(outcomes, ["pass_hat_k"], ks, RESAMPLES, SEED)
    for point, hat in zip(points, hats, strict=True):
        errors = number(point["error_total"], 9) + number(point["error_within"], 9)
        known = not np.isnan(point["low"] + point["error_total"])  # not from one problem
        interval = f"{point['low']:.3f} to {point['high']:.3f}" if known else "-"
        all_correct = f"{hat['estimate']:>8.3f}{number(hat['error_total'], 9)}"
        yield f"{point['k']:>5}{point['estimate']:>10.3f}{errors}  {interval:<16}{all_correct}"
    yield "pass^k: all k responses are correct"
    yield "error: standard error over problems; within: of sampling, for the same problems"
    yield from few(len(outcomes.responses))
    yield from left_out(outcomes.responses, [short(name) for name in outcomes.ids], ks)


def few(problems: int) -> Iterator[str]:
    """A line of warning for fewer than `ENOUGH_PROBLEMS`."""
    if problems < ENOUGH_PROBLEMS:
        yield (
            f"warning: {counted(problems)}; with fewer than {ENOUGH_PROBLEMS}, errors and "
            "intervals are rough"
        )


def left_out(
    responses: NDArray[np.int64], titles: Sequence[str], ks: Sequence[int]
) -> Iterator[str]:
    """Lines that say how many problems each k leaves out, and the next larger k."""
    for k in ks:
        without = np.flatnonzero(responses < k)
        if len(without):
            name = titles[without[0]]
            fewer = counted(len(without))
            yield f"k = {k} leaves out {fewer} with fewer responses, such as {name}"
    largest = max(ks)
    if responses.min() < 2 * largest <= responses.max():
        fewer = counted(int((responses < 2 * largest).sum()))
        yield f"--k {2 * largest} would leave out {fewer} with fewer responses"


def number(value: float, width: int) -> str:
    """A value with three decimals, or - where it cannot be estimated."""
    return f"{'-' if np.isnan(value) else f'{value:.3f}':>{width}}"


def short(text: str) -> str:
    """The beginning of a problem's text in one line, in quotation marks."""
    line = "".join(letter if letter.isprintable() else " " for letter in " ".join(text.split()))
    if len(line) > _TITLE_LENGTH:
        line = line[: _TITLE_LENGTH - 3] + "..."
    return f'"{line}"'


def counted(problems: int) -> str:
    """A number of problems in words, such as `1 problem` or `2 problems`."""
    return f"{problems} problem" if problems == 1 else f"{problems} problems"


def span(values: Collection[int]) -> str:
    """The range of some values, such as `4 to 8`, or `8` if all are equal."""
    return " to ".join(dict.fromkeys(str(value) for value in (min(values), max(values))))
