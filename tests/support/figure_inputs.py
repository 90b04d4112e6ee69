"""Inputs of figures with plausible numbers, without training or sampling."""

import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from rspo.analysis import studies
from rspo.analysis.measure import Measurement
from rspo.analysis.results import row_of, write_comparisons
from rspo.config.experiment import Experiment
from rspo.core.files import write_json_lines
from rspo.core.tables import (
    CURVES,
    GRADIENTS,
    PROBLEMS,
    SCORES,
    write_frame,
    write_table,
)
from rspo.evaluation.statistics import Estimate
from rspo.figures import available, figures_of
from tests.support import ROOT
from tests.support.steps import attest

# Figures that tests also draw at the scale paper, which has longer names.
PAPER = ["fig_entropy", "fig_contamination_free", "fig_sample_efficiency"]


def experiment_in(root: Path, scale: str = "tiny", **overrides: Any) -> Experiment:
    shutil.copytree(ROOT / "config", root / "config", dirs_exist_ok=True)
    return Experiment.load(scale, overrides, root)


def write_inputs(experiment: Experiment, *names: str) -> None:
    """Write the inputs of the named figures, or of all figures of the scale."""
    for figure in (figures_of(experiment)[name] for name in names or available(experiment)):
        if figure.reads("training_set"):
            # A first pass of 40 steps; the last three prompts do not fill another step.
            count = 40 * experiment.config.training.prompts_per_step + 3
            write_table(experiment.problems("train"), PROBLEMS, problem_rows(count))
        if figure.reads("comparisons"):
            (path,) = figure.step(experiment).input_files
            write_comparisons(path, comparison_rows(experiment))
        if figure.reads("study"):
            (path,) = figure.step(experiment).input_files
            write_comparisons(path, study_rows(experiment, figure.grids[0]))
        for number, policy in enumerate(figure.policies(experiment)):
            if figure.reads("curves"):
                suite = figure.suite(experiment)
                rows = curve_rows(experiment, policy, suite)
                write_table(experiment.curves(policy, suite), CURVES, rows)
            if figure.reads("scores"):
                write_scores(experiment, policy, figure.suite(experiment), number)
            if figure.reads("training_logs"):
                log = log_rows(experiment, policy, number)
                write_json_lines(experiment.training_log(policy), log)
            if figure.reads("gradients"):
                rows = gradient_rows(experiment, number)
                write_table(experiment.gradients(policy), GRADIENTS, rows)
        attest(figure.step(experiment).inputs())


def write_scores(experiment: Experiment, policy: str, suite: str, number: int) -> None:
    """Scores of 40 problems; later policies solve more of them."""
    problems, size = 40, experiment.config.evaluation.block
    able = (np.arange(problems) / problems) ** 2 * (0.5 + 0.02 * number)
    benchmarks = experiment.benchmarks_of(suite)
    for block, path in enumerate(experiment.score_files(policy, suite)):
        rng = np.random.default_rng([number, block])
        correct = (rng.random((problems, size)) < able[:, None]).flatten()
        frame = pd.DataFrame(
            {
                "problem_id": [f"{i:03}" for i in range(problems) for _ in range(size)],
                "sample_index": [*range(block * size, (block + 1) * size)] * problems,
                "correct": correct,
                "verifier": "exact",
                "verdict": "",
                "reward": correct * 1.0,
            }
        )
        write_frame(path, SCORES, pd.concat(frame.assign(benchmark=name) for name in benchmarks))


def problem_rows(count: int) -> list[dict[str, object]]:
    row = {
        "benchmark": "linear",
        "prompt": [{"role": "user", "content": "1+x=2"}],
        "answers": ["1"],
        "source": "linear/train",
        "revision": "1",
    }
    return [{"id": f"linear/train/{index}", "row": index, **row} for index in range(count)]


def curve_rows(experiment: Experiment, policy: str, suite: str) -> list[dict[str, object]]:
    benchmarks = experiment.benchmarks_of(suite)
    sizes = {name: 30 + 170 * (index % 3) for index, name in enumerate(benchmarks)}
    sizes["pooled"] = sum(sizes.values())
    slope = 0.3 + 0.02 * experiment.policies.index(policy)
    rows: list[dict[str, object]] = []
    for index, (benchmark, problems) in enumerate(sizes.items()):
        for k in experiment.config.evaluation.k:
            value = 1 - math.exp(-(0.2 + 0.05 * index) * k**slope)
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


