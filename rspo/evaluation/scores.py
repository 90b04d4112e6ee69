"""Scores of a policy on a benchmark as arrays: the one place that reads them."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
from numpy.typing import NDArray

from rspo.config.experiment import Experiment
from rspo.core.errors import InputError
from rspo.core.tables import SCORES, read_table


@dataclass(frozen=True)
class Scores:
    """Scores of one benchmark, or of several one after the other.

    Problems are in order of their ids within a benchmark, samples in order of their index.
    """

    correct: NDArray[np.bool_]  # [problems, N]
    rewards: NDArray[np.float64]  # [problems, N]
    ids: tuple[str, ...] = ()  # of the problems
    sizes: tuple[int, ...] = ()  # problems of each benchmark; none: all are of one

    @property
    def strata(self) -> tuple[int, ...]:
        """Number of problems of each benchmark."""
        return self.sizes or (len(self.correct),)


def policy_scores(experiment: Experiment, policy: str, benchmark: str) -> Scores:
    """Scores of a policy (cell or base) on a benchmark, all blocks together.

    Raises: InputError for missing or bad scores (`read_scores`).
    """
    return read_scores(*experiment.score_files(policy, benchmark))


def pooled_scores(tables: Mapping[str, Scores], place: object) -> Scores:
    """Every problem of several benchmarks, each counting the same.

    Args:
        place: what the error names.

    Raises: InputError if the benchmarks were sampled differently often.
    """
    counts = {name: table.correct.shape[1] for name, table in tables.items()}
    if len(set(counts.values())) > 1:
        found = ", ".join(f"{count} in {name}" for name, count in counts.items())
        raise InputError(f"{place}: unequal numbers of samples per problem ({found})")
    return Scores(
        np.concatenate([table.correct for table in tables.values()]),
        np.concatenate([table.rewards for table in tables.values()]),
        tuple(problem for table in tables.values() for problem in table.ids),
        tuple(size for table in tables.values() for size in table.strata),
    )


def read_scores(*paths: Path) -> Scores:
    """Scores of a table, parquet or CSV, or of several that hold samples of the same problems.

    Raises: InputError for a file that is not such a table, an empty or NaN value, a sample that
        stands there twice, or problems with different numbers of samples.
    """
    problems: dict[str, dict[int, Mapping[str, Any]]] = {}
    for path in paths:
        check_suffix(path)
        rows = _read_csv(path) if path.suffix == ".csv" else read_table(path, SCORES)
        for number, row in enumerate(rows):
            _check_score(f"{path}, row {number}", row)
            samples = problems.setdefault(row["problem_id"], {})
            if row["sample_index"] in samples:
                raise InputError(
                    f"{path}, row {number}: sample {row['sample_index']} of problem "
                    f"{row['problem_id']!r} stands there twice"
                )
            samples[row["sample_index"]] = row
        _check_counts(path, {problem: len(samples) for problem, samples in problems.items()})
    ordered = [
        [samples[index] for index in sorted(samples)] for _, samples in sorted(problems.items())
    ]
    return Scores(
        np.array([[row["correct"] for row in samples] for samples in ordered], dtype=bool),
        np.array([[row["reward"] for row in samples] for samples in ordered], dtype=np.float64),
        tuple(sorted(problems)),
    )


def _check_score(place: str, row: Mapping[str, Any]) -> None:
    """Raises: InputError for an empty value, or a reward that is no number."""
    for column in ("problem_id", "sample_index", "correct", "reward"):
        if row[column] is None:
            raise InputError(f"{place}: column {column!r} is empty")
    if not np.isfinite(row["reward"]):
        raise InputError(f"{place}: reward is {row['reward']}; must be finite")


def _check_counts(path: Path, counts: Mapping[str, int]) -> None:
    few, many = min(counts, key=counts.__getitem__), max(counts, key=counts.__getitem__)
    if counts[few] != counts[many]:
        raise InputError(
            f"{path}: unequal numbers of samples: {counts[few]} of problem {few!r}, "
            f"{counts[many]} of problem {many!r}; every problem needs the same number"
        )


def check_suffix(path: Path) -> None:
    """Raises: InputError unless a table's name ends in .parquet or .csv."""
    if path.suffix not in (".parquet", ".csv"):
        raise InputError(f"{path}: is {path.suffix or 'nothing'}; allowed: .parquet, .csv")


def _read_csv(path: Path) -> list[dict[str, Any]]:
    if not path.is_file():
        raise InputError(f"{path}: no such file (expected a table of scores)")
    types = pa_csv.ConvertOptions(
        column_types=SCORES.schema, include_columns=SCORES.schema.names, strings_can_be_null=True
    )
    try:
        rows: list[dict[str, Any]] = pa_csv.read_csv(path, convert_options=types).to_pylist()
    except (pa.ArrowException, KeyError) as error:
        raise InputError(f"{path}: not a table of scores: {' '.join(str(error).split())}") from None
    if not rows:
        raise InputError(f"{path}: has no rows; at least one of scores is needed")
    return rows
