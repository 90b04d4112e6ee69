"""`rspo compare`: compare two files of verified responses on the problems that they share."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rspo.config.names import Metric
from rspo.core.errors import InputError
from rspo.evaluation.outcomes import Outcomes
from rspo.evaluation.pass_at_k import chosen_ks, counted, few, left_out, number, short, span
from rspo.evaluation.read_outcomes import read_outcomes
from rspo.evaluation.statistics import holm
from rspo.passk import ROUNDING
from rspo.passk import paired_difference as difference_of_estimates

SHOWN_PROBLEMS = 5  # the most problems that are listed for each file

# How the table explains the interval if all problems differ by the same amount.
_ALLOWS_FOR_OTHERS = "allows for problems of other differences that chance may have left out"
_INTERVAL_IF_ALIKE: dict[Metric, str] = {
    "pass_at_k": _ALLOWS_FOR_OTHERS,
    "pass_hat_k": _ALLOWS_FOR_OTHERS,
    "max_at_k": "is unknown: other problems may differ by any amount",
}
TITLES: dict[Metric, str] = {"pass_at_k": "Pass@k", "max_at_k": "Max@k", "pass_hat_k": "pass^k"}


@dataclass(frozen=True)
class Difference:
    """First minus second at one k, on the problems with at least k responses from both.

    first, second, value: means over these problems.
    interval: 95 % interval of `value`; NaN for a single problem, and for Max@k if all problems
        differ by the same amount.
    p: two-sided p-value, not adjusted for the number of k: that of Student's t-test, but at least
        `rspo.passk.least_p`. NaN for a single problem.
    alike: whether there are several problems, and all differ by the same amount.
    """

    k: int
    first: float
    second: float
    value: float
    interval: tuple[float, float]
    p: float
    alike: bool


def compare(
    files: Sequence[Path], metric: Metric = "pass_at_k", ks: Sequence[int] | None = None
) -> Iterator[str]:
    """Lines with the difference at each k, and the problems on which the two files differ most.

    Args:
        files: two files, as `read_outcomes` reads them; the second is subtracted from the first.
        ks: default: the powers of two up to the smallest number of responses.

    Raises: InputError for Max@k without rewards, for files that share no problem, and for a k that
        is too large.
    """
    sides = [read_outcomes(file) for file in files]
    for file, side in zip(files, sides, strict=True):
        if metric == "max_at_k" and not side.has_rewards:
            raise InputError(f"{file}: max_at_k needs the key 'reward' in every line")
    place_in_second = {problem: place for place, problem in enumerate(sides[1].ids)}
    shared = [problem for problem in sides[0].ids if problem in place_in_second]
    if not shared:
        example_a, example_b = (short(side.ids[0]) for side in sides)
        raise InputError(
            f"{files[0]} and {files[1]} have no problem in common; the first ones are {example_a} "
            f"and {example_b}"
        )
    # The shared problems of both files, in the order of the first file.
    is_shared = [problem in place_in_second for problem in sides[0].ids]
    first = sides[0].select(np.flatnonzero(is_shared))
    second = sides[1].select(np.array([place_in_second[problem] for problem in shared]))
    titles = [short(problem) for problem in shared]
    common = np.minimum(first.responses, second.responses)
    ks = chosen_ks(common, ks)
    results = [paired_difference(first, second, metric, k) for k in ks]
    for letter, file in zip("AB", files, strict=True):
        yield f"{letter}: {file}"
    responses = [f"{span(side.responses.tolist())} responses" for side in (first, second)]
    # `fromkeys` drops the repetition if both files have equally many responses.
    yield f"{counted(len(shared))}, {' and '.join(dict.fromkeys(responses))} each"
    only_a, only_b = (len(side.ids) - len(shared) for side in sides)
    if only_a or only_b:
        yield f"left out: {counted(only_a)} only in A, {only_b} only in B"
    yield from left_out(common, titles, ks)
    yield from few(len(shared))
    yield ""
    yield from _table(results, metric)
    yield from _most_different(first, second, titles, metric, ks)


def paired_difference(first: Outcomes, second: Outcomes, metric: Metric, k: int) -> Difference:
    """The paired difference at k of two files' outcomes on the same problems, in the same order."""
    problems = np.flatnonzero(np.minimum(first.responses, second.responses) >= k)
    ours = first.estimates(metric, k)[problems]
    theirs = second.estimates(metric, k)[problems]
    largest = np.inf if metric == "max_at_k" else 1.0  # the range of rewards is not known
    difference = difference_of_estimates(ours, theirs, largest)
    return Difference(
        k=k,
        first=float(ours.mean()),
        second=float(theirs.mean()),
        value=difference.value,
        interval=(difference.low, difference.high),
        p=difference.p,
        alike=difference.alike,
    )


def _table(results: Sequence[Difference], metric: Metric) -> Iterator[str]:
    """Lines with a row for each k, and lines that explain the columns."""
    heads = (f"{TITLES[metric]} A", f"{TITLES[metric]} B", "A - B")
    columns = "".join(f"{head:>10}" for head in heads)
    yield f"{'k':>5}{columns}  {'95 % interval':<16}{'p':>8}{'Holm':>8}"
    adjusted = holm([result.p for result in results])
    for result, p in zip(results, adjusted, strict=True):
        low, high = result.interval
        interval = "-" if np.isnan(low) else f"{low:+.3f} to {high:+.3f}"
        values = f"{result.first:>10.3f}{result.second:>10.3f}{result.value:>+10.3f}"
        yield f"{result.k:>5}{values}  {interval:<16}{_p(result.p)}{_p(p)}"
    yield "interval and p (two-sided): paired over problems; Holm: p adjusted for the number of k"
    alike = ", ".join(str(result.k) for result in results if result.alike)
    if alike:
        interval = _INTERVAL_IF_ALIKE[metric]
        yield f"k = {alike}: all problems differ by the same, so the interval {interval}"


def _p(value: float) -> str:
    """A p-value in a column of the table."""
    text = "< .001" if value < 0.001 else number(value, 0)
    return f"{text:>8}"


def _most_different(
    first: Outcomes,
    second: Outcomes,
    titles: Sequence[str],
    metric: Metric,
    ks: Sequence[int],
) -> Iterator[str]:
    """Lines with the problems at which each file is better by the most, averaged over k."""
    by_k = [first.estimates(metric, k) - second.estimates(metric, k) for k in ks]
    known = np.isfinite(by_k)  # a problem with fewer than k responses has no value
    # At least 1, so that the mean of a problem without values is 0 instead of NaN.
    number_known = np.maximum(known.sum(axis=0), 1)
    mean = np.where(known, by_k, 0.0).sum(axis=0) / number_known
    for better, gains in (("A", mean), ("B", -mean)):
        number_better = int((gains > ROUNDING).sum())  # smaller gains are rounding errors
        places = np.argsort(-gains, kind="stable")[:number_better]
        if len(places):
            yield ""
            yield f"{better} is better at {counted(len(places))}; A - B, averaged over k:"
        for place in places[:SHOWN_PROBLEMS]:
            counts = " against ".join(
                f"{side.counts[place]} of {side.responses[place]}" for side in (first, second)
            )
            yield f"  {mean[place]:+.3f}  {counts} correct  {titles[place]}"
