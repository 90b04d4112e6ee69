"""Pass@k, pass^k and Max@k: means over problems, as rows of a table or as lines."""

from collections import defaultdict
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

# Settings of `curve_points` for files of responses; those for policies are in the config.
RESAMPLES = 1000
SEED = 0
_TITLE_LENGTH = 60  # the most characters of a problem that are shown
# Number of problems of each benchmark -> indices of resampled problems, [resamples, problems].
_Draw = Callable[[tuple[int, ...]], NDArray[np.int64]]


def curve_points(
    outcomes: Outcomes,
    metrics: Sequence[Metric],
    ks: Sequence[int],
    resamples: int,
    seed: int,
) -> list[dict[str, Any]]:
    """Each metric at each k with its errors: rows of CURVES without `cell` and `benchmark`.

    Problems with fewer than k responses are left out; `samples` is the smallest number of responses
    to the remaining ones.

    error_within: standard error of the mean over these problems, from sampling; NaN if one of them
        has fewer than 2k responses.
    error_total: standard error over problems, which are drawn separately within each benchmark. It
        is at least `error_within`, which is part of it.
    low, high: the middle 95 % of the means over resampled problems. With fewer than
        `ENOUGH_PROBLEMS` problems, or if both ends are equal, it is `score_interval` instead, and
        for Max@k Student's interval. Samples are never resampled within a problem, because that
        would centre Pass@k on 1-(1-c/N)^k.
    """
    # All metrics and k with the same problems share one draw of resampled problems.
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
    """The interval of a mean over few problems, or over problems with equal values.

    Both ends are NaN without an error, and for Max@k if all problems have the same value.
    """
    if metric != "max_at_k":
        return score_interval(value, error, problems)
    estimate = Estimate(value, error, 0.0, error, problems - 1.0)
    return estimate.interval() if error > 0 else (np.nan, np.nan)


def chosen_ks(responses: NDArray[np.int64], ks: Iterable[int] | None) -> list[int]:
    """The k to evaluate, in ascending order, each once.

    Args:
        responses: number of responses to each problem.
        ks: those that the user names, or None for 1, 2, 4, ... up to the smallest number of
            responses, so that no problem is left out.

    Raises: InputError for a k below 1, or for which no problem has enough responses.
    """
    if ks is None:  # `bit_length` is the number of powers of two up to a number
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
        known = not np.isnan(point["low"] + point["error_total"])  # NaN for a single problem
        interval = f"{point['low']:.3f} to {point['high']:.3f}" if known else "-"
        all_correct = f"{hat['estimate']:>8.3f}{number(hat['error_total'], 9)}"
        yield f"{point['k']:>5}{point['estimate']:>10.3f}{errors}  {interval:<16}{all_correct}"
    yield "pass^k: all k responses are correct"
    yield "error: standard error over problems; within: of sampling, for the same problems"
    yield from few(len(outcomes.responses))
    yield from left_out(outcomes.responses, titles(outcomes.ids), ks)


def sizes(outcomes: Outcomes) -> str:
    """A line with the numbers of responses and problems: `12 responses to 3 problems, 4 each`."""
    total = int(outcomes.responses.sum())
    responses = f"{total} response{'s' * (total != 1)}"
    numbers = span(outcomes.responses.tolist())
    return f"{responses} to {counted(len(outcomes.responses))}, {numbers} each"


def accuracy(outcomes: Outcomes) -> str:
    """A line with the share of the responses that are correct."""
    share = outcomes.counts.sum() / outcomes.responses.sum()
    return f"accuracy: {share:.1%} of the responses are correct"


def few(problems: int) -> Iterator[str]:
    """A warning, if there are fewer than `ENOUGH_PROBLEMS` problems."""
    if problems < ENOUGH_PROBLEMS:
        yield (
            f"warning: {counted(problems)}; with fewer than {ENOUGH_PROBLEMS}, errors and "
            "intervals are rough"
        )


def left_out(
    responses: NDArray[np.int64], titles: Sequence[str], ks: Sequence[int]
) -> Iterator[str]:
    """Lines that say how many problems each k leaves out, and how many twice the largest would."""
    for k in ks:
        too_few = np.flatnonzero(responses < k)
        if len(too_few):
            name = titles[too_few[0]]
            problems = counted(len(too_few))
            yield f"k = {k} leaves out {problems} with fewer responses, such as {name}"
    largest = max(ks)
    if responses.min() < 2 * largest <= responses.max():
        problems = counted(int((responses < 2 * largest).sum()))
        yield f"--k {2 * largest} would leave out {problems} with fewer responses"


def number(value: float, width: int) -> str:
    """A value with three decimals, or - where it cannot be estimated."""
    text = "-" if np.isnan(value) else f"{value:.3f}"
    return f"{text:>{width}}"


def short(text: str) -> str:
    """The beginning of a problem's text in one line, in quotation marks."""
    return _quoted(_line(text))


def titles(texts: Sequence[str]) -> list[str]:
    """Short texts of problems, each as by `short`, unless long ones have the same beginning.

    Such as that of a system prompt: they are shown from the word at which they differ.
    """
    lines = [_line(text) for text in texts]
    alike: dict[str, list[str]] = defaultdict(list)
    for line in lines:
        alike[_quoted(line)].append(line)
    start_of = {title: _start_of_difference(group) for title, group in alike.items()}
    return [_quoted(line, start_of[_quoted(line)]) for line in lines]


def _line(text: str) -> str:
    """A text in one line of letters that can be printed."""
    line = " ".join(text.split())
    return "".join(letter if letter.isprintable() else " " for letter in line)


def _start_of_difference(lines: Sequence[str]) -> int:
    """Where the word starts at which some lines differ; 0 if they are equal."""
    first = min(lines)
    last = max(lines)  # what these two have in common, all lines have
    if first == last:
        return 0
    place = 0
    while first[place : place + 1] == last[place : place + 1]:
        place += 1
    start = first.rfind(" ", 0, place) + 1
    return max(start, place - _TITLE_LENGTH // 2)  # a word may be long


def _quoted(line: str, start: int = 0) -> str:
    """A line from `start` on in quotation marks, shortened to `_TITLE_LENGTH`."""
    shown = f"...{line[start:]}" if start else line
    if len(shown) > _TITLE_LENGTH:
        shown = shown[: _TITLE_LENGTH - 3] + "..."
    return f'"{shown}"'


def counted(problems: int) -> str:
    """A number of problems in words, such as `1 problem` or `2 problems`."""
    return f"{problems} problem" if problems == 1 else f"{problems} problems"


def span(values: Collection[int]) -> str:
    """The range of some values, such as `4 to 8`, or `8` if all are equal."""
    smallest = min(values)
    largest = max(values)
    return str(smallest) if smallest == largest else f"{smallest} to {largest}"