def log_rows(experiment: Experiment, cell: str, number: int) -> list[dict[str, object]]:
    k, steps = experiment.cell(cell).k, experiment.config.training.steps
    rows: list[dict[str, object]] = []
    for step in range(1, steps + 1):
        level = 0.08 + 0.04 * math.log2(2 * k)
        noise = 0.015 * math.sin(12.9898 * step + 78.233 * number) * math.sin(step / 3 + number)
        entropy = level + (0.35 - level) * math.exp(-6 * step / steps) + noise
        solved = {f"pass_at_{2**i}": 0.3 + 0.1 * i + noise for i in range(6)}
        cost = {"response_tokens": 9.0 - 20 * noise, "seconds": {"sample": 0.1, "update": 0.03 * k}}
        rows.append({"step": step, "reward": 0.3, "entropy": entropy, **cost, **solved})
    return rows


def comparison_rows(experiment: Experiment) -> list[dict[str, object]]:
    """RSPO minus the baseline and policy gradient, at every evaluated k, on all problems."""
    groups: dict[tuple[str, int], list[str]] = {}
    for cell in experiment.cells_of("main"):
        groups.setdefault((cell.objective, cell.k), []).append(cell.name)
    rows: list[dict[str, object]] = []
    for (objective, k), cells in groups.items():
        if objective != "rspo_pass_at_k":
            continue
        for other, label in (("hitchhiking", f"Baseline k={k}"), ("policy_gradient", "PG")):
            others = groups[other, 1 if label == "PG" else k]
            for evaluated in experiment.config.evaluation.k:
                estimate = 0.01 * evaluated - 0.005 * k - (0.03 if label == "PG" else 0)
                rows.append(
                    {
                        "id": f"C1/RSPO k={k}/{label}/{evaluated}",
                        "claim": "C1",
                        "method_a": f"RSPO k={k}",
                        "method_b": label,
                        "metric": "pass_at_k",
                        "k": evaluated,
                        "where": "pooled",
                        "estimate": estimate,
                        "low": estimate - 0.01 - 0.001 * k,
                        "high": estimate + 0.01 + 0.001 * k,
                        "error": 0.005 + 0.0005 * k,
                        "p": min(1.0, 0.001 * evaluated),
                        "seeds": experiment.config.seeds,
                        "problems": 890,
                        "samples": experiment.config.evaluation.samples,
                        "cells": " ".join([*cells, *others]),
                    }
                )
    return rows


def study_rows(experiment: Experiment, name: str) -> list[dict[str, object]]:
    """The comparisons of a study, each with another value."""
    study = experiment.config.studies[name]
    plan = studies.planned(experiment, name, studies.lines_of(experiment, name))
    for contrast in (one for one in study.contrasts if one.claims):
        plan += studies.changes(contrast, studies.planned_claims(experiment, name, contrast))
    rows = []
    for number, one in enumerate(plan):
        value = 0.05 * math.sin(number)
        if not one.method_b:
            value = 0.2 + 0.1 * math.log2(one.ks[0]) + 0.2 * value
        row = row_of(Measurement(one, Estimate(value, 0.0, 0.0, 0.012, 100.0), 0.0, 1, 890, 32))
        tested = {"family": one.family, "p_adjusted": min(1.0, number / 50)} if one.family else {}
        rows.append(row | tested)
    return rows


def gradient_rows(experiment: Experiment, number: int) -> list[dict[str, object]]:
    settings = experiment.config.gradients
    assert settings is not None
    sizes = {"hitchhiking": 5.0, "grpo": 3.0, "rspo_max_at_k_plug_in": 2.0}
    return [
        {
            "problem_id": f"linear/train/{index}",
            "objective": objective,
            "k": k,
            "n": settings.n,
            "responses": settings.responses,
            "correct": 0.1 + index / 100,
            "variance": (50 + index) * sizes.get(objective, 1.0) ** math.log2(2 * k),
            "signal": 40.0 + 3 * index + 20 * number,
        }
        for index in range(settings.prompts)
        for objective, k in settings.measured
    ]
