"""How many responses have an answer, and how many different ones, against enumeration."""

from dataclasses import replace
from itertools import combinations
from math import sqrt
from pathlib import Path
from statistics import fmean

import numpy as np
import pandas as pd
import pytest

from rspo.config import steps
from rspo.config.names import OWN_VERIFIERS, Verifier
from rspo.core.tables import read_csv
from rspo.evaluation.answers import write_answers
from tests.support import registries, tiny_world
from tests.support.steps import attest
from tests.support.table_rows import sample, score, write_samples, write_scores

TEXTS = {
    "p0": ["\\boxed{1}", "\\boxed{1}", "\\boxed{2}", "no box"],
    "p1": ["\\boxed{3}", "\\boxed{3}", "\\boxed{3}", "\\boxed{3}"],
    "p2": ["none", "none", "none", "none"],
}
RIGHT = {"p0": "\\boxed{1}", "p1": "\\boxed{3}", "p2": ""}


OF_ANSWERS = ["without_answer", "most_common", "different", "different_error"]


def is_boxed(text: str) -> bool:
    return text.startswith("\\boxed")


def test_the_table_counts_answers_by_problem_and_pools_benchmarks(tmp_path: Path) -> None:
    cell = {"model": "small", "objective": "policy_gradient", "n": 4}
    experiment = tiny_world.load(
        tmp_path,
        evaluation={"samples": 4, "block": 2, "k": [1, 2]},
        grid={
            **dict.fromkeys(("scalability", "model_size", "contamination_free"), None),
            **dict.fromkeys(("max_at_k", "grpo"), None),
            "main": {"suite": "contamination_free", "seeds": 1, "cells": [cell]},
        },
    )
    for policy, suite in experiment.evaluations:
        texts = [(name, *one) for name in reversed(TEXTS) for one in enumerate(TEXTS[name])]
        samples = [sample(*one) for one in texts]
        scores = [score(name, index, text == RIGHT[name], 1.0) for name, index, text in texts]
        benchmarks = experiment.benchmarks_of(suite)
        write_samples(experiment, policy, suite, dict.fromkeys(benchmarks, samples))
        write_scores(experiment, policy, suite, dict.fromkeys(benchmarks, scores))
    write_answers(experiment)
    rows = read_csv(experiment.table("answers"))
    (one, *_) = rows[(rows["benchmark"] == "linear_larger") & (rows["k"] == "2")].to_dict("records")
    counts = [int(one[name]) for name in ("problems", "samples", "responses", "without_answer")]
    assert counts == [3, 4, 12, 5]
    assert float(one["most_common"]) == pytest.approx((2 / 4 + 4 / 4 + 0) / 3)
    pairs = {name: list(combinations(of_problem, 2)) for name, of_problem in TEXTS.items()}
    different = [fmean(len({*filter(is_boxed, pair)}) for pair in of) for of in pairs.values()]
    assert float(one["different"]) == pytest.approx(fmean(different))
    assert float(one["different_error"]) == pytest.approx(np.std(different, ddof=1) / sqrt(3))
    right = [fmean({*pair} == {RIGHT[name]} for pair in of) for name, of in pairs.items()]
    assert float(one["pass_hat_k"]) == pytest.approx(fmean(right))
    assert float(one["pass_hat_k_error"]) == pytest.approx(np.std(right, ddof=1) / sqrt(3))
    pooled = rows[rows["benchmark"] == "pooled"]
    assert {*pooled["problems"]} == {"6"}
    assert {*pooled["without_answer"]} == {"10"}
    with registries.restored():
        OWN_VERIFIERS["mine"] = Verifier("mine", lambda response, answers: False)
        config = experiment.config.model_copy(update={"verifier": "mine"})
        changed = replace(experiment, config=config)
        attest(steps.answers(changed).inputs())
        write_answers(changed, force=True)
    others = read_csv(experiment.table("answers"))
    assert {*others[OF_ANSWERS].to_numpy().flat} == {"nan"}
    kept = [name for name in rows if name not in OF_ANSWERS]
    pd.testing.assert_frame_equal(others[kept], rows[kept])
