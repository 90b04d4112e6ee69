"""The tiny paper as `make demo` left it: run by .ci/run after it, not by `make test`.

make demo && .venv/bin/pytest -m acceptance
"""

import csv
import json
import subprocess
import sys
from pathlib import Path
from statistics import fmean

import pytest

from rspo.claims.catalogue import CLAIMS
from rspo.claims.verdicts import CONTRADICTED, SUPPORTED
from rspo.config.experiment import Experiment
from rspo.figures import in_all
from tests.support import ROOT

pytestmark = pytest.mark.acceptance

CURVES = ROOT / "reports" / "tables" / "curves.csv"


@pytest.fixture(scope="module")
def experiment() -> Experiment:
    return Experiment.load("tiny", root=ROOT)


@pytest.fixture(scope="module")
def pooled() -> dict[tuple[str, int], float]:
    """(policy, k) -> Pass@k over all problems of the standard suite."""
    with CURVES.open() as lines:
        return {
            (row["cell"], int(row["k"])): float(row["estimate"])
            for row in csv.DictReader(lines)
            if row["suite"] == "standard"
            and row["benchmark"] == "pooled"
            and row["metric"] == "pass_at_k"
        }


def name(objective: str, k: int = 1, n: int = 16) -> str:
    return f"small--{objective}--k{k}--n{n}--s0"


def test_every_figure_is_there_in_three_forms(experiment: Experiment) -> None:
    for figure in in_all(experiment):
        for suffix in ("pdf", "png", "csv"):
            assert (ROOT / "reports" / f"{figure}.{suffix}").stat().st_size > 0


def test_all_25_cells_and_both_bases_were_evaluated(experiment: Experiment) -> None:
    with CURVES.open() as lines:
        found = {row["cell"] for row in csv.DictReader(lines)}
    assert found == set(experiment.policies)
    assert len(found) == 27


def test_a_second_run_does_nothing() -> None:
    done = subprocess.run(
        [Path(sys.executable).parent / "snakemake", "all"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0
    assert "Nothing to be done" in done.stdout + done.stderr


@pytest.mark.parametrize("k", [4, 8])
def test_rspo_is_above_the_baseline_at_the_k_it_was_trained_for(
    pooled: dict[tuple[str, int], float], k: int
) -> None:
    assert pooled[name("rspo-pass", k), k] > pooled[name("hitchhiking", k), k]


def test_policy_gradient_is_best_at_pass_at_1(pooled: dict[tuple[str, int], float]) -> None:
    others = [name(objective, k) for objective in ("rspo-pass", "hitchhiking") for k in (2, 4, 8)]
    best = pooled[name("policy-gradient"), 1]
    assert all(best > pooled[other, 1] for other in others)


def test_entropy_rises_with_k(experiment: Experiment) -> None:
    """Mean over the last third of training."""
    entropies = []
    for cell in [name("policy-gradient"), *(name("rspo-pass", k) for k in (2, 4, 8))]:
        records = [json.loads(line) for line in experiment.training_log(cell).open()]
        entropies.append(fmean(record["entropy"] for record in records[-len(records) // 3 :]))
    assert entropies == sorted(entropies)
    assert len(set(entropies)) == 4


def test_more_samples_per_prompt_are_better(pooled: dict[tuple[str, int], float]) -> None:
    """At k = 4, the k that the cells were trained for."""
    values = [pooled[name("rspo-pass", 4, n), 4] for n in (4, 8, 16)]
    assert values == sorted(values)
    assert len(set(values)) == 3


def test_the_claims_that_this_scale_was_built_for_are_resolved() -> None:
    """One way or the other: which one is the data's business.

    Not C4 and C5: with one seed, their differences are within the variance of training.
    """
    with (ROOT / "reports" / "claims.csv").open() as lines:
        claims = {row["claim"]: row for row in csv.DictReader(lines)}
    assert claims.keys() == CLAIMS.keys()
    for name in ("C1", "C2", "C3", "C8", "C10"):
        assert claims[name]["verdict"] in (SUPPORTED, CONTRADICTED), name
