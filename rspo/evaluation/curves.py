"""`rspo curves`: Pass@k and Max@k of a policy on each benchmark of a suite and on all together."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rspo.config import fingerprints
from rspo.config.experiment import Experiment
from rspo.config.schema import POOLED
from rspo.core.errors import InputError
from rspo.core.files import atomic_write
from rspo.core.provenance import write_provenance
from rspo.core.tables import CURVES, write_table
from rspo.evaluation.estimators import (
    max_at_k,
    max_at_k_variance,
    pass_at_k,
    pass_at_k_variance,
)
from rspo.evaluation.scores import Scores, check_suffix, policy_scores, pooled_scores, read_scores
from rspo.evaluation.statistics import resampled_problems, stratified_variance

RESAMPLES, SEED = 1000, 0  # of a bare scores file, which has no config


def curves(experiment: Experiment, policy: str, suite: str) -> None:
    """Write the curves of a policy: a row for each benchmark (and "pooled"), metric and k.

    Raises: InputError for missing or bad scores, or fewer samples than the largest k.
    """
    experiment.model_of(policy)  # an error for a name that the config does not have
    benchmarks = experiment.benchmarks_of(suite)
    scores = {name: policy_scores(experiment, policy, name) for name in benchmarks}
    scores[POOLED] = pooled_scores(scores, experiment.folder(policy))
    config = experiment.config.evaluation
    rows = [
        {"cell": policy, "benchmark": name} | row
        for name, table in scores.items()
        for row in curve(table, config.k, config.resamples, config.seed)
    ]
    path = experiment.curves(policy, suite)
    write_table(path, CURVES, rows)
    inputs = [file for name in benchmarks for file in experiment.score_files(policy, name)]
    write_provenance(path, fingerprints.settings(experiment, "curves"), inputs=inputs)


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
    check_suffix(output)
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
    alone; NaN if 2k > N. error_total is that over problems drawn anew from their population, each
    benchmark's from its own. The interval is the middle 95 % of the mean over problems resampled
    so. Samples are never resampled within a problem: that would centre Pass@k on 1-(1-c/N)^k.

    Raises: InputError for a k outside 1 .. N.
    """
    problems, samples = scores.correct.shape
    right = scores.correct.sum(axis=1)
    chosen = resampled_problems(scores.strata, resamples, seed)
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
                    "error_total": np.sqrt(stratified_variance(estimates, scores.strata)),
                    "low": low,
                    "high": high,
                    "problems": problems,
                    "samples": samples,
                }
            )
    return rows


def _write_csv(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    with atomic_write(path) as partial, partial.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, CURVES.schema.names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
