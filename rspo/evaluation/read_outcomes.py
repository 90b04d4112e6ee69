"""Read outcomes: of a policy's scores, and of anybody's verified responses. Imports no pandas."""

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from rspo.config.experiment import Experiment
from rspo.core.errors import InputError
from rspo.core.tables import PROBLEMS, SAMPLES, SCORES, read_frame
from rspo.datasets.own_file import Row, rows_of
from rspo.evaluation.outcomes import Outcomes

if TYPE_CHECKING:
    import pandas as pd

_SAMPLE = ["problem_id", "sample_index"]
_COLUMNS = ["benchmark", *_SAMPLE, "correct", "reward"]
_OUTCOMES = pa.schema([SCORES.field(name) for name in _COLUMNS])
_VERDICTS_IN_CSV = {"true": True, "1": True, "false": False, "0": False}


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
    problems = read_frame(experiment.problems(benchmark), PROBLEMS).rename(
        columns={"id": "problem_id"}
    )
    joined = samples.drop(columns="benchmark").merge(
        scores.drop(columns="benchmark"), how="left", on=_SAMPLE, validate="one_to_one"
    )
    return joined.merge(problems, how="left", on="problem_id")


def read_outcomes(path: Path) -> Outcomes:
    """Outcomes of verified responses: JSON lines, .csv or .parquet, a response a row.

    A row has the keys `problem` (text), `correct` (true or false, or 1 or 0) and optionally
    `reward` (default: 1 if correct, else 0). Problems and responses are in the order of the file;
    in a scores table, which has the keys `problem_id` and `sample_index` instead of `problem`, they
    are sorted by both.
    """
    table: dict[tuple[str, int], dict[str, Any]] = {}
    is_text = path.suffix == ".csv"
    for row in rows_of(path):
        values = _values(replace(row, values=_from_text(row.values)) if is_text else row)
        sample = values["problem"], values.get("sample_index", len(table))
        if sample in table:
            raise InputError(f"{row}: sample {sample[1]} of problem {sample[0]!r} is duplicated")
        table[sample] = values
    if not table:
        raise InputError(f"{path}: has no rows; at least one verified response is needed")
    rows = list(table.values())
    if all("sample_index" in row for row in rows):
        rows = [table[sample] for sample in sorted(table)]
    index: dict[str, int] = {}
    problem = [index.setdefault(row["problem"], len(index)) for row in rows]
    return Outcomes.of_rows(
        index,
        np.array(problem),
        [row["correct"] for row in rows],
        [row.get("reward", row["correct"]) for row in rows],
        has_rewards=all("reward" in row for row in rows),
    )


def _from_text(row: Mapping[str, str]) -> dict[str, Any]:
    """A row of a CSV file, which has text only, with verdict and numbers; the rest stays text."""
    result: dict[str, Any] = dict(row)
    if "correct" in row:
        result["correct"] = _VERDICTS_IN_CSV.get(row["correct"].lower(), row["correct"])
    for key, number in (("reward", float), ("sample_index", int)):
        with suppress(KeyError, ValueError):
            result[key] = number(row[key])
    return result


def _values(row: Row) -> dict[str, Any]:
    """Problem, verdict and, where the row has them, sample index and reward."""
    hint = " (`rspo verify` makes a file with verdicts from responses)"
    is_score = "problem_id" in row.values and "problem" not in row.values
    name = "problem_id" if is_score else "problem"
    problem, correct = row.value(name, hint), row.value("correct", hint)
    if not isinstance(problem, str | int):
        raise row.refuse(name, "text")
    if correct not in (0, 1):
        raise row.refuse("correct", "true or false, or 1 or 0")
    values: dict[str, Any] = {"problem": str(problem), "correct": bool(correct)}
    if is_score:
        values["sample_index"] = row.value("sample_index", hint)
        if not isinstance(values["sample_index"], int):
            raise row.refuse("sample_index", "a whole number")
    if "reward" in row.values:
        reward = values["reward"] = row.values["reward"]
        is_number = isinstance(reward, int | float) and not isinstance(reward, bool)
        if not is_number or not math.isfinite(reward):
            raise row.refuse("reward", "a finite number")
    return values
