"""Read outcomes from a policy's tables of scores, or from any file of verified responses.

Importing this module does not import pandas, so that short commands start quickly.
"""

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

# The columns that identify a sample of a policy on a benchmark.
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
    by_index = frame.sort_values("sample_index", kind="stable")
    benchmarks = dict(iter(by_index.groupby("benchmark")))
    result = {}
    for name in experiment.benchmarks_of(suite):
        rows = benchmarks[name]
        problem, ids = pd.factorize(rows["problem_id"], sort=True)
        # Scores that were restored from evidence have NaN for rewards that it does not keep.
        has_rewards = bool(rows["reward"].notna().all())
        result[name] = Outcomes.of_rows(
            ids, problem, rows["correct"], rows["reward"], has_rewards=has_rewards
        )
    return result


def scored_samples(experiment: Experiment, policy: str, benchmark: str) -> "pd.DataFrame":
    """A row for each sample of a policy on a benchmark, in the order of the files of samples.

    It has the columns of SAMPLES, SCORES and PROBLEMS; the problem's `id` is `problem_id`.
    """
    import pandas as pd

    suite = experiment.suite_of(benchmark)
    sample_files = experiment.sample_files(policy, suite)
    score_files = experiment.score_files(policy, suite)
    sample_tables = [read_frame(file, SAMPLES, benchmark) for file in sample_files]
    score_tables = [read_frame(file, SCORES, benchmark) for file in score_files]
    samples = pd.concat(sample_tables, ignore_index=True)
    scores = pd.concat(score_tables, ignore_index=True)
    problems = read_frame(experiment.files.problems(benchmark), PROBLEMS).rename(
        columns={"id": "problem_id"}
    )
    joined = samples.drop(columns="benchmark").merge(
        scores.drop(columns="benchmark"), how="left", on=_SAMPLE, validate="one_to_one"
    )
    return joined.merge(problems, how="left", on="problem_id")


def read_outcomes(path: Path) -> Outcomes:
    """Outcomes of verified responses in a file of JSON lines, .csv or .parquet.

    Each row is a response, in the layout of `rspo.formats.verdicts` or of `rspo.formats.scores`. A
    response without a reward has the reward 1 if it is correct, else 0. Problems and responses are
    in the order of the file. If every row has a sample index, as in a table of scores, they are
    sorted by problem and index instead.

    Raises: InputError for a file without rows, and for a row that is invalid or a duplicate.
    """
    table: dict[tuple[str, int], VerifiedResponse] = {}
    for row in rows_of(path):
        response = _read_row(with_values(row) if path.suffix == ".csv" else row)
        # Without an index, the place in the file tells responses to the same problem apart.
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
    """The response of a row in either layout."""
    return read_score(row) if is_score(row) else read_verdict(row)


def _outcomes(responses: Sequence[VerifiedResponse]) -> Outcomes:
    """The outcomes of responses, with problems in the order in which they first appear."""
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
