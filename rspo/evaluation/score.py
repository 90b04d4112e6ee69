"""`rspo score`: the verdict and the reward of each of a policy's samples."""

from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from typing import Any

import numpy as np

from rspo.config import fingerprints, steps
from rspo.config.experiment import Experiment
from rspo.config.schema import Config
from rspo.core.errors import InputError
from rspo.core.provenance import Done
from rspo.core.tables import PROBLEMS, SAMPLES, SCORES, read_table, write_table
from rspo.evaluation.journal import journal_of
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
    step, config = steps.score(experiment, policy, suite, block), experiment.config
    (path,), samples = step.outputs, experiment.samples(policy, suite, block)
    problems = {name: experiment.problems(name) for name in experiment.benchmarks_of(suite)}
    decides = fingerprints.verifier_settings(config, config.verifier)
    verdicts = experiment.verdicts(policy, f"{suite}.{block}")

    def work() -> Done:
        rows = read_table(samples, SAMPLES)
        responses = _responses(problems, samples, rows)
        rewards = [_rewards_if(correct, config, samples, rows) for correct in (True, False)]
        with verifier_of(experiment, config.verifier, verdicts) as verify:
            found = verified(path, responses, verify, decides)
        write_table(path, SCORES, _score_rows(rows, found, *rewards))
        return Done(notes={"verdicts": verdict_counts(found)}, clean_up=journal_of(path).unlink)

    step.run(work, force)


def _responses(problems: Mapping[str, Path], path: Path, samples: Rows) -> Responses:
    """What the verifier reads. Raises: InputError for samples of other problems."""
    by_id = {
        (name, problem["id"]): problem
        for name, file in problems.items()
        for problem in read_table(file, PROBLEMS)
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


def _rewards_if(correct: bool, config: Config, path: Path, samples: Rows) -> list[float]:
    """The reward of each sample if it is correct, or if it is wrong.

    Raises: InputError for samples longer than `sampling.max_response_tokens`.
    """
    try:
        rewards: list[float] = rewards_of(
            config,
            config.evaluation.reward,
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
