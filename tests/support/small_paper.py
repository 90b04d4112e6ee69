"""A small experiment with all results, made in this process in the current folder."""

import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from rspo.config.experiment import Experiment
from rspo.core.provenance import write_provenance
from rspo.core.tables import read_csv, write_csv
from rspo.datasets.prepare import prepare
from rspo.evaluation.curves import curves, write_curves_table
from rspo.evaluation.sample import sample_suite
from rspo.evaluation.score import score
from rspo.figures import available, draw
from rspo.training.pretraining import make_base_policy
from rspo.training.train import train
from tests.support import ROOT
from tests.support.tiny_world import OVERRIDES

_CELLS = [
    {"model": "small", "objective": "policy_gradient", "n": 8},
    {"model": "small", "objective": "rspo_pass_at_k", "k": [2, 4], "n": 8},
    {"model": "small", "objective": "hitchhiking", "k": 4, "n": 8},
]


def load(rewards: Mapping[str, Any] | None = None) -> Experiment:
    """The tiny scale with one grid entry of four cells, and sizes for tests.

    Args:
        rewards: replaces the section `rewards` of the config.
    """
    if not Path("config").exists():
        shutil.copytree(ROOT / "config", "config")
        values = yaml.safe_load(Path("config/tiny.yaml").read_text())
        values["grid"] = {"main": {"suite": "standard", "cells": _CELLS}}
        Path("config/tiny.yaml").write_text(yaml.safe_dump(values, sort_keys=False))
    return Experiment.load("tiny", OVERRIDES | ({"rewards": dict(rewards)} if rewards else {}))


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
    for figure in available(experiment):
        draw(experiment, figure)
    write_curves_table(experiment)
    write_claims_and_cost(experiment)
    return experiment


def write_claims_and_cost(experiment: Experiment) -> None:
    """The tables of claims and cost: a claim of every verdict, with HTML in its title."""
    claims = [
        {
            "claim": f"C{number}",
            "title": f"claim {number} <script>alert(1)</script>",
            "hypothesis": "a < b & b > c",
            "estimate": estimate,
            "low": low,
            "high": high,
            "p_adjusted": p,
            "verdict": verdict,
            "cells": " ".join(experiment.cells),
            "seeds": experiment.config.seeds,
            "note": "",
        }
        for number, (verdict, estimate, low, high, p) in enumerate(
            (
                ("supported", 0.123456789, 0.1, 0.15, 0.001),
                ("contradicted", -0.25, -0.5, -0.1, 0.01),
                ("not resolved at this size", 0.01, "nan", "nan", 0.9),
                ("not tested: this scale has no such cells", "", "", "", ""),
            ),
            start=1,
        )
    ]
    curves_of_all = read_csv(experiment.results / "tables" / "curves.csv").set_index("benchmark")
    comparison = {
        "claim": "C1",
        "decides": "yes",
        "comparison": "RSPO k=2",
        "metric": "pass_at_k",
        "benchmark": "pooled",
        "margin": "",
        "estimate": 0.25,
        "low": -0.125,
        "high": 0.625,
        "error": 0.1875,
        "error_seeds": "",
        "p": 0.5,
        "outcome": "open",
        "problems": curves_of_all.loc["pooled", "problems"].iloc[0],
        "cells": " ".join(experiment.cells),
    }
    comparisons = [comparison | {"k": k} for k in (1, 2, 4)]
    above = {"claim": "C4", "decides": "no", "k": 4, "low": 0.0125, "high": 0.1125}
    comparisons += [
        comparison | above | {"comparison": "RSPO k=4 - Baseline k=4", "estimate": 0.0625},
        comparison | {"claim": "C3", "k": 4, "comparison": "RSPO k=4 - PG", "estimate": 0.25},
        comparison
        | {
            "claim": "C2",
            "k": 2,
            "estimate": -0.25,
            "low": -0.5,
            "high": -0.1,
            "outcome": "against",
            "comparison": "Baseline k=2 - Baseline k=4",
        },
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
    tables = {"claims": claims, "claim_comparisons": comparisons, "cost": cost}
    for name, rows in tables.items():
        path = experiment.results / "tables" / f"{name}.csv"
        write_csv(path, pd.DataFrame(rows))
        write_provenance(path, {}, [experiment.results / "tables" / "curves.csv"])


def without_hosts_and_times(page: str) -> str:
    """A report without its sections "cost" and "provenance"."""
    for section in ("cost", "provenance"):
        page, count = re.subn(rf'<section id="{section}">.*?</section>', "", page, flags=re.DOTALL)
        assert count == 1
    return page


def make_scores(experiment: Experiment, policy: str) -> None:
    score(experiment, policy, "standard")


def make_curves(experiment: Experiment, policy: str) -> None:
    curves(experiment, policy, "standard")
