"""`rspo curves`: Pass@k and Max@k of a policy on each benchmark of a suite and on all together."""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
from numpy.typing import NDArray

from rspo.config import POOLED
from rspo.errors import InputError
from rspo.evaluation.estimators import (
    Floats,
    max_at_k,
    max_at_k_variance,
    pass_at_k,
    pass_at_k_variance,
)
from rspo.experiment import Experiment
from rspo.files import whole, write_provenance
from rspo.tables import CURVES, SCORES, read_table, write_table

RESAMPLES, SEED = 1000, 0  # of a bare scores file, which has no config


@dataclass(frozen=True)
class Scores:
    """Scores of one benchmark: problems in order of their ids, samples in order of their index."""

    correct: NDArray[np.bool_]  # [problems, N]
    rewards: Floats  # [problems, N]


def curves(experiment: Experiment, policy: str, suite: str) -> None:
    """Write the curves of a policy: a row for each benchmark (and "pooled"), metric and k.

    Raises: InputError for missing or bad scores, or fewer samples than the largest k.
    """
    experiment.model_of(policy)  # an error for a name that the config does not have
    benchmarks = experiment.benchmarks_of(suite)
    scores = {name: policy_scores(experiment, policy, name) for name in benchmarks}
    scores[POOLED] = _pooled(scores, experiment.folder(policy))
    config = experiment.config.evaluation
    rows = [
        {"cell": policy, "benchmark": name} | row
        for name, table in scores.items()
        for row in curve(table, config.k, config.resamples, config.seed)
    ]
    path = experiment.curves(policy, suite)
    write_table(path, CURVES, rows)
    inputs = [file for name in benchmarks for file in experiment.score_files(policy, name)]
    write_provenance(path, experiment.settings("curves"), inputs)


def curves_of_scores(
    scores: Path,
    output: Path,
    k: Sequence[int] | None = None,
    resamples: int = RESAMPLES,
    seed: int = SEED,
) -> None:
    """Write the curves of a bare scores table; both files parquet, or CSV if named .csv.

    Args:
        k: default 1, 2, 4, ... up to half of N, so that every error can be estimated.

    Raises: InputError for bad scores, another suffix, or a k that they do not allow.
    """
    _check_suffix(output)
    table = read_scores(scores)
    name = scores.stem
    if k is None:
        half = table.correct.shape[1] // 2
        k = [2**power for power in range(max(half, 1).bit_length())]
    try:
        found = curve(table, k, resamples, seed)
    except InputError as error:
        raise InputError(f"{scores}: {error}") from None
    rows = [{"cell": name, "benchmark": name} | row for row in found]
    if output.suffix == ".csv":
        _write_csv(output, rows)
    else:
        write_table(output, CURVES, rows)
    settings = {"k": list(k), "resamples": resamples, "seed": seed}
    write_provenance(output, settings, inputs=[scores])


# --- statistics -----------------------------------------------------------------------------------


def curve(scores: Scores, ks: Sequence[int], resamples: int, seed: int) -> list[dict[str, Any]]:
    """Estimates with errors of both metrics at each k: rows of CURVES without cell and benchmark.

    error_within is the standard error of the mean over these very problems, from new samples
    alone; NaN if 2k > N. error_total is that over problems drawn anew from their population. The
    interval is the middle 95 % of the mean over resampled problems. Samples are never resampled
    within a problem: that would centre Pass@k on 1-(1-c/N)^k.

    Raises: InputError for a k outside 1 .. N.
    """
    problems, samples = scores.correct.shape
    right = scores.correct.sum(axis=1)
    chosen = resampled_problems(problems, resamples, seed)
    rows = []
    for metric in ("pass_at_k", "max_at_k"):
        for k in ks:
            if metric == "pass_at_k":
                estimates = pass_at_k(samples, right, k)
                variances = pass_at_k_variance(samples, right, k)
            else:
                estimates = max_at_k(scores.rewards, k)
                variances = max_at_k_variance(scores.rewards, k)
            low, high = np.quantile(estimates[chosen].mean(axis=1), (0.025, 0.975))
            rows.append(
                {
                    "metric": metric,
                    "k": k,
                    "estimate": estimates.mean(),
                    "error_within": np.sqrt(variances.sum()) / problems,
                    "error_total": _standard_error(estimates),
                    "low": low,
                    "high": high,
                    "problems": problems,
                    "samples": samples,
                }
            )
    return rows


def resampled_problems(problems: int, resamples: int, seed: int) -> NDArray[np.int64]:
    """Indices of problems drawn with replacement, of shape [resamples, problems].

    They depend on nothing else, so any two policies are resampled alike and the differences
    between them are paired.
    """
    return np.random.default_rng(seed).integers(problems, size=(resamples, problems))


def _standard_error(estimates: Floats) -> float:
    """Of the mean; NaN for a single problem, which says nothing about others."""
    if len(estimates) < 2:
        return float("nan")
    return float(estimates.std(ddof=1) / np.sqrt(len(estimates)))


def _pooled(scores: Mapping[str, Scores], place: Path) -> Scores:
    """Every problem of all benchmarks, each counting the same.

    Raises: InputError if the benchmarks were sampled differently often.
    """
    counts = {name: table.correct.shape[1] for name, table in scores.items()}
    if len(set(counts.values())) > 1:
        found = ", ".join(f"{count} in {name}" for name, count in counts.items())
        raise InputError(f"{place}: unequal numbers of samples per problem ({found})")
    return Scores(
        np.concatenate([table.correct for table in scores.values()]),
        np.concatenate([table.rewards for table in scores.values()]),
    )


# --- files ----------------------------------------------------------------------------------------


def policy_scores(experiment: Experiment, policy: str, benchmark: str) -> Scores:
    """Scores of a policy on a benchmark, all blocks together.

    Raises: InputError as `read_scores` does.
    """
    return read_scores(*experiment.score_files(policy, benchmark))


def read_scores(*paths: Path) -> Scores:
    """Scores of a table, parquet or CSV, or of several that hold samples of the same problems.

    Raises: InputError for a file that is not such a table, an empty or NaN value, a sample that
        stands there twice, or problems with different numbers of samples.
    """
    problems: dict[str, dict[int, Mapping[str, Any]]] = {}
    for path in paths:
        _check_suffix(path)
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


def _check_suffix(path: Path) -> None:
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


def _write_csv(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    with whole(path) as partial, partial.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, CURVES.schema.names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
