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

from rspo.analysis.claims import claims_of
from rspo.analysis.results import (
    CONTRADICTED,
    DOES_NOT_TRANSFER,
    NOT_RESOLVED,
    SUPPORTED,
    partly_supported,
    tie_within,
)
from rspo.config.experiment import Experiment
from rspo.core.tables import CURVES, read_table
from tests.support import ROOT

pytestmark = pytest.mark.acceptance


@pytest.fixture(scope="module")
def experiment() -> Experiment:
    return Experiment.load("tiny", root=ROOT)


@pytest.fixture(scope="module")
def pooled(experiment: Experiment) -> dict[tuple[str, int], float]:
    """(policy, k) -> Pass@k over all problems of the standard suite."""
    return {
        (row["cell"], row["k"]): row["estimate"]
        for policy, suite in experiment.evaluations
        if suite == "standard"
        for row in read_table(experiment.files.curves(policy, suite), CURVES)
        if row["benchmark"] == "pooled" and row["metric"] == "pass_at_k"
    }


def name(objective: str, k: int = 1, n: int = 16) -> str:
    return f"small--{objective}--k{k}--n{n}--s0"


def test_all_cells_of_a_suite_and_both_bases_were_evaluated(experiment: Experiment) -> None:
    for policy, suite in experiment.evaluations:
        assert experiment.files.curves(policy, suite).is_file()
    found = {policy for policy, _ in experiment.evaluations}
    # Eight cells have three seeds, one has an objective without a k, and two of the four base
    # policies are those of further seeds.
    assert len(found) == 25 + 2 * 8 + 1 + 4


@pytest.mark.promise("make demo")
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


@pytest.mark.parametrize("k", [4, 8])
@pytest.mark.parametrize("objective", ["rspo-pass", "hitchhiking"])
def test_policy_gradient_is_better_at_pass_at_1_than_training_for_a_large_k(
    pooled: dict[tuple[str, int], float], objective: str, k: int
) -> None:
    assert pooled[name("policy-gradient"), 1] > pooled[name(objective, k), 1]


def test_entropy_is_highest_at_the_largest_k(experiment: Experiment) -> None:
    """Mean over the last third of training."""
    entropies = []
    for cell in [name("policy-gradient"), *(name("rspo-pass", k) for k in (2, 4, 8))]:
        records = [json.loads(line) for line in experiment.files.training_log(cell).open()]
        entropies.append(fmean(record["entropy"] for record in records[-len(records) // 3 :]))
    assert entropies[-1] > max(entropies[:-1])


def test_every_claim_has_a_verdict(experiment: Experiment) -> None:
    with (ROOT / "reports" / "claims.csv").open() as lines:
        verdicts = {row["claim"]: row["verdict"] for row in csv.DictReader(lines)}
    assert verdicts.keys() == claims_of(experiment).keys()
    margin = experiment.config.evaluation.equivalence_margin
    known = {SUPPORTED, CONTRADICTED, NOT_RESOLVED, DOES_NOT_TRANSFER}
    known |= {tie_within(margin), partly_supported(margin)}
    assert {*verdicts.values()} <= known
