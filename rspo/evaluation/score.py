"""`rspo score`: the verdict and the reward of each of a policy's samples."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from rspo.config import fingerprints
from rspo.config.experiment import Experiment
from rspo.core.errors import InputError
from rspo.core.tables import PROBLEMS, SAMPLES, read_table
from rspo.core.usage import Usage, usage_so_far
from rspo.evaluation.suite_tables import keep, make_outdated
from rspo.evaluation.verification import Responses, write_scores
from rspo.rewards.configured import rewards_of, verifier_inputs, verifier_of

Rows = Sequence[Mapping[str, Any]]


def score(experiment: Experiment, policy: str, suite: str, benchmark: str | None = None) -> None:
    """Write the scores tables of a policy on a suite that are missing or outdated.

    The reward is `rewards.evaluated` of the config for every policy, whatever reward it was trained
    with: Max@k is evaluated on this reward, and Pass@k on `correct`.

    Args:
        benchmark: score only this benchmark of the suite.

    Raises: InputError for missing or bad tables, or samples of other problems.
    """
    tables = experiment.tables_of(policy, suite, benchmark)
    paths = {table: experiment.scores(policy, *table) for table in tables}
    settings = fingerprints.settings(experiment, "score")
    for path in paths.values():
        experiment.require_replaceable(path, settings)
    scored = make_outdated(
        paths,
        settings,
        # The settings contain the judge's model and prompt.
        lambda table: [experiment.problems(table[0]), experiment.samples(policy, *table)],
        partial(_score, experiment, policy, suite),
    )
    print(f"{policy} on {suite}: scored {scored} of {len(tables)} tables, others up to date")


def _score(
    experiment: Experiment, policy: str, suite: str, tables: Sequence[tuple[str, int]]
) -> None:
    """Start the verifier once, and write these scores tables."""
    verifier, verdicts = experiment.config.verifier, experiment.verdicts(policy, suite)
    judge = verifier_inputs(experiment, verifier)
    already: Usage | None = None  # the first table includes the time to start the verifier
    with verifier_of(experiment, verifier, verdicts) as verify:
        for benchmark, block in tables:
            path = experiment.scores(policy, benchmark, block)
            try:
                write_scores(
                    path,
                    _responses(experiment, policy, benchmark, block),
                    verify,
                    fingerprints.verifier_settings(experiment, verifier),
                    fingerprints.settings(experiment, "score"),
                    [
                        experiment.problems(benchmark),
                        experiment.samples(policy, benchmark, block),
                        *judge,
                    ],
                    already,
                )
            except InputError as error:
                raise InputError(f"{policy} on {benchmark}: {error}") from None
            keep(path)
            already = usage_so_far()


def _responses(experiment: Experiment, policy: str, benchmark: str, block: int) -> Responses:
    path = experiment.samples(policy, benchmark, block)
    problems = read_table(experiment.problems(benchmark), PROBLEMS)
    samples = read_table(path, SAMPLES)
    _check_samples(path, samples, problems)
    by_id = {problem["id"]: problem for problem in problems}
    problem_of = [by_id[sample["problem_id"]] for sample in samples]
    return Responses(
        [(sample["problem_id"], sample["sample_index"]) for sample in samples],
        [sample["text"] for sample in samples],
        [problem["answers"] for problem in problem_of],
        [problem["prompt"][-1]["content"] for problem in problem_of],
        _rewards_if(True, experiment, path, samples),
        _rewards_if(False, experiment, path, samples),
    )


def _rewards_if(correct: bool, experiment: Experiment, path: Path, samples: Rows) -> list[float]:
    """The reward of each sample if it is correct, or if it is wrong.

    Raises: InputError for samples longer than `sampling.max_response_tokens`.
    """
    try:
        rewards: list[float] = rewards_of(
            experiment.config,
            experiment.config.rewards.evaluated,
            np.full(len(samples), correct),
            [sample["tokens"] for sample in samples],
            lambda: [sample["text"] for sample in samples],
        ).tolist()
    except InputError as error:
        raise InputError(f"{path}: {error} (sampling.max_response_tokens)") from None
    return rewards


def _check_samples(path: Path, samples: Rows, problems: Rows) -> None:
    """Raises: InputError for an empty value, an unknown problem, or a problem without samples."""
    for row, sample in enumerate(samples):
        empty = [name for name in SAMPLES.schema.names if sample[name] is None]
        if empty:
            raise InputError(f"{path}, row {row}: column {empty[0]!r} is empty; it needs a value")
    expected = {problem["id"] for problem in problems}
    sampled = {sample["problem_id"] for sample in samples}
    for ids, what in (
        (sampled - expected, "are not in the benchmark"),
        (expected - sampled, "have no samples"),
    ):
        if ids:
            raise InputError(
                f"{path}: {len(ids)} problems {what}, the first {min(ids)!r}; sample again"
            )
