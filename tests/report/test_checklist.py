"""The checklist's answers follow from the tables."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from rspo.config.experiment import Experiment
from rspo.core.tables import write_csv
from rspo.evaluation.answers import COLUMNS
from rspo.report import table_path
from rspo.report.sections import checklist, tables
from tests.support import tiny_world

ROWS = [
    # method, responses, tokens, seconds, smoothed
    ("A", 100, 1000, 1.0, 50.0),
    ("A", 200, 2000, 2.0, 60.0),
    ("A", 300, 3000, 2.96, 70.0),
    ("B", 100, 800, 2.0, 55.0),
    ("B", 200, 1600, 4.0, 65.0),
    ("B", 300, 2400, 6.0, 68.0),
]


def rows_of_figure(seeds: int = 3) -> pd.DataFrame:
    columns = ["method", "responses", "tokens", "seconds", "smoothed"]
    rows = pd.DataFrame(ROWS, columns=columns)
    ends = {"lowest": rows["smoothed"] - 1, "highest": rows["smoothed"] + 2}
    return rows.assign(metric_k=4, seeds=seeds, **ends)


def test_each_budget_ends_where_the_first_method_ends() -> None:
    """B has 2,400 tokens and A 2.96 seconds; what was sampled beyond them does not count."""
    matched = checklist.at_equal_budgets(rows_of_figure())
    values = {(row.budget, row.method): row.smoothed for row in matched.itertuples()}
    assert values == {
        **{("responses", "A"): 70, ("responses", "B"): 68},
        **{("tokens", "A"): 60, ("tokens", "B"): 68},
        **{("seconds", "A"): 70, ("seconds", "B"): 55},
    }


def test_the_answer_names_the_highest_method_at_each_budget() -> None:
    answer = checklist._budget_answer(checklist.at_equal_budgets(rows_of_figure()))
    a, b = "A with 70.0 (69.0 to 72.0) is highest", "before B with 68.0 (67.0 to 70.0)"
    assert f"at 300 responses, {a}, {b}; at 2,400 tokens, B with 68.0" in answer
    assert f"at 3.0 seconds, {a}, before B with 55.0 (54.0 to 57.0). In brackets:" in answer
    assert "the lowest and the highest of 3 training seeds. These differences are not" in answer
    one_seed = checklist._budget_answer(checklist.at_equal_budgets(rows_of_figure(seeds=1)))
    assert "In brackets: 95 % intervals over prompts, without the variance over" in one_seed


def experiment_with_overlaps(root: Path, of_training: int, of_others: int) -> Experiment:
    experiment = tiny_world.load(root)
    counts = {("train", "linear"): of_training, ("train", "divide"): 0}
    counts[("linear", "divide")] = of_others
    rows = [
        (a, b, kind, count if kind == "normalized" else 0)
        for (a, b), count in counts.items()
        for kind in ("exact", "normalized")
    ]
    path = table_path(experiment, "contamination")
    path.parent.mkdir(parents=True)
    write_csv(path, pd.DataFrame(rows, columns=["set_a", "set_b", "kind", "count"]))
    return experiment


@pytest.mark.parametrize(
    ("of_training", "of_others", "answer"),
    [
        (0, 0, "another set have in common: none. That two other sets have in common: none."),
        (3, 0, "another set have in common: 3 of train and linear. That two other"),
        (0, 2, "another set have in common: none. That two other sets have in common: 2 of linear"),
    ],
)
def test_the_answer_counts_the_problems_that_sets_share(
    tmp_path: Path, of_training: int, of_others: int, answer: str
) -> None:
    experiment = experiment_with_overlaps(tmp_path, of_training, of_others)
    assert answer in checklist._contamination_answer(experiment)


def test_a_verifier_of_the_user_leaves_the_figures_of_answers_unknown(tmp_path: Path) -> None:
    experiment = tiny_world.load(tmp_path)
    row = {"policy": "p", "suite": "standard", "benchmark": "pooled", "problems": 6, "samples": 4}
    row |= {"responses": 24, "k": 2, "pass_hat_k": 0.5, "pass_hat_k_error": 0.1}
    row |= dict.fromkeys(("without_answer", "most_common", "different", "different_error"), np.nan)
    path = table_path(experiment, "answers")
    path.parent.mkdir(parents=True)
    write_csv(path, pd.DataFrame([row])[COLUMNS], missing="nan")
    assert "does not say what it reads" in checklist._abstention_answer(experiment)
    (table,) = tables._answers(experiment)
    assert table.rows == [["p", "24", "unknown", "unknown", "unknown", "50"]]
