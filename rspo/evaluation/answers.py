"""`rspo answers`: how often responses have an answer, differ, and are all correct."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rspo.config import steps
from rspo.config.experiment import Experiment
from rspo.config.own import OWN_VERIFIERS
from rspo.config.schema import POOLED
from rspo.core.tables import SAMPLES, read_frame, write_csv
from rspo.estimators import distinct_values, pass_hat_k
from rspo.evaluation.score_arrays import policy_scores
from rspo.evaluation.statistics import Floats, stratified_variance
from rspo.evaluation.verify_file import extracted_answer

COLUMNS = [
    *("policy", "suite", "benchmark", "problems", "samples", "responses", "without_answer"),
    *("most_common", "k", "pass_hat_k", "pass_hat_k_error", "different", "different_error"),
]


@dataclass(frozen=True)
class _Benchmark:
    """A policy's responses to one benchmark, problems sorted by id.

    correct: [problems], number of correct responses.
    counts: [problems, answers], how often each answer was given, the most frequent first.
    samples: responses to each problem.
    """

    correct: NDArray[np.int64]
    counts: NDArray[np.int64]
    samples: int


def write_answers(experiment: Experiment, force: bool = False) -> None:
    """Write a row for each policy, benchmark and k, and for all problems of a suite.

    Raises: InputError for samples or scores that are missing or bad.
    """
    step = steps.answers(experiment)
    if not step.is_due(force):
        return
    rows = [
        [policy, suite, *row]
        for policy, suite in experiment.evaluations
        for row in _rows(experiment, policy, suite)
    ]
    write_csv(experiment.table("answers"), pd.DataFrame(rows, columns=COLUMNS), missing="nan")
    step.record()


def _rows(experiment: Experiment, policy: str, suite: str) -> Iterator[list[object]]:
    """The rows of a policy on a suite, without their first two columns.

    A verifier of the user's own does not say which answer it reads: NaN.
    """
    known = experiment.config.verifier not in OWN_VERIFIERS
    read = {name: _read(experiment, policy, name) for name in experiment.benchmarks_of(suite)}
    sizes = [len(benchmark.correct) for benchmark in read.values()]
    of_each = [*((name, [one]) for name, one in read.items()), (POOLED, list(read.values()))]
    for name, benchmarks in of_each:
        strata = sizes if name == POOLED else [len(benchmarks[0].correct)]
        samples, problems = benchmarks[0].samples, sum(strata)
        responses = problems * samples
        missing = responses - sum(int(one.counts.sum()) for one in benchmarks)
        most = np.concatenate([one.counts[:, 0] for one in benchmarks]).mean() / samples
        of_answers = [missing, most] if known else [np.nan, np.nan]
        sized = [name, problems, samples, responses, *of_answers]
        for k in sorted(experiment.config.evaluation.k):
            right = np.concatenate([pass_hat_k(samples, one.correct, k) for one in benchmarks])
            kinds = np.concatenate([distinct_values(samples, one.counts, k) for one in benchmarks])
            different = _mean(kinds, strata) if known else (np.nan, np.nan)
            yield [*sized, k, *_mean(right, strata), *different]


def _mean(values: Floats, strata: list[int]) -> tuple[float, float]:
    """Mean over problems, and its standard error."""
    return float(values.mean()), float(np.sqrt(stratified_variance(values, strata)))


def _read(experiment: Experiment, policy: str, benchmark: str) -> _Benchmark:
    scores = policy_scores(experiment, policy, benchmark)
    files = experiment.sample_files(policy, experiment.suite_of(benchmark))
    table = pd.concat([read_frame(path, SAMPLES, benchmark) for path in files])
    extract = cache(lambda text: extracted_answer(text, experiment.config.verifier))
    answers = table["text"].map(extract).groupby(table["problem_id"])
    counts = [
        sorted(Counter(of_problem.dropna()).values(), reverse=True)
        for _, of_problem in answers  # sorted by id, as the scores are
    ]
    padded = np.zeros((len(counts), max(1, max(map(len, counts)))), dtype=np.int64)
    for row, of_problem in zip(padded, counts, strict=True):
        row[: len(of_problem)] = of_problem
    return _Benchmark(scores.correct.sum(axis=1), padded, scores.correct.shape[1])
