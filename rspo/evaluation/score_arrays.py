"""Read scores tables into arrays of shape [problems, N]."""

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
from numpy.typing import NDArray

from rspo.config.experiment import Experiment
from rspo.core.errors import InputError
from rspo.core.tables import SCORES, TableFormat, read_frame

if TYPE_CHECKING:
    import pandas as pd

# Tables of a user need no benchmark.
_ANY_SCORES = TableFormat(
    SCORES.name,
    pa.schema([field for field in SCORES.schema if field.name != "benchmark"]),
)


@dataclass(frozen=True)
class ScoreArrays:
    """Scores of one benchmark, or of several one after the other.

    Problems are sorted by id within a benchmark, samples by index.

    correct, rewards: [problems, N].
    ids: problem ids.
    sizes: number of problems of each benchmark; empty for a single one.
    """

    correct: NDArray[np.bool_]
    rewards: NDArray[np.float64]
    ids: tuple[str, ...] = ()
    sizes: tuple[int, ...] = ()

    @property
    def strata(self) -> tuple[int, ...]:
        """Number of problems of each benchmark."""
        return self.sizes or (len(self.correct),)


def policy_scores(experiment: Experiment, policy: str, benchmark: str) -> ScoreArrays:
    """Scores of a policy (cell or base) on a benchmark, all blocks together.

    Raises: InputError for missing or bad scores (`read_scores`).
    """
    suite = experiment.suite_of(benchmark)
    return read_scores(*experiment.score_files(policy, suite), benchmark=benchmark)


def pooled_scores(scores: Mapping[str, ScoreArrays], location: object) -> ScoreArrays:
    """Concatenate benchmarks, so that every problem counts the same.

    Args:
        location: named in the error.

    Raises: InputError if the benchmarks have different numbers of samples per problem.
    """
    counts = {name: arrays.correct.shape[1] for name, arrays in scores.items()}
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{count} in {name}" for name, count in counts.items())
        raise InputError(f"{location}: unequal numbers of samples per problem ({listed})")
    return ScoreArrays(
        np.concatenate([arrays.correct for arrays in scores.values()]),
        np.concatenate([arrays.rewards for arrays in scores.values()]),
        tuple(problem for arrays in scores.values() for problem in arrays.ids),
        tuple(size for arrays in scores.values() for size in arrays.strata),
    )


def read_scores(*paths: Path, benchmark: str | None = None) -> ScoreArrays:
    """Scores of one table, Parquet or CSV, or of several with samples of the same problems.

    Args:
        benchmark: only the rows of this benchmark, of tables that have the column.

    Raises: InputError as `read_score_frame`, and for problems with different numbers of samples.
    """
    frame = read_score_frame(*paths, benchmark=benchmark)
    for place, part in frame.groupby("place", sort=False):
        _check_counts(place, part)
    _check_counts(paths[0].parent, frame)
    by_problem = frame.sort_values(["problem_id", "sample_index"])
    ids = tuple(by_problem["problem_id"].unique())
    return ScoreArrays(
        by_problem["correct"].to_numpy(dtype=bool).reshape(len(ids), -1),
        by_problem["reward"].to_numpy(dtype=np.float64).reshape(len(ids), -1),
        ids,
    )


def read_score_frame(*paths: Path, benchmark: str | None = None) -> "pd.DataFrame":
    """The rows of one or several scores tables, Parquet or CSV, indexed by `place` and `row`.

    place: the path, and the benchmark whose rows are counted.

    Raises: InputError for a file that is not a scores table, an empty or NaN value, or a duplicated
        sample.
    """
    import pandas as pd

    frames = {}
    for path in paths:
        check_suffix(path)
        place = str(path) if benchmark is None else f"{path}, {benchmark}"
        is_csv = path.suffix == ".csv"
        frames[place] = _read_csv(path) if is_csv else read_frame(path, _ANY_SCORES, benchmark)
        _check_values(place, frames[place])
    frame = pd.concat(frames, names=["place", "row"])
    duplicated = frame[frame.duplicated(["problem_id", "sample_index"])]
    if len(duplicated):
        (place, row), sample = duplicated.index[0], duplicated.iloc[0]
        raise InputError(
            f"{place}, row {row}: sample {sample['sample_index']} of problem "
            f"{sample['problem_id']!r} is duplicated"
        )
    return frame


def _check_values(place: str, frame: "pd.DataFrame") -> None:
    """Raises: InputError for an empty value or an infinite reward."""
    for column in ("problem_id", "sample_index", "correct"):
        if (empty := frame[column].isna()).any():
            raise InputError(f"{place}, row {empty.argmax()}: column {column!r} is empty")
    if not (finite := np.isfinite(frame["reward"])).all():
        row = finite.argmin()
        raise InputError(f"{place}, row {row}: reward is {frame['reward'][row]}; must be finite")


def _check_counts(place: object, frame: "pd.DataFrame") -> None:
    """Raises: InputError if problems have different numbers of samples."""
    counts = frame.groupby("problem_id", sort=False).size()
    few, many = counts.idxmin(), counts.idxmax()
    if counts[few] != counts[many]:
        raise InputError(
            f"{place}: unequal numbers of samples: {counts[few]} of problem {few!r}, "
            f"{counts[many]} of problem {many!r}; every problem needs the same number"
        )


def check_suffix(path: Path) -> None:
    """Raises: InputError unless a table's name ends in .parquet or .csv."""
    if path.suffix not in (".parquet", ".csv"):
        raise InputError(f"{path}: has the suffix {path.suffix!r}; allowed: .parquet, .csv")


def _read_csv(path: Path) -> "pd.DataFrame":
    if not path.is_file():
        raise InputError(f"{path}: no such file (expected a table of scores)")
    with path.open(newline="", encoding="utf-8", errors="replace") as lines:
        header = next(csv.reader(lines), [])
    if missing := [name for name in _ANY_SCORES.schema.names if name not in header]:
        raise InputError(
            f"{path}: not a table of scores: lacks the columns {', '.join(missing)} "
            "(JSON lines need the keys `problem` and `correct` only)"
        )
    types = pa_csv.ConvertOptions(
        column_types=_ANY_SCORES.schema,
        include_columns=_ANY_SCORES.schema.names,
        strings_can_be_null=True,
    )
    try:
        table = pa_csv.read_csv(path, convert_options=types)
    except (pa.ArrowException, KeyError) as error:
        raise InputError(f"{path}: not a table of scores: {' '.join(str(error).split())}") from None
    if table.num_rows == 0:
        raise InputError(f"{path}: has no rows; expected at least one of scores")
    return table.to_pandas()
