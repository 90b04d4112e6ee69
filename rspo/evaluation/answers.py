"""`rspo answers`: how often responses have an answer, differ, and are all correct."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd

from rspo.config import steps
from rspo.config.experiment import Experiment
from rspo.config.names import OWN_VERIFIERS, Metric
from rspo.config.schema import POOLED
from rspo.core.tables import SAMPLES, read_frame, write_csv
from rspo.evaluation.outcomes import OfAnswers, Outcomes
from rspo.evaluation.read_outcomes import suite_scores
from rspo.evaluation.statistics import stratified_variance
from rspo.evaluation.verify_file import extracted_answer

COLUMNS = [
    *("policy", "suite", "benchmark", "problems", "samples", "responses", "without_answer"),
    *("most_common", "k", "pass_hat_k", "pass_hat_k_error", "different", "different_error"),
]


def write_answers(experiment: Experiment, force: bool = False) -> None:
    """Write a row for each policy, benchmark and k, and for all problems of a suite.

    Raises: InputError for samples or scores that are missing or bad.
    """
    step, config = steps.answers(experiment), experiment.config

    def work() -> None:
        # A verifier of the user's own does not say which answer it reads.
        known = config.verifier not in OWN_VERIFIERS
        rows = [
            [policy, suite, *row]
            for policy, suite in experiment.evaluations
            for row in _rows(_with_answers(experiment, policy, suite), config.evaluation.k, known)
        ]
        write_csv(step.outputs[0], pd.DataFrame(rows, columns=COLUMNS), missing="nan")

    step.run(work, force)


def _with_answers(experiment: Experiment, policy: str, suite: str) -> dict[str, Outcomes]:
    """Outcomes of a policy on each benchmark, with the answers that the verifier reads."""
    extract = cache(lambda text: extracted_answer(text, experiment.config.verifier))
    answers = defaultdict[tuple[str, str], list[str | None]](list)
    for file in experiment.sample_files(policy, suite):
        samples = read_frame(file, SAMPLES)
        texts = zip(samples["benchmark"], samples["problem_id"], samples["text"], strict=True)
        for benchmark, problem, text in texts:
            answers[benchmark, problem].append(extract(text))
    return {
        name: replace(outcomes, answers=[answers[name, problem] for problem in outcomes.ids])
        for name, outcomes in suite_scores(experiment, policy, suite).items()
    }


def _rows(read: Mapping[str, Outcomes], ks: Sequence[int], known: bool) -> Iterator[list[object]]:
    """The rows of a policy on a suite, without their first two columns.

    Args:
        known: whether the answers are known; otherwise their columns are NaN.
    """
    for name, one in [*read.items(), (POOLED, Outcomes.pooled(read.values()))]:
        problems, samples = one.correct.shape
        of_answers, different = [np.nan, np.nan], (np.nan, np.nan)
        if known:
            most = one.answer_counts[:, 0].mean()
            of_answers = [int(one.without_answer.sum()), most / samples]
        for k in sorted(ks):
            right = _mean(one, "pass_hat_k", k)
            if known:
                different = _mean(one, "different_answers", k)
            counts = [problems, samples, problems * samples, *of_answers]
            yield [name, *counts, k, *right, *different]


def _mean(outcomes: Outcomes, metric: Metric | OfAnswers, k: int) -> tuple[float, float]:
    """Mean over all problems, and its standard error."""
    values = outcomes.estimates(metric, k)
    return float(values.mean()), float(np.sqrt(stratified_variance(values, outcomes.strata)))
