"""Outcomes of a policy's scores, and of verified responses in any file. Imports no pandas."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rspo.config.experiment import Experiment
from rspo.core.errors import InputError
from rspo.core.tables import PROBLEMS, SAMPLES, SCORES, read_frame
from rspo.evaluation.outcomes import Outcomes
from rspo.formats.rows import Row, rows_of
from rspo.formats.scores import is_score, read_score
from rspo.formats.verdicts import read_verdict
from rspo.formats.verified_response import VerifiedResponse, with_values

if TYPE_CHECKING:
    import pandas as pd

_SAMPLE = ["problem_id", "sample_index"]
_COLUMNS = ["benchmark", "problem_id", "sample_index", "correct", "reward"]
_OUTCOMES = pa.schema([SCORES.field(name) for name in _COLUMNS])


def suite_scores(experiment: Experiment, policy: str, suite: str) -> dict[str, Outcomes]:
    """Outcomes of a policy on each benchmark of a suite, all blocks together.

    Problems are sorted by id, samples by index.
    """
    import pandas as pd

    paths = experiment.score_files(policy, suite)
    frame = pd.concat([read_frame(path, _OUTCOMES) for path in paths])
    benchmarks = dict(iter(frame.sort_values("sample_index", kind="stable").groupby("benchmark")))
    result = {}
    for name in experiment.benchmarks_of(suite):
        rows = benchmarks[name]
        problem, ids = pd.factorize(rows["problem_id"], sort=True)
        known = bool(rows["reward"].notna().all())  # not those of a study's evidence
        result[name] = Outcomes.of_rows(
            ids, problem, rows["correct"], rows["reward"], has_rewards=known
        )
    return result


def scored_samples(experiment: Experiment, policy: str, benchmark: str) -> "pd.DataFrame":
    """A row for each sample, in file order, with the columns of SAMPLES, SCORES and PROBLEMS."""
    import pandas as pd

    suite = experiment.suite_of(benchmark)
    sample_files = experiment.sample_files(policy, suite)
    score_files = experiment.score_files(policy, suite)
    samples, scores = (
        pd.concat([read_frame(file, table, benchmark) for file in files], ignore_index=True)
        for files, table in ((sample_files, SAMPLES), (score_files, SCORES))
    )
    problems = read_frame(experiment.files.problems(benchmark), PROBLEMS).rename(
        columns={"id": "problem_id"}
    )
    joined = samples.drop(columns="benchmark").merge(
        scores.drop(columns="benchmark"), how="left", on=_SAMPLE, validate="one_to_one"
    )
    return joined.merge(problems, how="left", on="problem_id")


def read_outcomes(path: Path) -> Outcomes:
    """Outcomes of verified responses: JSON lines, .csv or .parquet, a response a row.

    Rows have the layout of `rspo.formats.verdicts` or of `rspo.formats.scores`. A response without
    a reward has the reward 1 if it is correct, else 0. Problems and responses are in the order of
    the file; those of a scores table are sorted by problem and sample index.

    Raises: InputError for a file without rows, and for a row that is invalid or a duplicate.
    """
    table: dict[tuple[str, int], VerifiedResponse] = {}
    for row in rows_of(path):
        response = _read_row(with_values(row) if path.suffix == ".csv" else row)
        number = len(table) if response.sample_index is None else response.sample_index
        sample = (response.problem, number)
        if sample in table:
            raise InputError(f"{row}: sample {number} of problem {sample[0]!r} is duplicated")
        table[sample] = response
    if not table:
        raise InputError(f"{path}: has no rows; at least one verified response is needed")
    responses = list(table.values())
    if all(response.sample_index is not None for response in responses):
        responses = [table[sample] for sample in sorted(table)]
    return _outcomes(responses)


def _read_row(row: Row) -> VerifiedResponse:
    return read_score(row) if is_score(row) else read_verdict(row)


def _outcomes(responses: Sequence[VerifiedResponse]) -> Outcomes:
    index_of: dict[str, int] = {}
    problem = [index_of.setdefault(response.problem, len(index_of)) for response in responses]
    rewards = []
    for response in responses:
        rewards.append(response.correct if response.reward is None else response.reward)
    return Outcomes.of_rows(
        index_of,
        np.array(problem),
        [response.correct for response in responses],
        rewards,
        has_rewards=all(response.reward is not None for response in responses),
    )
