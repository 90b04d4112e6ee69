"""`rspo score`: the verdict and the reward of each of a policy's samples."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rspo.config import fingerprints
from rspo.config.experiment import Experiment
from rspo.core.errors import InputError
from rspo.core.tables import PROBLEMS, SAMPLES, read_table
from rspo.core.usage import Usage, usage_so_far
from rspo.evaluation.verification import Responses, write_scores
from rspo.rewards import length_discounted

Rows = Sequence[Mapping[str, Any]]


def score(experiment: Experiment, policy: str, benchmark: str, block: int | None = None) -> None:
    """Score a policy's samples on a benchmark.

    The reward is length-discounted for every policy, whatever reward it was trained with: Max@k is
    evaluated on this reward, and Pass@k on `correct`.

    Args:
        block: score only this block of the samples; default: every block.

    Raises: InputError for missing or bad tables, or samples of other problems.
    """
    already: Usage | None = None
    for number in experiment.blocks_to_make(policy, benchmark, block):
        _score_block(experiment, policy, benchmark, number, already)
        already = usage_so_far()


def _score_block(
    experiment: Experiment, policy: str, benchmark: str, block: int, already: Usage | None
) -> None:
    problems_path = experiment.problems(benchmark)
    samples_path = experiment.samples(policy, benchmark, block)
    problems = read_table(problems_path, PROBLEMS)
    samples = read_table(samples_path, SAMPLES)
    _check_samples(samples_path, samples, problems)
    by_id = {problem["id"]: problem for problem in problems}
    problem_of = [by_id[sample["problem_id"]] for sample in samples]
    responses = Responses(
        [(sample["problem_id"], sample["sample_index"]) for sample in samples],
        [sample["text"] for sample in samples],
        [problem["answers"] for problem in problem_of],
        [problem["prompt"][-1]["content"] for problem in problem_of],
        _rewards_if_correct(experiment, samples_path, samples),
    )
    try:
        write_scores(
            experiment.scores(policy, benchmark, block),
            responses,
            experiment.config.verifier,
            experiment,
            experiment.verdicts(policy, f"{benchmark}/{block}"),
            fingerprints.settings(experiment, "score"),
            [problems_path, samples_path],
            already,
        )
    except InputError as error:
        raise InputError(f"{policy} on {benchmark}: {error}") from None


def _rewards_if_correct(experiment: Experiment, path: Path, samples: Rows) -> list[float]:
    """The reward of each sample if it is correct.

    Raises: InputError for samples longer than `sampling.max_response_tokens`.
    """
    try:
        rewards: list[float] = length_discounted(
            [True] * len(samples),
            [sample["tokens"] for sample in samples],
            experiment.config.sampling.max_response_tokens,
            experiment.config.rewards.length_discount,
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
