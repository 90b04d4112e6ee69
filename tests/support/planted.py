"""Results of policies with known skill, and the inputs of figures, without training."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml

from rspo.analysis import claims, studies
from rspo.analysis.comparisons import Comparison
from rspo.analysis.results import row_of, with_p_values, write_comparisons
from rspo.config.experiment import Cell, Experiment
from rspo.config.load import read_values
from rspo.core.files import write_json_lines
from rspo.core.tables import PROBLEMS as PROBLEM_ROWS
from rspo.core.tables import SCORES, write_frame, write_table
from rspo.evaluation.curves import curves
from rspo.evaluation.outcomes import Outcomes
from rspo.evaluation.read_outcomes import suite_scores
from rspo.evaluation.statistics import Estimate
from rspo.figures import figures_of
from rspo.pipeline import tasks
from tests.support import copy_config
from tests.support.problem_rows import problem
from tests.support.tasks import attest

PROBLEMS, SAMPLES, STEPS = 160, 16, 60
Skill = tuple[float, float]  # fraction of problems it can solve, and success probability on them
BASE_SKILL: Skill = (0.5, 0.08)


def scores_of(experiment: Experiment, policy: str, benchmark: str) -> Outcomes:
    """The outcomes of a policy on a benchmark."""
    return suite_scores(experiment, policy, experiment.suite_of(benchmark))[benchmark]


def load(
    root: Path,
    seeds: int = 3,
    grid_only: str = "",
    grid_of: dict[str, list[tuple[str, int, int]]] | None = None,
    ks: Sequence[int] = (1, 2, 4, 8),
    studies: Mapping[str, Any] | None = None,
    models: Mapping[str, Any] | None = None,
) -> Experiment:
    """The tiny scale with two benchmarks, and a newer one for contamination_free.

    Args:
        grid_only: the only grid entry to keep.
        grid_of: replaces the grid: objective, k and n of each cell, by entry.
        ks: the evaluated k.
        studies: replaces the studies.
        models: further models.
    """
    copy_config(root)
    path = root / "config" / "tiny.yaml"
    config = read_values(path)
    standard, grid = config["data"]["suites"]["standard"], config["grid"]
    config["data"]["suites"] = {
        "standard": {name: standard[name] for name in ("linear", "multiply")},
        "contamination_free": {"newer": {**standard["divide"], "label": "newer"}},
    }
    grid["contamination_free"] = {"suite": "contamination_free", "cells": grid["main"]["cells"]}
    blocks = {"samples": SAMPLES, "block": SAMPLES}
    config["evaluation"] |= {**blocks, "k": list(ks), "equivalence_margin": 0.05}
    config["training"] |= {"steps": STEPS}
    # One base model and the paper's claims, whatever the config has; tests of others override this.
    config["base_per_seed"] = False
    grid.pop("without_k", None)
    for entry in grid.values():
        entry.pop("seeds", None)  # `seeds` is that of every cell
    if grid_only:
        config["grid"] = {grid_only: grid[grid_only]}
    if grid_of is not None:
        keys = ("model", "objective", "k", "n")
        config["grid"] = {
            name: {
                "suite": "standard",
                "cells": [dict(zip(keys, ("small", *cell), strict=True)) for cell in cells],
            }
            for name, cells in grid_of.items()
        }
    config["studies"] = dict(studies or {})
    config["models"] |= dict(models or {})
    path.write_text(yaml.safe_dump(config))
    return Experiment.load("tiny", {"seeds": seeds}, root=root)


def as_claimed(cell: Cell) -> Skill:
    """As the paper claims: larger k solve more problems, with lower probability."""
    if cell.objective == "hitchhiking":
        return {2: (0.45, 0.35), 4: (0.35, 0.2), 8: (0.25, 0.1)}[cell.k]
    if cell.n != 16:
        return {4: (0.5, 0.2), 8: (0.6, 0.28), 32: (0.95, 0.5)}[cell.n]
    return {1: (0.45, 0.97), 2: (0.6, 0.6), 4: (0.8, 0.34), 8: (1.0, 0.2)}[cell.k]


def the_opposite(cell: Cell) -> Skill:
    """The opposite: baseline above RSPO and better with k, no k best at itself, small n best."""
    if cell.objective == "grpo":
        return (0.9, 0.9)
    if cell.objective == "hitchhiking":
        return {2: (0.97, 0.5), 4: (0.98, 0.7), 8: (1.0, 0.9)}[cell.k]
    if cell.n != 16:
        return {4: (0.9, 0.6), 8: (0.8, 0.5), 32: (0.3, 0.2)}[cell.n]
    return {8: (0.45, 0.95), 4: (0.6, 0.68), 2: (0.75, 0.42), 1: (1.0, 0.25)}[cell.k]


def all_alike(cell: Cell) -> Skill:
    return (0.6, 0.4)


def plant_all(root: Path, skill: Callable[[Cell], Skill], **options: Any) -> Experiment:
    """An experiment with scores and training logs; options as of `load`."""
    experiment = load(root, **options)
    plant_scores(experiment, skill)
    plant_logs(experiment)
    return experiment


def plant_scores(
    experiment: Experiment, skill: Callable[[Cell], Skill], base: Skill = BASE_SKILL
) -> None:
    """Scores of every policy on every benchmark; a problem is equally hard for all policies."""
    policies = dict.fromkeys(experiment.evaluations)
    for study, entry in experiment.config.studies.items():
        policies |= dict.fromkeys((one, entry.suite) for one in experiment.policies_of(study))
    for number, (policy, suite) in enumerate(policies):
        cell = None if experiment.is_base(policy) else experiment.cell(policy)
        able = skill(cell) if cell else base
        benchmarks = experiment.benchmarks_of(suite)
        plant(experiment, policy, suite, dict.fromkeys(benchmarks, able), number)


def plant(
    experiment: Experiment, policy: str, suite: str, skills: Mapping[str, Skill], seed: int
) -> None:
    """Scores of a policy, with its skill on each benchmark."""
    samples, size = experiment.config.evaluation.samples, experiment.config.evaluation.block
    frame = pd.concat(
        _scores(benchmark, *skill, np.random.default_rng([seed, other]), samples)
        for other, (benchmark, skill) in enumerate(skills.items())
    )
    for block in experiment.blocks():
        made = tasks.score(experiment, policy, suite, block)
        write_frame(made.outputs[0], SCORES, frame[frame["sample_index"] // size == block])
        attest([tasks.first_output(made)])


def _scores(
    benchmark: str, reach: float, often: float, rng: np.random.Generator, samples: int
) -> pd.DataFrame:
    can = (np.arange(PROBLEMS) + 0.5) / PROBLEMS < reach
    right = (rng.random((PROBLEMS, samples)) < often) & can[:, None]
    solved = right.flatten()
    return pd.DataFrame(
        {
            "benchmark": benchmark,
            "problem_id": [f"{benchmark}/{i:03}" for i in range(PROBLEMS) for _ in range(samples)],
            "sample_index": list(range(samples)) * PROBLEMS,
            "correct": solved,
            "verifier": "exact",
            "verdict": "",
            # Random, so that Max@k is not a multiple of Pass@k.
            "reward": solved * rng.uniform(0.4, 1.0, solved.size),
        }
    )


def plant_logs(
    experiment: Experiment, rise: float = 0.05, seconds_of_all: float = 0.5, noise: float = 0.01
) -> None:
    """Training logs: entropy rises by `rise` with each doubling of k, an update of all responses
    takes `seconds_of_all` longer than one of none."""
    for number, (name, cell) in enumerate(experiment.every_cell.items()):
        if experiment.is_derived(name):
            continue
        rng = np.random.default_rng([8, number])
        steps_of_cell = experiment.for_cell(name).config.training.last_step
        entropy = 0.2 + rise * np.log2(cell.k) + noise * rng.standard_normal(steps_of_cell)
        kept = 0.3 + 0.1 * rng.random(steps_of_cell)
        if not experiment.for_cell(name).config.training.drop_zero_weights:
            kept = np.ones(steps_of_cell)
        update = 0.4 + seconds_of_all * kept
        rows = [
            {
                "step": step + 1,
                "reward": 0.3,
                "entropy": entropy[step] + 0.1 * noise * cell.seed,
                "zero_weight": 1 - kept[step],
                "response_tokens": 8 + rng.random(),
                **{f"pass_at_{2**i}": 0.3 + 0.1 * i + 0.01 * math.sin(step) for i in range(6)},
                "seconds": {
                    "sample": 0.3,
                    "reward": 0.01,
                    "update": update[step] + 0.2 * noise * rng.standard_normal(),
                },
            }
            for step in range(steps_of_cell)
        ]
        write_json_lines(experiment.files.training_log(name), rows)
        attest([tasks.log_input(experiment, name)])


# --- inputs of figures ---------------------------------------------------------------------------

# Figures that tests also draw at the scale paper, which has longer names.
PAPER = ["fig_entropy", "fig_contamination_free", "fig_sample_efficiency"]


def experiment_in(root: Path, scale: str = "tiny", **overrides: Any) -> Experiment:
    """A scale of config/ with one training seed, and with its results below `root`."""
    copy_config(root)
    path = root / "config" / "tiny.yaml"
    path.write_text(re.sub(r"^    seeds: \d\n", "", path.read_text(), flags=re.MULTILINE))
    return Experiment.load(scale, overrides, root)


def write_inputs(experiment: Experiment, *names: str) -> None:
    """Write the inputs of the named figures, or of all figures of the scale."""
    figures = [figures_of(experiment)[name] for name in names or figures_of(experiment)]
    if any(figure.reads("training_logs") for figure in figures):
        plant_logs(experiment)
    done: set[tuple[str, str]] = set()
    for figure in figures:
        if figure.reads("training_set"):
            # A first pass of 40 steps; the last three prompts do not fill another step.
            write_problems(experiment, 40 * experiment.config.training.prompts_per_step + 3)
        if figure.reads("comparisons"):
            plan, _ = claims.planned(experiment)
            write_comparisons(figure.task(experiment).input_files[0], made_up(plan))
        if figure.reads("study"):
            path = figure.task(experiment).input_files[0]
            (name,) = figure.grids
            lines = studies.lines_of(experiment, name)
            if experiment.config.studies[name].choose_by_pass_at:
                lines = list({line.objective_k_n: line for line in lines}.values())
            write_comparisons(path, made_up(studies.planned(experiment, name, lines)))
        for number, policy in enumerate(figure.policies(experiment)):
            if figure.reads("curves", "scores") and (policy, figure.suite(experiment)) not in done:
                suite = figure.suite(experiment)
                skills = dict.fromkeys(experiment.benchmarks_of(suite), (0.4 + 0.02 * number, 0.3))
                plant(experiment, policy, suite, skills, number)
                curves(experiment, policy, suite)
                done.add((policy, suite))
        attest(figure.task(experiment).inputs())


def write_problems(experiment: Experiment, count: int) -> None:
    """A training set of so many problems."""
    rows = [problem("linear/train", row, "1+x=2") for row in range(count)]
    write_table(experiment.files.problems("train"), PROBLEM_ROWS, rows)


def made_up(plan: Sequence[Comparison]) -> list[dict[str, Any]]:
    """Rows of these comparisons, each with another value."""
    rows = []
    for number, one in enumerate(plan):
        value = 0.05 * math.sin(number)
        if not one.method_b and one.ks:
            value = 0.2 + 0.1 * math.log2(one.ks[0]) + 0.2 * value
        estimate = Estimate(value, 0.0, 0.0, 0.012, 100.0)
        rows.append(row_of(one, estimate, 890, 32))
    for number, row in enumerate(with_p_values(rows)):
        p = number % 97 / 97
        row |= {"p_computed": p, "p": p, "p_adjusted": min(1.0, 2 * p)}
        if row["tie_margin"] is not None:
            of_tie = p if number % 2 else number % 31 / 31
            row |= {"p_tie": of_tie, "p_tie_adjusted": min(1.0, 2 * of_tie)}
    return rows
