"""`rspo answers`: how often responses have an answer, differ, and are all correct."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rspo.config import steps
from rspo.config.experiment import Experiment
from rspo.config.own import OWN_VERIFIERS
from rspo.config.schema import POOLED
from rspo.core.tables import SAMPLES, read_frame, write_csv
from rspo.estimators import distinct_values, pass_hat_k
from rspo.evaluation.score_arrays import ScoreArrays, policy_scores
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
    step, config = steps.answers(experiment), experiment.config

    def work() -> None:
        rows = []
        for policy, suite in experiment.evaluations:
            files = experiment.sample_files(policy, suite)
            read = {
                name: _read(policy_scores(experiment, policy, name), files, name, config.verifier)
                for name in experiment.benchmarks_of(suite)
            }
            # A verifier of the user's own does not say which answer it reads.
            known = config.verifier not in OWN_VERIFIERS
            rows += [[policy, suite, *row] for row in _rows(read, config.evaluation.k, known)]
        write_csv(step.outputs[0], pd.DataFrame(rows, columns=COLUMNS), missing="nan")

    step.run(work, force)


def _rows(read: Mapping[str, _Benchmark], ks: Sequence[int], known: bool) -> Iterator[list[object]]:
    """The rows of a policy on a suite, without their first two columns.

    Args:
        known: whether the answers are known; otherwise their columns are NaN.
    """
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
        for k in sorted(ks):
            right = np.concatenate([pass_hat_k(samples, one.correct, k) for one in benchmarks])
            kinds = np.concatenate([distinct_values(samples, one.counts, k) for one in benchmarks])
            different = _mean(kinds, strata) if known else (np.nan, np.nan)
            yield [*sized, k, *_mean(right, strata), *different]


def _mean(values: Floats, strata: list[int]) -> tuple[float, float]:
    """Mean over problems, and its standard error."""
    return float(values.mean()), float(np.sqrt(stratified_variance(values, strata)))


def _read(
    scores: ScoreArrays, samples: Sequence[Path], benchmark: str, verifier: str
) -> _Benchmark:
    """Args: samples: the tables of all blocks."""
    table = pd.concat([read_frame(path, SAMPLES, benchmark) for path in samples])
    extract = cache(lambda text: extracted_answer(text, verifier))
    answers = table["text"].map(extract).groupby(table["problem_id"])
    counts = [
        sorted(Counter(of_problem.dropna()).values(), reverse=True)
        for _, of_problem in answers  # sorted by id, as the scores are
    ]
    padded = np.zeros((len(counts), max(1, max(map(len, counts)))), dtype=np.int64)
    for row, of_problem in zip(padded, counts, strict=True):
        row[: len(of_problem)] = of_problem
    return _Benchmark(scores.correct.sum(axis=1), padded, scores.correct.shape[1])
