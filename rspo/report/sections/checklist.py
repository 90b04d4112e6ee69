"""The section Checklist: what an evaluation should report, after arXiv:2509.21882."""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any

import pandas as pd

from rspo.config.experiment import Experiment
from rspo.config.schema import POOLED
from rspo.core.tables import read_csv
from rspo.figures import Figure, training_curves
from rspo.report import figure_files, figures, table_path
from rspo.report.page_table import PageTable


@dataclass(frozen=True)
class Point:
    """A question of the checklist, and its answer, computed from the tables and the config."""

    question: str
    answer: str


@dataclass(frozen=True)
class Checklist:
    """table: Pass@k at equal budgets; None for a scale without fig_budget."""

    points: list[Point]
    table: PageTable | None


def checklist(experiment: Experiment) -> Checklist:
    """Raises: InputError for tables that are missing or lack a column."""
    figure = next((f for f in figures(experiment) if f.name == training_curves.BUDGET.name), None)
    matched = None if figure is None else at_equal_budgets(_numbers(experiment, figure))
    points = [
        Point("Are budgets matched?", _budget_answer(matched)),
        Point("Is the variance reported?", _variance_answer(experiment)),
        Point("How many responses have no answer?", _abstention_answer(experiment)),
        Point("Was the verifier tested?", _verifier_answer(experiment)),
        Point("Were the data screened for contamination?", _contamination_answer(experiment)),
    ]
    return Checklist(points, None if matched is None else _table(matched))


def _numbers(experiment: Experiment, figure: Figure) -> pd.DataFrame:
    numbers = [*training_curves.BUDGETS, "metric_k", "smoothed", "lowest", "highest", "seeds"]
    rows = read_csv(figure_files(experiment, figure)[1], "method", *numbers)
    rows[numbers] = rows[numbers].apply(pd.to_numeric)
    return rows


def at_equal_budgets(rows: pd.DataFrame) -> pd.DataFrame:
    """Pass@k of each method at the largest amount of each budget that all methods used.

    Args:
        rows: of fig_budget.

    Returns: columns budget, amount, method, metric_k, seeds, and smoothed, lowest and highest in %.
    """
    found = []
    for name in training_curves.BUDGETS:
        amount = rows.groupby("method")[name].max().min()
        within = rows[rows[name] <= amount]
        last = within.loc[within.groupby("method", sort=False)[name].idxmax()]
        found.append(last.assign(budget=name, amount=amount))
    columns = ["budget", "amount", "method", "metric_k", "smoothed", "lowest", "highest", "seeds"]
    return pd.concat(found, ignore_index=True)[columns]


def _budget_answer(matched: pd.DataFrame | None) -> str:
    if matched is None:
        return "This scale has no fig_budget."
    parts = []
    for name, rows in matched.groupby("budget", sort=False):
        ordered = rows.sort_values("smoothed", ascending=False).to_dict("records")
        first, *others = (f"{row['method']} with {_value(row)}" for row in ordered[:2])
        then = f", before {others[0]}" if others else ""
        parts.append(f"at {_amount(name, rows['amount'].iloc[0])}, {first} is highest{then}")
    k = matched["metric_k"].iloc[0]
    return (
        f"Pass@{k:.0f} in % of training prompts that the policy has not seen before (fig_budget): "
        f"{_listed(parts)}. In brackets: {_range(matched)}. These differences are not tested; the "
        "claims' tests compare policies after the same number of steps, on test problems."
    )


def _amount(budget_name: str, amount: float) -> str:
    digits = 1 if amount < 100 and budget_name == "seconds" else 0
    return f"{amount:,.{digits}f} {budget_name}"


def _value(row: "pd.Series[Any] | dict[Hashable, Any]") -> str:
    return f"{row['smoothed']:.1f} ({row['lowest']:.1f} to {row['highest']:.1f})"


def _range(matched: pd.DataFrame) -> str:
    seeds = matched["seeds"].max()
    if seeds == 1:
        return "95 % intervals over prompts, without the variance over training seeds"
    return f"the lowest and the highest of {seeds:.0f} training seeds"


def _variance_answer(experiment: Experiment) -> str:
    seeds = experiment.config.seeds
    if seeds == 1:
        return (
            "Over problems and samples, yes: each Pass@k has an interval. Over training, no: there "
            "is one training seed, and verdicts are about the trained policies."
        )
    return (
        f"Yes: each Pass@k has an interval over problems and a standard error over {seeds} "
        "training seeds, and the claims' tests contain both."
    )


def _abstention_answer(experiment: Experiment) -> str:
    """They count as wrong. The extremes over the policies, all problems of a suite pooled."""
    columns = ("policy", "suite", "benchmark", "responses", "without_answer")
    rows = read_csv(table_path(experiment, "answers"), *columns)
    rows = rows[rows["benchmark"] == POOLED].drop_duplicates(["policy", "suite"])
    if (rows["without_answer"] == "nan").all():
        return f"Unknown: the verifier {experiment.config.verifier} does not say what it reads."
    counts = rows[["responses", "without_answer"]].astype(int)
    rows = rows.assign(fraction=counts["without_answer"] / counts["responses"])
    least, most = (rows.loc[i] for i in (rows["fraction"].idxmin(), rows["fraction"].idxmax()))
    return (
        "A response without an answer counts as wrong and stays in every denominator. Between "
        f"{least['fraction']:.1%} ({_of_policy(least)}) and {most['fraction']:.1%} "
        f"({_of_policy(most)}) of a policy's responses have none."
    )


def _of_policy(row: "pd.Series[Any]") -> str:
    return f"{row['without_answer']} of {row['responses']} responses of {row['policy']}"


def _verifier_answer(experiment: Experiment) -> str:
    name = experiment.config.verifier
    command = experiment.command("agreement")
    return (
        f"The verifier is {name}; docs/verification.md has its errors on labelled answers. "
        f"`{command}` compares it with {experiment.config.agreement.against} on samples of the "
        "base policies."
    )


def _contamination_answer(experiment: Experiment) -> str:
    path = table_path(experiment, "contamination")
    rows = read_csv(path, "set_a", "set_b", "kind", "count")
    rows = rows[rows["kind"] == "normalized"]
    rows = rows.assign(count=rows["count"].astype(int))
    training = rows[(rows["set_a"] == "train") | (rows["set_b"] == "train")]
    others = rows.drop(training.index)
    return (
        f"Problems that the training set and another set have in common: {_counts(training)}. "
        f"That two other sets have in common: {_counts(others)}. Problems that were reworded are "
        "not detected."
    )


def _counts(rows: pd.DataFrame) -> str:
    common = rows[rows["count"] > 0]
    pairs = common[["count", "set_a", "set_b"]].itertuples(index=False)
    return _listed(f"{count} of {a} and {b}" for count, a, b in pairs) or "none"


def _listed(parts: Iterable[str]) -> str:
    return "; ".join(parts)


def _table(matched: pd.DataFrame) -> PageTable:
    cells = [_value(row) for _, row in matched.iterrows()]
    methods = matched["method"].unique()
    by_budget = matched.assign(cell=cells).pivot(index="method", columns="budget", values="cell")
    amounts = matched.drop_duplicates("budget").set_index("budget")["amount"]
    return PageTable(
        f"Pass@{matched['metric_k'].iloc[0]:.0f} of training prompts in %, at the largest amount "
        f"of each budget that all methods used; in brackets: {_range(matched)}",
        ["method", *(_amount(name, amounts[name]) for name in training_curves.BUDGETS)],
        by_budget.loc[methods, list(training_curves.BUDGETS)].reset_index().to_numpy().tolist(),
    )
