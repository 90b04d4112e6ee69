"""`rspo score`: the verdict and the reward of each of a policy's samples."""

from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from typing import Any

import numpy as np

from rspo.config import fingerprints, steps
from rspo.config.experiment import Experiment
from rspo.core.errors import InputError
from rspo.core.tables import PROBLEMS, SAMPLES, SCORES, read_table, write_table
from rspo.evaluation.verification import Responses, verdict_counts, verified
from rspo.rewards import Verdict
from rspo.rewards.configured import rewards_of, verifier_of

Rows = Sequence[Mapping[str, Any]]


def score(
    experiment: Experiment, policy: str, suite: str, block: int = 0, force: bool = False
) -> None:
    """Write one scores table of a policy: a row for each sample of the suite and block.

    The reward is `evaluation.reward` of the config for every policy, whatever reward it was trained
    with: Max@k is evaluated on this reward, and Pass@k on `correct`. A killed run resumes from its
    journal.

    Args:
        force: whether to replace a table of other settings.

    Raises: InputError for missing or bad tables, or samples of other problems.
    """
    experiment.require_block(policy, suite, block)
    step = steps.score(experiment, policy, suite, block)
    if not step.is_due(force):
        return
    verifier = experiment.config.verifier
    with step.locked():
        if not force and step.is_made():  # by the process that held the lock
            return
        samples = experiment.samples(policy, suite, block)
        rows = read_table(samples, SAMPLES)
        responses = _responses(experiment, suite, samples, rows)
        decides = fingerprints.verifier_settings(experiment, verifier)
        rewards = [_rewards_if(correct, experiment, samples, rows) for correct in (True, False)]
        path = experiment.scores(policy, suite, block)
        with (
            verifier_of(
                experiment, verifier, experiment.verdicts(policy, f"{suite}.{block}")
            ) as verify,
            verified(path, responses, verify, decides) as verdicts,
        ):
            write_table(path, SCORES, _score_rows(rows, verdicts, *rewards))
            step.record(notes={"verdicts": verdict_counts(verdicts)})


def _responses(experiment: Experiment, suite: str, path: Path, samples: Rows) -> Responses:
    """What the verifier reads. Raises: InputError for samples of other problems."""
    by_id = {
        (name, problem["id"]): problem
        for name in experiment.benchmarks_of(suite)
        for problem in read_table(experiment.problems(name), PROBLEMS)
    }
    _check_samples(path, samples, by_id.keys())
    problem_of = [by_id[sample["benchmark"], sample["problem_id"]] for sample in samples]
    return Responses(
        [sample["text"] for sample in samples],
        [problem["answers"] for problem in problem_of],
        [problem["prompt"][-1]["content"] for problem in problem_of],
    )


def _score_rows(
    samples: Rows, verdicts: Sequence[Verdict], if_correct: list[float], if_wrong: list[float]
) -> list[dict[str, Any]]:
    """Rows of the scores table, with the reward of a correct response or that of a wrong one."""
    return [
        {
            "benchmark": sample["benchmark"],
            "problem_id": sample["problem_id"],
            "sample_index": sample["sample_index"],
            "correct": verdict.correct,
            "verifier": verdict.verifier,
            "verdict": verdict.reason,
            "reward": reward if verdict.correct else otherwise,
        }
        for sample, verdict, reward, otherwise in zip(
            samples, verdicts, if_correct, if_wrong, strict=True
        )
    ]


def _rewards_if(correct: bool, experiment: Experiment, path: Path, samples: Rows) -> list[float]:
    """The reward of each sample if it is correct, or if it is wrong.

    Raises: InputError for samples longer than `sampling.max_response_tokens`.
    """
    try:
        rewards: list[float] = rewards_of(
            experiment.config,
            experiment.config.evaluation.reward,
            np.full(len(samples), correct),
            [sample["tokens"] for sample in samples],
            lambda: [sample["text"] for sample in samples],
        ).tolist()
    except InputError as error:
        raise InputError(f"{path}: {error} (sampling.max_response_tokens)") from None
    return rewards


def _check_samples(path: Path, samples: Rows, expected: Set[tuple[str, str]]) -> None:
    """Raises: InputError for an empty value, an unknown problem, or a problem without samples."""
    for row, sample in enumerate(samples):
        empty = [name for name in SAMPLES.schema.names if sample[name] is None]
        if empty:
            raise InputError(f"{path}, row {row}: column {empty[0]!r} is empty; it needs a value")
    sampled = {(sample["benchmark"], sample["problem_id"]) for sample in samples}
    for ids, what in (
        (sampled - expected, "are not in the benchmark"),
        (expected - sampled, "have no samples"),
    ):
        if ids:
            benchmark, first = min(ids)
            raise InputError(
                f"{path}: {len(ids)} problems {what}, the first {first!r} of {benchmark}; "
                "sample again"
            )
