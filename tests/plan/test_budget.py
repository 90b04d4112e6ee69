"""`rspo plan --budget`: which claims some GPU-hours answer."""

import math
import shutil
from pathlib import Path

import numpy as np
import pytest

from rspo.analysis.claims import planned
from rspo.config.experiment import Experiment
from rspo.core.errors import InputError
from rspo.plan.budget import answers, text
from rspo.plan.jobs import jobs
from tests.support import ROOT, paper_scale

SMALL = "qwen2.5-math-1.5b"
THREE = ("policy-gradient--k1", "rspo-pass--k4", "hitchhiking--k4")


def cells(experiment: Experiment, budget: float, claim: str) -> set[str]:
    """The cells of the first answer to a claim, and of those before it."""
    found = set()
    for one in answers(experiment, budget):
        found |= {name for rule, name, _ in one.jobs if rule == "train"}
        if one.claim == claim:
            return found
    raise AssertionError(f"{claim} is not answered")


def test_everything_answers_every_claim_with_every_cell_once(tmp_path: Path) -> None:
    experiment = paper_scale.load(tmp_path)
    found = answers(experiment, math.inf)
    expected, _ = planned(experiment)
    assert {one.claim for one in found} == {one.claim for one in expected if one.decides}
    trained = [name for one in found for rule, name, _ in one.jobs if rule == "train"]
    assert sorted(trained) == sorted(experiment.cells)
    last = {one.claim: one.ks for one in found}
    assert {last[claim] for claim in ("C1", "C2", "C3", "C6", "C7", "C8")} == {(2, 4, 8)}
    work = [job for job in jobs(experiment) if job.policy in experiment.cells]
    hours = np.sum([job.gpus * job.hours for job in work if job.hours is not None], axis=0)
    spent = np.sum([one.hours for one in found], axis=0)
    assert (spent >= hours).all()  # and the base policies of some claims
    assert spent == pytest.approx(hours, rel=0.02)


def test_a_claim_at_one_k_needs_the_cells_of_that_k(tmp_path: Path) -> None:
    experiment = paper_scale.load(tmp_path)
    assert cells(experiment, math.inf, "C4") == {
        f"{SMALL}--{name}--n16--s0" for name in ("policy-gradient--k1", "rspo-pass--k2")
    }
    assert len(cells(experiment, math.inf, "C1")) == 3  # the baseline of that k too


@pytest.mark.parametrize("budget", [24, 3200])
def test_no_budget_is_exceeded_and_the_cheapest_comes_first(tmp_path: Path, budget: int) -> None:
    experiment = paper_scale.load(tmp_path)
    found = answers(experiment, budget)
    assert sum(one.hours[1] for one in found) <= budget
    everything = [one.claim for one in answers(experiment, math.inf)]
    claims = list(dict.fromkeys(one.claim for one in found))
    assert claims == list(dict.fromkeys(everything))[: len(claims)]
    assert (len(claims) == 0) == (budget < 100)
    said = text(experiment, budget)
    assert ("not within the budget" in said) == (len(claims) < len(set(everything)))


def without_results(folder: Path, scale: str) -> Experiment:
    """A scale of config/ in a folder where nothing has run."""
    shutil.copytree(ROOT / "config", folder / "config")
    return Experiment.load(scale, root=folder)


def test_one_gpu_answers_c1_and_c3_in_a_day(tmp_path: Path) -> None:
    experiment = without_results(tmp_path, "one_gpu")
    found = answers(experiment, 24)
    assert {one.claim for one in found} >= {"C1", "C3"}
    assert cells(experiment, 24, "C1") == {f"qwen2.5-0.5b--{name}--n16--s0" for name in THREE}


def test_a_scale_without_gpus_has_no_budget(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"expected verl\.device: cuda"):
        answers(without_results(tmp_path, "tiny"), 8)
