"""`rspo compare`: compare two runs or policies on the problems that they share."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rspo.config.names import EXTRACTING, Metric
from rspo.core.errors import InputError
from rspo.evaluation.outcomes import Outcomes
from rspo.evaluation.pass_at_k import (
    RESAMPLES,
    SEED,
    chosen_ks,
    counted,
    curve_points,
    few,
    left_out,
    number,
    short,
    span,
    titles,
)
from rspo.evaluation.sides import Side, paired
from rspo.evaluation.statistics import Floats, holm
from rspo.passk import ROUNDING, crossing, curve
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


@dataclass(frozen=True)
class Compared:
    """Two sides on the problems that they share, in the order of the first.

    titles: the beginnings of the texts of the problems.
    ks: the k at which they are compared.
    only: the number of problems that only the first has, and that only the second has.
    """

    names: tuple[str, str]
    first: Outcomes
    second: Outcomes
    titles: tuple[str, ...]
    metric: Metric
    ks: tuple[int, ...]
    only: tuple[int, int]
    lines: tuple[str, ...]

    @property
    def common(self) -> NDArray[np.int64]:
        """The number of responses to each problem that both sides have."""
        return np.minimum(self.first.responses, self.second.responses)


def pair(
    sides: Sequence[Side], metric: Metric = "pass_at_k", ks: Sequence[int] | None = None
) -> Compared:
    """Two sides on the problems that they share.

    Args:
        sides: two sides; the second is subtracted from the first.
        ks: default: the powers of two up to the smallest number of responses.

    Raises: InputError for Max@k without rewards, for sides that share no problem, and for a k that
        is too large.
    """
    first, second = sides
    for side in sides:
        if metric == "max_at_k" and not side.outcomes.has_rewards:
            raise InputError(f"{side.name}: max_at_k needs the key 'reward' in every line")
    shared = paired(first, second)
    if not shared:
        example_a, example_b = (short(side.texts[0]) for side in sides)
        examples = f"the first ones are {example_a} and {example_b}"
        spellings = _spellings(first, second)
        if spellings:
            examples = (
                f"some differ by spaces only, such as {spellings[0]!r:.60} and {spellings[1]!r:.60}"
            )
        raise InputError(f"{first.name} and {second.name} have no problem in common; {examples}")
    places_a, places_b = np.array(shared).T
    outcomes_a = first.outcomes.select(places_a)
    outcomes_b = second.outcomes.select(places_b)
    common = np.minimum(outcomes_a.responses, outcomes_b.responses)
    only_a, only_b = (len(side.texts) - len(shared) for side in sides)
    return Compared(
        names=(first.name, second.name),
        first=outcomes_a,
        second=outcomes_b,
        titles=tuple(titles([first.texts[place] for place in places_a.tolist()])),
        metric=metric,
        ks=tuple(chosen_ks(common, ks)),
        only=(only_a, only_b),
        lines=first.lines
        + second.lines
        + tuple(_judged_differently(first, second))
        + tuple(_other_spelling(first, second)),
    )


def _other_spelling(first: Side, second: Side) -> Iterator[str]:
    """A warning if problems of both sides differ by spaces only, and so are not shared."""
    spellings = _spellings(first, second)
    if spellings:
        yield (
            f"warning: problems of both differ by spaces only and are not shared, such as "
            f"{spellings[0]!r:.60} and {spellings[1]!r:.60}; --problem-column may name a better key"
        )


def _spellings(first: Side, second: Side) -> tuple[str, str] | None:
    """The first problems of two sides that differ by spaces only and are not shared, if any."""
    by_words = {" ".join(text.split()): text for text in second.texts}
    shared = set(first.texts) & set(second.texts)
    for text in first.texts:
        other = by_words.get(" ".join(text.split()), text)
        if text not in shared and other not in shared and other != text:
            return text, other
    return None


def _judged_differently(first: Side, second: Side) -> Iterator[str]:
    """A warning if verifiers or places of the answer differ between the sides."""
    if first.verifiers == second.verifiers:
        return
    names = [name for name in dict.fromkeys(first.verifiers + second.verifiers) if name]
    # xverify and verifiers of the user need a config, which only `rspo verify` reads.
    possible = [name for name in names if name.split()[0] in EXTRACTING] or ["rules"]
    # Without --extract, each row would be verified with the places that it records.
    chosen = next((name for name in possible if "--extract" in name), possible[0])
    advice = f"--verifier {chosen} verifies both alike"
    policy = next((side for side in (first, second) if side.is_policy), None)
    if policy:
        advice = f"`rspo verify FILE --verifier {policy.verifiers[0]}` makes such verdicts"
    yield (
        f"warning: {first.name} has verdicts of {_listed(first)}, {second.name} those of "
        f"{_listed(second)}; {advice}"
    )


def _listed(side: Side) -> str:
    """The verifiers of a side in words."""
    return " and ".join(name or "other software" for name in side.verifiers)


def compare(compared: Compared) -> Iterator[str]:
    """Lines with the difference at each k, and the problems on which the two sides differ most."""
    first = compared.first
    second = compared.second
    metric = compared.metric
    ks = compared.ks
    results = [paired_difference(first, second, metric, k) for k in ks]
    yield from compared.lines
    for letter, name in zip("AB", compared.names, strict=True):
        yield f"{letter}: {name}"
    responses = [f"{span(side.responses.tolist())} responses" for side in (first, second)]
    # `fromkeys` drops the repetition if both sides have equally many responses.
    yield f"{counted(len(compared.titles))}, {' and '.join(dict.fromkeys(responses))} each"
    only_a, only_b = compared.only
    if only_a or only_b:
        yield f"left out: {counted(only_a)} only in A, {only_b} only in B"
    yield from left_out(compared.common, compared.titles, ks)
    yield from few(len(compared.titles))
    yield ""
    yield from _table(results, metric)
    if metric == "pass_at_k":
        yield from _trade(compared, results)
    yield from _most_different(first, second, compared.titles, metric, ks)


def _trade(compared: Compared, results: Sequence[Difference]) -> Iterator[str]:
    """Lines with what B gains at the smallest k and pays at the largest, and where curves cross."""
    yield ""
    gain = results[0]
    low, high = gain.interval
    yield f"gain of B at Pass@{gain.k}, B - A: {_signed(0.0 - gain.value, -high, -low)}"
    if len(results) == 1:
        return
    price = results[-1]
    yield f"price of B at Pass@{price.k}, A - B: {_signed(price.value, *price.interval)}"
    largest = int(compared.common.min())
    curves = []
    for side in (compared.first, compared.second):
        curves.append(curve(side.responses, side.counts)[:, :largest])
    yield _crossing(*curves)


def _crossing(first: Floats, second: Floats) -> str:
    """A line with the k at which the curve that is ahead at first falls behind.

    Args:
        first, second: Pass@k of each problem at k = 1 .. K, [P, K].
    """
    problems, largest = first.shape
    differences = first.mean(axis=0) - second.mean(axis=0)
    unequal = differences[abs(differences) > ROUNDING]
    if len(unequal) == 0:
        return f"crossing: none, the curves are equal up to k = {largest}"
    ahead = "A" if unequal[0] > 0 else "B"
    found = crossing(first, second)
    if math.isinf(found.k) and abs(differences[-1]) <= ROUNDING:
        text = f"crossing: none, {ahead} is ahead at first, the curves are equal at k = {largest}"
    elif math.isinf(found.k):
        text = f"crossing: none up to k = {largest}, {ahead} stays ahead"
    else:
        text = f"crossing: {ahead} is ahead at first and falls behind at k = {found.k:.1f}"
    if problems == 1:
        return text
    if math.isinf(found.low):
        return f"{text}; 95 % interval: above {largest}"
    high = f"above {largest}" if math.isinf(found.high) else f"{found.high:.1f}"
    return f"{text}; 95 % interval: {found.low:.1f} to {high}"


def _signed(value: float, low: float, high: float) -> str:
    """A difference with its interval."""
    interval = "unknown" if np.isnan(low) else f"{low:+.3f} to {high:+.3f}"
    return f"{value:+.3f}, 95 % interval {interval}"


def curves_of(compared: Compared) -> list[dict[str, Any]]:
    """Both curves with bands, for a picture: rows with `side`, `k`, `estimate`, `low` and `high`.

    The side is A or B.

    A curve has every k up to 16, and then about eight for each doubling, up to the smallest number
    of responses.
    """
    largest = int(compared.common.min())
    spaced = np.geomspace(1, largest, num=1 + 8 * largest.bit_length()).round().astype(int)
    ks = sorted(set(range(1, min(largest, 16) + 1)) | set(spaced.tolist()))
    rows: list[dict[str, Any]] = []
    for letter, side in (("A", compared.first), ("B", compared.second)):
        points = curve_points(side, [compared.metric], ks, RESAMPLES, SEED)
        rows.extend({"side": letter} | point for point in points)
    return rows


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
