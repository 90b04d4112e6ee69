"""Rows of the problems, samples and scores tables, and the tables of a suite."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from rspo.config.experiment import Experiment
from rspo.core.tables import SAMPLES, SCORES, write_table
from rspo.pipeline import tasks
from rspo.pipeline.task import Task
from tests.support import problem_rows
from tests.support.tasks import attest

Row = dict[str, Any]
RowsOf = Mapping[str, Sequence[Row]]  # by benchmark


def problem(name: str, answers: list[str]) -> Row:
    return problem_rows.problem("linear", 0, f"problem {name}") | {"id": name, "answers": answers}


def sample(name: str, index: int, text: str, tokens: int = 9) -> Row:
    rest = {"tokens": tokens, "finish_reason": "stop", "seed": 0}
    return {"problem_id": name, "sample_index": index, "text": text} | rest


def score(name: str, index: int, correct: bool, reward: float) -> Row:
    verdict = {"verifier": "exact", "verdict": "correct" if correct else "incorrect"}
    return {
        "problem_id": name,
        "sample_index": index,
        "correct": correct,
        "reward": reward,
    } | verdict


def random_scores(seed: int, problems: int = 6, samples: int = 8) -> list[Row]:
    """Scores with a success probability and length-discounted rewards of each problem's own."""
    rng = np.random.default_rng(seed)
    rows = []
    for number in range(problems):
        correct = rng.random(samples) < rng.random()
        rewards = np.where(correct, 1 - 0.5 * rng.integers(1, 19, samples) / 18, 0.0)
        rows += [
            score(f"p{number}", index, bool(correct[index]), float(rewards[index]))
            for index in range(samples)
        ]
    return rows


def write_samples(experiment: Experiment, policy: str, suite: str, rows_of: RowsOf) -> None:
    made = [tasks.sample(experiment, policy, suite, block) for block in experiment.blocks()]
    _write_blocks(experiment, made, SAMPLES, rows_of)


def write_scores(experiment: Experiment, policy: str, suite: str, rows_of: RowsOf) -> None:
    made = [tasks.score(experiment, policy, suite, block) for block in experiment.blocks()]
    _write_blocks(experiment, made, SCORES, rows_of)


def _write_blocks(
    experiment: Experiment, made: Sequence[Task], table: pa.Schema, rows_of: RowsOf
) -> None:
    """Each row in its block's table; samples beyond N are in the last one."""
    blocks: list[list[Row]] = [[] for _ in made]
    for benchmark, rows in rows_of.items():
        for row in rows:
            block = row["sample_index"] // experiment.config.evaluation.block
            blocks[min(block, len(made) - 1)].append({"benchmark": benchmark} | row)
    for step, rows in zip(made, blocks, strict=True):
        write_table(step.outputs[0], table, rows)
        attest([tasks.first_output(step)])
