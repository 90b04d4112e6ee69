"""The checklist's answers follow from the tables."""

from pathlib import Path

import pandas as pd
import pytest

from rspo.config.experiment import Experiment
from rspo.core.tables import write_csv
from rspo.report import table_path
from rspo.report.sections import checklist
from tests.support import tiny_world

ROWS = [
    # method, responses, tokens, seconds, smoothed
    ("A", 100, 1000, 1.0, 50.0),
    ("A", 200, 2000, 2.0, 60.0),
    ("A", 300, 3000, 3.0, 70.0),
    ("B", 100, 800, 2.0, 55.0),
    ("B", 200, 1600, 4.0, 65.0),
    ("B", 300, 2400, 6.0, 68.0),
]


def rows_of_figure(error: float = 0.1) -> pd.DataFrame:
    columns = ["method", "responses", "tokens", "seconds", "smoothed"]
    return pd.DataFrame(ROWS, columns=columns).assign(metric_k=4, error=error)


def test_each_budget_ends_where_the_first_method_ends() -> None:
    """B has 2,400 tokens and A 3 seconds; what was sampled beyond them does not count."""
    matched = checklist.at_equal_budgets(rows_of_figure())
    values = {(row.budget, row.method): row.smoothed for row in matched.itertuples()}
    assert values == {
        **{("responses", "A"): 70, ("responses", "B"): 68},
        **{("tokens", "A"): 60, ("tokens", "B"): 68},
        **{("seconds", "A"): 70, ("seconds", "B"): 55},
    }


def test_the_answer_names_the_highest_method_at_each_budget() -> None:
    answer = checklist._budget_answer(checklist.at_equal_budgets(rows_of_figure()))
    assert "at 300 responses, A is highest, 2.00 points above B, more than the error" in answer
    assert "at 2,400 tokens, B is highest, 8.00 points above A, more than the error" in answer
    assert "at 3 seconds, A is highest, 15.00 points above B, more than the error" in answer
    unsure = checklist._budget_answer(checklist.at_equal_budgets(rows_of_figure(error=3.0)))
    assert "at 300 responses, A is highest, 2 points above B, less than the error" in unsure


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
