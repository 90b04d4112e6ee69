"""`rspo compare`: two policies, or files of verified responses, on the problems that they share."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from rspo.config import steps
from rspo.config.experiment import Experiment
from rspo.config.names import Metric
from rspo.core.errors import InputError, allowed_names
from rspo.evaluation.outcomes import Outcomes
from rspo.evaluation.pass_at_k import chosen_ks, counted, few, left_out, number, short, span
from rspo.evaluation.read_outcomes import read_outcomes, suite_scores
from rspo.evaluation.statistics import ROUNDING, Part, combine, holm, least_p

SHOWN = 5  # problems to list for each of the two

TITLES: dict[Metric, str] = {"pass_at_k": "Pass@k", "max_at_k": "Max@k", "pass_hat_k": "pass^k"}


@dataclass(frozen=True)
class _Side:
    """A policy or a file.

    outcomes: of problems whose ids are unique.
    texts: of the problems; for a file the ids.
    ks: of the policy's config; empty for a file.
    """

    outcomes: Outcomes
    texts: tuple[str, ...]
    ks: tuple[int, ...] = ()


@dataclass(frozen=True)
class Difference:
    """First minus second at one k, on the problems with at least k responses from both.

    first, second, value: means over these problems.
    interval: of 95 %; NaN for a single problem, and if all problems differ by the same.
    p: two-sided, of Student's t but at least `least_p`, not adjusted; NaN for a single problem.
    """

    k: int
    first: float
    second: float
    value: float
    interval: tuple[float, float]
    p: float


def compare(
    names: Sequence[str],
    load: Callable[[], Experiment],
    suite: str | None = None,
    benchmark: str | None = None,
    metric: Metric = "pass_at_k",
    ks: Sequence[int] | None = None,
) -> Iterator[str]:
    """Lines with the difference at each k, and the problems on which the two differ most.

    Args:
        names: two files (`read_outcomes`) or policies. Problems are the same if their names are, or
            otherwise their texts.
        load: called if one of them is no file.
        suite, benchmark: of the policies' scores; default: all benchmarks of the first suite.
        ks: default: those of the config if both are policies, else 1, 2, 4, ... up to the smallest
            number of responses to a problem.

    Raises: InputError for an unknown name, bad scores, no shared problem, or a k for which no
        problem has enough responses, or Max@k of a file without rewards.
    """
    if (suite or benchmark) and all(Path(name).is_file() for name in names):
        raise InputError("--suite and --benchmark are of policies; expected one, got two files")
    sides = [_side(name, load, suite, benchmark) for name in names]
    for name, side in zip(names, sides, strict=True):
        if metric == "max_at_k" and not side.outcomes.has_rewards:
            raise InputError(f"{name}: max_at_k needs the key 'reward' in every line")
    shared = _shared(*(side.outcomes.ids for side in sides))
    shared = shared or _shared(*(side.texts for side in sides))
    if not shared:
        ours, theirs = (short(side.texts[0]) for side in sides)
        raise InputError(
            f"{names[0]} and {names[1]} have no problem in common; the first ones are {ours} and "
            f"{theirs}"
        )
    first, second = (
        side.outcomes.select(np.array(places))
        for side, places in zip(sides, zip(*shared, strict=True), strict=True)
    )
    titles = [
        f"{sides[0].outcomes.ids[place]} " * bool(sides[0].ks) + short(sides[0].texts[place])
        for place, _ in shared
    ]
    of_both = np.minimum(first.responses, second.responses)
    ks = chosen_ks(of_both, ks, default={*sides[0].ks} & {*sides[1].ks})
    results = [paired_difference(first, second, metric, k) for k in ks]
    yield from (f"{letter}: {name}" for letter, name in zip("AB", names, strict=True))
    responses = (f"{span(side.responses.tolist())} responses" for side in (first, second))
    yield f"{counted(len(shared))}, {' and '.join(dict.fromkeys(responses))} each"
    only_a, only_b = (len(side.texts) - len(shared) for side in sides)
    if only_a or only_b:
        yield f"left out: {counted(only_a)} only in A, {only_b} only in B"
    yield from left_out(of_both, titles, ks)
    yield from few(len(shared))
    yield ""
    yield from _table(results, metric)
    yield from _most_different(first, second, titles, metric, ks)
    if sides[0].ks and sides[1].ks:
        yield ""
        yield "The errors are about these two policies; `rspo claims` compares methods over seeds."


def paired_difference(first: Outcomes, second: Outcomes, metric: Metric, k: int) -> Difference:
    """The paired difference at k of two policies' outcomes of the same problems.

    Args:
        k: at most the largest number of responses that both have to a problem.
    """
    problems = np.flatnonzero(np.minimum(first.responses, second.responses) >= k)
    ours, theirs = (side.estimates(metric, k)[problems] for side in (first, second))
    strata = first.select(problems).strata
    if min(strata) == 1:  # its variance is unknown: take all problems as one population
        strata = (len(problems),)
    estimate = combine(
        [Part(ours[None], trained=False), Part(theirs[None], -1, trained=False)], strata
    )
    interval, p = (np.nan, np.nan), np.nan
    if estimate.error > ROUNDING:
        interval = estimate.interval(largest=np.inf if metric == "max_at_k" else 1.0)
    if not np.isnan(estimate.error):
        differing = int((np.abs(ours - theirs) > ROUNDING).sum())
        p = max(estimate.p_values().two_sided, least_p(differing))
    means = float(ours.mean()), float(theirs.mean())
    return Difference(k, *means, estimate.value, interval, p)


def _side(
    name: str, load: Callable[[], Experiment], suite: str | None, benchmark: str | None
) -> _Side:
    """Raises: InputError for an unknown name, and for missing or bad scores or problems."""
    if Path(name).is_file():
        outcomes = read_outcomes(Path(name))
        return _Side(outcomes, outcomes.ids)
    from rspo.datasets.contamination import read_texts  # here, because it imports pandas

    try:
        experiment = load()
        experiment.model_of(name)
    except InputError as error:
        raise InputError(f"{name}: no such file, and no policy ({error})") from None
    suite = suite or next(iter(experiment.config.data.suites))
    benchmarks = experiment.benchmarks_of(suite)
    if benchmark is not None and benchmark not in benchmarks:
        hint = allowed_names(benchmark, benchmarks)
        raise InputError(f"suite {suite!r} has no benchmark {benchmark!r}; {hint}")
    chosen = benchmarks if benchmark is None else [benchmark]
    steps.curves(experiment, name, suite).require_inputs()
    scores = suite_scores(experiment, name, suite)
    names, texts = list[str](), list[str]()
    for one in chosen:
        text_of = read_texts(experiment.problems(one))
        names += [f"{one}/{problem}" for problem in scores[one].ids]
        texts += [text_of.get(problem, "") for problem in scores[one].ids]
    outcomes = Outcomes.pooled(scores[one] for one in chosen)
    if len({*outcomes.ids}) < len(names):  # not unique without the benchmark
        outcomes = replace(outcomes, ids=tuple(names))
    return _Side(outcomes, tuple(texts), tuple(experiment.config.evaluation.k))


def _shared(first: Sequence[str], second: Sequence[str]) -> list[tuple[int, int]]:
    """Places of each problem in both, in the order of the first; of duplicates, the first one."""
    ours, theirs = (
        {name: place for place, name in reversed([*enumerate(side)])} for side in (first, second)
    )
    return sorted((place, theirs[name]) for name, place in ours.items() if name in theirs)


def _table(results: Sequence[Difference], metric: Metric) -> Iterator[str]:
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


def _p(value: float) -> str:
    return f"{'< .001' if value < 0.001 else number(value, 0):>8}"


def _most_different(
    first: Outcomes,
    second: Outcomes,
    titles: Sequence[str],
    metric: Metric,
    ks: Sequence[int],
) -> Iterator[str]:
    """Lines with the problems of the largest differences, averaged over k, for each of the two."""
    by_k = [first.estimates(metric, k) - second.estimates(metric, k) for k in ks]
    known = np.isfinite(by_k)  # a problem with fewer than k responses has no value
    mean = np.where(known, by_k, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    for better, gains in (("A", mean), ("B", -mean)):
        places = np.argsort(-gains, kind="stable")[: int((gains > ROUNDING).sum())]
        if len(places):
            yield ""
            yield f"{better} is better at {counted(len(places))}; A - B, averaged over k:"
        for place in places[:SHOWN]:
            counts = " against ".join(
                f"{side.counts[place]} of {side.responses[place]}" for side in (first, second)
            )
            yield f"  {mean[place]:+.3f}  {counts} correct  {titles[place]}"
