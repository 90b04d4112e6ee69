"""Where two verifiers differ: how often, and on which responses."""

import csv
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rspo.config import fingerprints
from rspo.config.experiment import Experiment
from rspo.core.errors import InputError
from rspo.core.files import atomic_write
from rspo.core.provenance import write_provenance
from rspo.core.tables import PROBLEMS, SCORES, read_table
from rspo.evaluation.sample import policy_samples
from rspo.rewards.configured import Verify, verifier_inputs, verifier_of

_COLUMNS = (
    *("policy", "benchmark", "verifier_a", "verifier_b", "responses"),
    *("both_correct", "only_a_correct", "only_b_correct", "both_wrong", "agreement", "kappa"),
)
_DISAGREEMENT_COLUMNS = (
    *("policy", "benchmark", "problem_id", "sample_index", "verdict_a", "verdict_b"),
    *("problem", "answers", "response"),
)
Pair = tuple[bool, bool]


def compared(experiment: Experiment) -> list[tuple[str, str]]:
    """Each base policy with each benchmark that it is evaluated on."""
    return [
        (policy, benchmark)
        for policy, suite in experiment.evaluations
        if policy not in experiment.cells
        for benchmark in experiment.benchmarks_of(suite)
    ]


def compared_files(experiment: Experiment, policy: str, benchmark: str) -> list[Path]:
    """The samples and scores tables that hold what is judged again."""
    first = experiment.config.agreement.samples
    return [
        *experiment.sample_files(policy, benchmark, first),
        *experiment.score_files(policy, benchmark, first),
    ]


def write_agreement(experiment: Experiment) -> None:
    """Write tables/agreement.csv and tables/disagreements.csv.

    The first samples of every problem (`agreement.samples`) are judged again, by
    `agreement.against`.

    Raises: InputError if that is the verifier that the scores come from, or tables are missing.
    """
    verifier, against = experiment.config.verifier, experiment.config.agreement.against
    if against == verifier:
        raise InputError(
            f"config/{experiment.scale}.yaml: agreement.against = {against!r} is the verifier of "
            "the scores; name another one"
        )
    tables = experiment.results / "tables"
    counts, differing = [], []
    with verifier_of(experiment, against, tables / "agreement.verdicts.jsonl") as verify:
        for policy, benchmark in compared(experiment):
            rows = list(_judged_twice(experiment, policy, benchmark, verify))
            pairs = Counter((row["correct_a"], row["correct_b"]) for row in rows)
            place = {"policy": policy, "benchmark": benchmark}
            names = {"verifier_a": verifier, "verifier_b": against}
            counts.append(place | names | agreement_of(pairs))
            differing += [place | row for row in rows if row["correct_a"] != row["correct_b"]]
    _write(tables / "agreement.csv", _COLUMNS, counts)
    _write(tables / "disagreements.csv", _DISAGREEMENT_COLUMNS, differing)
    inputs = [
        *verifier_inputs(experiment, against),
        *(
            path
            for policy, benchmark in compared(experiment)
            for path in (
                experiment.problems(benchmark),
                *compared_files(experiment, policy, benchmark),
            )
        ),
    ]
    for name in ("agreement.csv", "disagreements.csv"):
        write_provenance(tables / name, fingerprints.settings(experiment, "agreement"), inputs)


def agreement_of(pairs: Mapping[Pair, int]) -> dict[str, Any]:
    """Counts, share of equal verdicts, and Cohen's kappa = (agreement - chance) / (1 - chance).

    Chance is the agreement of two verifiers that accept as often as these do, independently (Cohen
    1960). Kappa is empty where chance is 1: both accept all, or none.

    Args:
        pairs: how often (verdict of a, verdict of b) came.
    """
    total = sum(pairs.values())
    agreement = (pairs.get((True, True), 0) + pairs.get((False, False), 0)) / total
    accepted_a = (pairs.get((True, True), 0) + pairs.get((True, False), 0)) / total
    accepted_b = (pairs.get((True, True), 0) + pairs.get((False, True), 0)) / total
    chance = accepted_a * accepted_b + (1 - accepted_a) * (1 - accepted_b)
    return {
        "responses": total,
        "both_correct": pairs.get((True, True), 0),
        "only_a_correct": pairs.get((True, False), 0),
        "only_b_correct": pairs.get((False, True), 0),
        "both_wrong": pairs.get((False, False), 0),
        "agreement": agreement,
        "kappa": "" if chance == 1 else (agreement - chance) / (1 - chance),
    }


def _judged_twice(
    experiment: Experiment, policy: str, benchmark: str, verify: Verify
) -> Iterator[dict[str, Any]]:
    """The first samples of a policy, with the verdict of the scores and the other verifier's."""
    first = experiment.config.agreement.samples
    problems = {row["id"]: row for row in read_table(experiment.problems(benchmark), PROBLEMS)}
    samples = policy_samples(experiment, policy, benchmark, first)
    files = experiment.score_files(policy, benchmark, first)
    scores = [row for file in files for row in read_table(file, SCORES)]
    pairs = [
        (sample, score)
        for sample, score in zip(samples, scores, strict=True)
        if sample["sample_index"] < first
    ]
    asked = [problems[sample["problem_id"]] for sample, _ in pairs]
    others = verify(
        [sample["text"] for sample, _ in pairs],
        [problem["answers"] for problem in asked],
        questions=[problem["prompt"][-1]["content"] for problem in asked],
    )
    for (sample, score), problem, other in zip(pairs, asked, others, strict=True):
        yield {
            "problem_id": sample["problem_id"],
            "sample_index": sample["sample_index"],
            "correct_a": score["correct"],
            "correct_b": other.correct,
            "verdict_a": score["verdict"],
            "verdict_b": other.reason,
            "problem": problem["prompt"][-1]["content"],
            "answers": " | ".join(problem["answers"]),
            "response": sample["text"],
        }


def _write(path: Path, columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> None:
    with atomic_write(path) as partial, partial.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, columns, lineterminator="\n", extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
