"""A small experiment with all results, made in this process in the current folder."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import yaml
from scipy import stats

from rspo.analysis.claims import step as step_of_claims
from rspo.analysis.results import write_comparisons
from rspo.config import steps
from rspo.config.experiment import Experiment
from rspo.core.files import write_text
from rspo.core.tables import read_csv, write_csv
from rspo.datasets.prepare import prepare
from rspo.evaluation.curves import curves, write_curves_table
from rspo.evaluation.sample import sample_suite
from rspo.evaluation.score import score
from rspo.figures import draw, in_all
from rspo.training.pretraining import make_base_policy
from rspo.training.train import train
from tests.support import tiny_world

_CELLS = [
    {"model": "small", "objective": "policy_gradient", "n": 8},
    {"model": "small", "objective": "rspo_pass_at_k", "k": [2, 4], "n": 8},
    {"model": "small", "objective": "hitchhiking", "k": 4, "n": 8},
]


def load(rewards: Mapping[str, Any] | None = None) -> Experiment:
    """The tiny scale with one grid entry of four cells, and sizes for tests.

    Args:
        rewards: changes of the section `rewards` of the config.
    """
    if not Path("config").exists():
        tiny_world.write_config(Path())
        values = yaml.safe_load(Path("config/tiny.yaml").read_text())
        values["grid"] = {"main": {"suite": "standard", "cells": _CELLS}}
        Path("config/tiny.yaml").write_text(yaml.safe_dump(values, sort_keys=False))
    return Experiment.load("tiny", {"rewards": dict(rewards)} if rewards else {})


def make() -> Experiment:
    """Every step up to the figures."""
    experiment = load()
    for data_set in experiment.data_sets:
        prepare(experiment, data_set)
    make_base_policy(experiment, "small")
    for cell in experiment.cells:
        train(experiment, cell)
    for policy in experiment.policies:
        sample_suite(experiment, policy, "standard")
        make_scores(experiment, policy)
        make_curves(experiment, policy)
    write_curves_table(experiment)
    write_claims_and_cost(experiment)
    for figure in in_all(experiment):
        draw(experiment, figure)
    return experiment


# Comparisons as text: claim, whether it decides, label, objectives compared, k, numbers, outcome.
_RSPO, _BASELINE, _PG = "rspo-pass", "hitchhiking", "policy-gradient"
_COMPARISONS = (
    ("C1", "yes", "RSPO - Baseline", (_RSPO, _BASELINE), 4, 0.0712345, 0.0123456, "for"),
    ("C1", "no", "RSPO k=4 - Baseline k=4", (_RSPO, _BASELINE), 2, 0.0512345, 0.02, "open"),
    ("C2", "yes", "Baseline k=4 - PG", (_BASELINE, _PG), 4, -0.25, 0.0512345, "against"),
    ("C3", "yes", "RSPO k=2 - PG", (_RSPO, _PG), 2, 0.0112345, 0.0212345, "open"),
    ("C3", "yes", "RSPO k=4 - PG", (_RSPO, _PG), 4, 0.0512345, 0.0112345, "for"),
)
DEGREES = 200.0


def write_claims_and_cost(experiment: Experiment) -> None:
    """The tables of claims and cost: a claim of every verdict, with HTML in its title."""
    verdicts = {
        "C1": "supported",
        "C2": "contradicted",
        "C3": "not resolved at this size",
        "C4": "not tested: this scale has no such cells",
    }
    comparisons = [_comparison(experiment, *values) for values in _COMPARISONS]
    claims = [
        {
            "claim": name,
            "title": f"claim {name[1:]} <script>alert(1)</script>",
            "hypothesis": "a < b & b > c",
            **{column: row.get(column, "") for column in ("estimate", "low", "high", "p_adjusted")},
            "verdict": verdict,
            "cells": " ".join(experiment.cells),
            "seeds": experiment.config.seeds,
            "note": "",
        }
        for name, verdict in verdicts.items()
        for row in [next((row for row in comparisons if row["claim"] == name), {})]
    ]
    cost = [
        {
            "policy": policy,
            "step": step,
            "wall_seconds": 3661.5,
            "cpu_seconds": 59.4,
            "gpu_seconds": 0,
            "host": "somewhere",
        }
        for policy in experiment.policies
        for step in ("train", "sample")
    ]
    overlaps = [
        {
            "set_a": "train",
            "set_b": name,
            "kind": "normalized",
            "count": 0,
            "ids_a": "",
            "ids_b": "",
        }
        for name in experiment.data_sets
        if name != "train"
    ]
    made = step_of_claims(experiment)
    claims_csv, page, comparisons_csv = made.outputs
    write_text(page, "# Claims\n")
    write_comparisons(comparisons_csv, comparisons)
    for path, rows in {
        claims_csv: claims,
        experiment.table("cost"): cost,
        experiment.table("contamination"): overlaps,
        experiment.table("answers"): _answers(experiment),
    }.items():
        write_csv(path, pd.DataFrame(rows))
    for step in (made, steps.cost(experiment), steps.contamination(experiment)):
        step.record()
    steps.answers(experiment).record()


def _answers(experiment: Experiment) -> list[dict[str, Any]]:
    return [
        {
            "policy": policy,
            "suite": suite,
            "benchmark": "pooled",
            "responses": 480,
            "without_answer": 4 + number,
            "most_common": 0.5,
            "k": k,
            "pass_hat_k": 0.5 / k,
            "pass_hat_k_error": 0.02,
            "different": 1 + 0.2 * k,
            "different_error": 0.03,
        }
        for number, (policy, suite) in enumerate(experiment.evaluations)
        for k in experiment.config.evaluation.k
    ]


def _comparison(
    experiment: Experiment,
    claim: str,
    decides: str,
    label: str,
    objectives: tuple[str, str],
    k: int,
    estimate: float,
    error: float,
    outcome: str,
) -> dict[str, Any]:
    """A row of claim_comparisons.csv, with one seed."""
    curves_of_all = read_csv(experiment.table("curves")).set_index("benchmark")
    problems = curves_of_all.loc["pooled", "problems"].iloc[0]
    cells = [
        name
        for objective in objectives
        for name in experiment.cells
        if f"--{objective}--k{1 if objective == _PG else k}--" in name
    ]
    p = 2 * float(stats.t.sf(abs(estimate) / error, DEGREES))
    half = float(stats.t.ppf(0.975, DEGREES)) * error
    method_a, _, method_b = label.partition(" - ")
    return {
        "id": f"{claim}/{label}/{k}",
        "claim": claim,
        "decides": decides,
        "method_a": method_a,
        "method_b": method_b,
        "metric": "pass_at_k",
        "k": k,
        "where": "pooled",
        "estimate": estimate,
        "low": estimate - half,
        "high": estimate + half,
        "error_problems": error,
        "error": error,
        "degrees": DEGREES,
        "p": p,
        "p_adjusted": min(1.0, 2 * p),
        "outcome": outcome,
        "seeds": 1,
        "problems": int(problems),
        "samples": experiment.config.evaluation.samples,
        "cells": " ".join(cells),
    }


def without_hosts_and_times(page: str) -> str:
    """A report without its sections "cost" and "provenance"."""
    for section in ("cost", "provenance"):
        page, count = re.subn(rf'<section id="{section}">.*?</section>', "", page, flags=re.DOTALL)
        assert count == 1
    return page


def make_scores(experiment: Experiment, policy: str, force: bool = False) -> None:
    score(experiment, policy, "standard", force=force)


def make_curves(experiment: Experiment, policy: str) -> None:
    curves(experiment, policy, "standard")
