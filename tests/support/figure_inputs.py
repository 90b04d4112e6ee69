"""Plausible inputs of figures, without training or sampling."""

import math
import shutil
from pathlib import Path
from typing import Any

from rspo.config.experiment import BASE, Experiment
from rspo.core.files import write_json_lines
from rspo.core.tables import CURVES, GRADIENTS, PROBLEMS, write_table
from rspo.evaluation.gradients import measured
from rspo.figures import available, figures_of
from tests.support import ROOT

# Pass@1, and how alike the problems are in difficulty, of policies like those of docs/tiny.md.
PLAUSIBLE = {
    "policy_gradient": {1: (0.40, 0.6)},
    "grpo": {1: (0.39, 0.7)},
    "rspo": {2: (0.38, 0.9), 4: (0.34, 1.3), 8: (0.29, 1.8)},
    "hitchhiking": {2: (0.33, 1.0), 4: (0.26, 1.2), 8: (0.19, 1.3)},
    BASE: {1: (0.186, 1.6)},
}


def experiment_in(root: Path, scale: str = "tiny", **overrides: Any) -> Experiment:
    shutil.copytree(ROOT / "config", root / "config", dirs_exist_ok=True)
    return Experiment.load(scale, overrides, root)


def write_results(experiment: Experiment, *names: str) -> None:
    """Plausible inputs of the figures named; of all that the scale has if none is."""
    for figure in (figures_of(experiment)[name] for name in names or available(experiment)):
        if figure.training_set:
            # A first pass of 40 steps, and some prompts that fill no further one.
            count = 40 * experiment.config.training.prompts_per_step + 3
            write_table(experiment.problems("train"), PROBLEMS, prompts_table(count))
        for number, policy in enumerate(figure.policies(experiment)):
            if figure.curves:
                suite = figure.suite(experiment)
                rows = curve_rows(experiment, policy, suite)
                write_table(experiment.curves(policy, suite), CURVES, rows)
            if figure.training_logs:
                log = log_rows(experiment, policy, number)
                write_json_lines(experiment.training_log(policy), log)
            if figure.gradients:
                rows = gradient_rows(experiment, number)
                write_table(experiment.gradients(policy), GRADIENTS, rows)


def gradient_rows(experiment: Experiment, number: int) -> list[dict[str, object]]:
    """Of the tables that `rspo gradients` writes, with numbers of the right size."""
    settings = experiment.config.gradients
    assert settings is not None
    sizes = {"hitchhiking": 5.0, "grpo": 3.0, "rspo_max_at_k_plug_in": 2.0}
    return [
        {
            "problem_id": f"linear/train/{place}",
            "objective": objective,
            "k": k,
            "n": settings.n,
            "responses": settings.responses,
            "correct": 0.1 + place / 100,
            "variance": (50 + place) * sizes.get(objective, 1.0) ** math.log2(2 * k),
            "signal": 40.0 + 3 * place + 20 * number,
        }
        for place in range(settings.prompts)
        for objective, k in measured(settings)
    ]


def prompts_table(count: int) -> list[dict[str, object]]:
    row = {
        "benchmark": "linear",
        "prompt": [{"role": "user", "content": "1+x=2"}],
        "answers": ["1"],
        "source": "linear/train",
        "revision": "1",
    }
    return [{"id": f"linear/train/{place}", "row": place, **row} for place in range(count)]


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
        solved = {f"pass_at_{2**i}": 0.3 + 0.1 * i + noise for i in range(6)}
        rows.append({"step": step, "reward": 0.3, "entropy": entropy, **solved})
    return rows
