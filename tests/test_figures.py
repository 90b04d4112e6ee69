"""Figures: their numbers, their files, and what they say when something is missing."""

import math
import shutil
from pathlib import Path

import pytest

from rspo.experiment import BASE, Experiment
from rspo.files import write_json_lines
from rspo.tables import CURVES, write_table

ROOT = Path(__file__).resolve().parent.parent

# Pass@1, and how alike the problems are in difficulty, of policies like those of docs/tiny.md.
PLAUSIBLE = {
    "policy_gradient": {1: (0.40, 0.6)},
    "grpo": {1: (0.39, 0.7)},
    "rspo": {2: (0.38, 0.9), 4: (0.34, 1.3), 8: (0.29, 1.8)},
    "hitchhiking": {2: (0.33, 1.0), 4: (0.26, 1.2), 8: (0.19, 1.3)},
    BASE: {1: (0.186, 1.6)},
}


def experiment_in(root: Path, scale: str = "tiny", **overrides: object) -> Experiment:
    shutil.copytree(ROOT / "config", root / "config", dirs_exist_ok=True)
    return Experiment.load(scale, overrides, root)


def write_results(experiment: Experiment) -> None:
    """Curves of every policy on every suite, and every training log, with plausible numbers."""
    suites = {comparison.suite for comparison in experiment.config.grid.values()}
    for policy in experiment.policies:
        for suite in suites:
            write_table(
                experiment.curves(policy, suite), CURVES, curve_rows(experiment, policy, suite)
            )
    for number, cell in enumerate(experiment.cells):
        write_json_lines(experiment.training_log(cell), log_rows(experiment, cell, number))


def difficulty(experiment: Experiment, policy: str) -> tuple[float, float]:
    if policy not in experiment.cells:
        return PLAUSIBLE[BASE][1]
    cell = experiment.cell(policy)
    family = PLAUSIBLE["rspo" if "rspo" in cell.objective else cell.objective]
    pass_at_1, alike = family[cell.k]
    return pass_at_1 * (1 + 0.02 * math.log2(cell.n / 16) + 0.01 * cell.seed), alike


def curve_rows(experiment: Experiment, policy: str, suite: str) -> list[dict[str, object]]:
    benchmarks = experiment.benchmarks_of(suite)
    sizes = {name: 30 + 170 * (i % 3) for i, name in enumerate(benchmarks)}
    sizes["pooled"] = sum(sizes.values())
    pass_at_1, alike = difficulty(experiment, policy)
    rows: list[dict[str, object]] = []
    for place, (benchmark, problems) in enumerate(sizes.items()):
        mean = pass_at_1 * (0.6 + 0.17 * place)
        for k in experiment.config.evaluation.k:
            value = 1 - beta_moment(alike * mean, alike * (1 - mean), k)
            half = 1.96 * math.sqrt(0.8 * value * (1 - value) / problems)
            for metric, unit in (("pass_at_k", 1.0), ("max_at_k", 0.7)):
                rows.append(
                    {
                        "cell": policy,
                        "benchmark": benchmark,
                        "metric": metric,
                        "k": k,
                        "estimate": unit * value,
                        "error_within": 0.01,
                        "error_total": half / 1.96,
                        "low": unit * (value - half),
                        "high": unit * (value + 0.9 * half),
                        "problems": problems,
                        "samples": experiment.config.evaluation.samples,
                    }
                )
    return rows


def beta_moment(a: float, b: float, k: int) -> float:
    """E[(1-w)^k] of w ~ Beta(a, b): the chance that all of k responses are wrong."""
    return math.exp(
        math.lgamma(b + k) - math.lgamma(b) - math.lgamma(a + b + k) + math.lgamma(a + b)
    )


def log_rows(experiment: Experiment, cell: str, number: int) -> list[dict[str, object]]:
    k, steps = experiment.cell(cell).k, experiment.config.training.steps
    rows: list[dict[str, object]] = []
    for step in range(1, steps + 1):
        level = 0.08 + 0.04 * math.log2(2 * k)
        noise = 0.015 * math.sin(12.9898 * step + 78.233 * number) * math.sin(step / 3 + number)
        entropy = level + (0.35 - level) * math.exp(-6 * step / steps) + noise
        rows.append({"step": step, "reward": 0.3, "entropy": entropy})
    return rows
