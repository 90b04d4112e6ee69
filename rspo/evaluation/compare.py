"""`rspo compare`: two policies, or files of verified responses, on the problems that they share."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rspo.config.experiment import Experiment
from rspo.config.names import Metric
from rspo.core.errors import InputError, did_you_mean
from rspo.evaluation.outcome_files import read_outcomes
from rspo.evaluation.outcomes import Outcomes
from rspo.evaluation.paired_differences import ROUNDING, Difference, Pair, differences
from rspo.evaluation.pass_at_k_table import counted, default_ks, left_out, number, short, span
from rspo.evaluation.score_arrays import policy_scores
from rspo.evaluation.statistics import holm

TITLES: dict[Metric, str] = {"pass_at_k": "Pass@k", "max_at_k": "Max@k", "pass_hat_k": "pass^k"}


@dataclass(frozen=True)
class Side:
    """A policy or a file.

    texts: of the problems, in the order of the outcomes.
    ks: of the policy's config; empty for a file.
    """

    outcomes: Outcomes
    texts: tuple[str, ...]
    ks: tuple[int, ...] = ()

    @property
    def is_policy(self) -> bool:
        return bool(self.ks)


def compare(
    names: Sequence[str],
    load: Callable[[], Experiment],
    suite: str | None = None,
    benchmark: str | None = None,
    metric: Metric = "pass_at_k",
    ks: Sequence[int] | None = None,
    shown: int = 5,
) -> Iterator[str]:
    """Lines with the difference at each k, and the problems on which the two differ most.

    Args:
        names: two files (`read_outcomes`) or policies. Problems are the same if their ids are, or
            otherwise their texts.
        load: called if one of them is no file.
        suite, benchmark: of the policies' scores; default: all benchmarks of the first suite.
        ks: default: those of the config if both are policies, else 1, 2, 4, ... up to the smallest
            number of responses to a problem.
        shown: number of problems to list for each of the two.

    Raises: InputError for an unknown name, bad scores, no shared problem, or a k for which no
        problem has enough responses, or Max@k of a file without rewards.
    """
    first, second = (_side(name, load, suite, benchmark) for name in names)
    for name, side in zip(names, (first, second), strict=True):
        if metric == "max_at_k" and not side.outcomes.has_rewards:
            raise InputError(f"{name}: max_at_k needs the key 'reward' in every line")
    pair = _pair(names, first, second)
    if ks is not None:
        ks = sorted({*ks})
    else:
        ks = sorted({*first.ks} & {*second.ks}) or default_ks(pair.responses.tolist())
    results = differences(pair, metric, ks)
    yield from (f"{letter}: {name}" for letter, name in zip("AB", names, strict=True))
    yield from _extent(pair, ks)
    yield ""
    yield from _table(results, metric)
    yield from _most_different(pair, metric, ks, shown)
    if first.is_policy and second.is_policy:
        yield ""
        yield "The errors are about these two policies; `rspo claims` compares methods over seeds."


def _side(
    name: str, load: Callable[[], Experiment], suite: str | None, benchmark: str | None
) -> Side:
    if Path(name).is_file():
        outcomes = read_outcomes(Path(name))
        return Side(outcomes, outcomes.names)
    try:
        experiment = load()
    except InputError as error:
        raise InputError(f"{name}: no such file, and no policy ({error})") from None
    policies = [*experiment.policies, *experiment.study_cells]
    if name not in policies:
        meant = did_you_mean(name, policies, at_most=3, cutoff=0.3)
        config = f"config/{experiment.scale}.yaml"
        raise InputError(f"{name}: no such file, and no policy of {config}; {meant}".rstrip("; "))
    suite = suite or next(iter(experiment.config.data.suites))
    names = experiment.benchmarks_of(suite)
    if benchmark is not None and benchmark not in names:
        raise InputError(f"suite {suite!r} has no benchmark {benchmark!r}; has {', '.join(names)}")
    return _policy(experiment, name, names if benchmark is None else [benchmark])


def _policy(experiment: Experiment, name: str, benchmarks: Sequence[str]) -> Side:
    """The scores of a policy on benchmarks.

    Raises: InputError for scores or problems that are missing or bad.
    """
    from rspo.datasets.contamination import read_texts  # here, because it imports pandas

    scores = {benchmark: policy_scores(experiment, name, benchmark) for benchmark in benchmarks}
    names = [(benchmark, problem) for benchmark in benchmarks for problem in scores[benchmark].ids]
    text_of = {
        (benchmark, problem): text
        for benchmark in benchmarks
        for problem, text in read_texts(
            experiment.problems(benchmark), experiment.data_set(benchmark)
        ).items()
    }
    if len({problem for _, problem in names}) < len(names):  # unique in a benchmark only
        ids = tuple("/".join(both) for both in names)
    else:
        ids = tuple(problem for _, problem in names)
    outcomes = Outcomes(
        ids,
        [values for arrays in scores.values() for values in arrays.correct],
        [values for arrays in scores.values() for values in arrays.rewards],
        tuple(len(arrays.correct) for arrays in scores.values()),
    )
    texts = tuple(text_of.get(both, "") for both in names)
    return Side(outcomes, texts, tuple(experiment.config.evaluation.k))


def _pair(names: Sequence[str], first: Side, second: Side) -> Pair:
    """Both on the problems that they share, in the order of the first.

    Raises: InputError if there is none.
    """
    ids, texts = _shared(first.outcomes.names, second.outcomes.names), (first.texts, second.texts)
    shared = ids or _shared(*texts)
    if not shared:
        raise InputError(
            f"{names[0]} and {names[1]} have no problem in common; "
            f"the first ones are {short(texts[0][0])} and {short(texts[1][0])}"
        )
    one, other = np.array(shared).T
    titles = [
        f"{first.outcomes.names[place]} " * first.is_policy + short(first.texts[place])
        for place in one
    ]
    left_out = len(texts[0]) - len(shared), len(texts[1]) - len({*other.tolist()})
    return Pair(first.outcomes.select(one), second.outcomes.select(other), tuple(titles), left_out)


def _shared(first: Sequence[str], second: Sequence[str]) -> list[tuple[int, int]]:
    """Indices of each problem in both, in the order of the first; of duplicates, the first one."""
    place_in_first = {name: place for place, name in reversed(list(enumerate(first)))}
    place_in_second = {name: place for place, name in reversed(list(enumerate(second)))}
    pairs = [
        (place, place_in_second[name])
        for name, place in place_in_first.items()
        if name in place_in_second
    ]
    return sorted(pairs)


def _extent(pair: Pair, ks: Sequence[int]) -> Iterator[str]:
    """Lines with the numbers of problems and responses, and what is left out."""
    sides = pair.first.responses.tolist(), pair.second.responses.tolist()
    numbers = dict.fromkeys(f"{span(side)} responses" for side in sides)
    yield f"{counted(len(pair.titles))}, {' and '.join(numbers)} each"
    if any(pair.left_out):
        yield f"left out: {counted(pair.left_out[0])} only in A, {pair.left_out[1]} only in B"
    yield from left_out(pair.responses, pair.titles, ks)


def _table(results: Sequence[Difference], metric: Metric) -> Iterator[str]:
    heads = (f"{TITLES[metric]} A", f"{TITLES[metric]} B", "A - B")
    columns = "".join(f"{head:>10}" for head in heads)
    yield f"{'k':>5}{columns}  {'95 % interval':<16}{'p':>8}{'Holm':>8}"
    adjusted = holm([result.p for result in results])
    for result, p in zip(results, adjusted, strict=True):
        low, high = result.interval
        interval = "-" if np.isnan(low) else f"{low:+.3f} to {high:+.3f}"
        values = f"{result.first:>10.3f}{result.second:>10.3f}{result.estimate.value:>+10.3f}"
        yield f"{result.k:>5}{values}  {interval:<16}{_p(result.p)}{_p(p)}"
    yield "interval and p (two-sided): paired over problems; Holm: p adjusted for the number of k"
    least = [result for result in results if result.p_is_least]
    for differing in dict.fromkeys(result.differing for result in least):
        of = [result for result in least if result.differing == differing]
        ks = ", ".join(str(result.k) for result in of)
        p = f"{of[0].p:.2g}"
        yield f"A and B differ at only {counted(differing)} (k = {ks}), so p cannot be below {p}"


def _p(value: float) -> str:
    return f"{'< .001' if value < 0.001 else number(value, 0):>8}"


def _most_different(pair: Pair, metric: Metric, ks: Sequence[int], shown: int) -> Iterator[str]:
    """Lines with the problems of the largest differences, averaged over k, for each of the two."""
    by_k = [pair.first.estimates(metric, k) - pair.second.estimates(metric, k) for k in ks]
    known = np.isfinite(by_k)  # a problem with fewer than k responses has no value
    mean = np.where(known, by_k, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    for better, gains in (("A", mean), ("B", -mean)):
        places = np.argsort(-gains, kind="stable")[: int((gains > ROUNDING).sum())]
        if len(places) and shown:
            yield ""
            yield f"{better} is better at {counted(len(places))}; A - B, averaged over k:"
        for place in places[:shown]:
            counts = " against ".join(
                f"{side.correct[place].sum()} of {side.responses[place]}"
                for side in (pair.first, pair.second)
            )
            yield f"  {mean[place]:+.3f}  {counts} correct  {pair.titles[place]}"
