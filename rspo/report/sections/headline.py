"""The section Result: RSPO against the baseline and policy gradient, in one sentence."""

from dataclasses import dataclass

import pandas as pd

from rspo.config.experiment import Experiment
from rspo.core.tables import read_csv
from rspo.evaluation.statistics import LEVEL
from rspo.figures.difference import FIGURE
from rspo.figures.methods import model_labels
from rspo.report import figure_files, figures
from rspo.report.rounding import plus_minus

_POINTS = ["k", "estimate", "low", "high"]
_NUMBERS = [*_POINTS, "p_adjusted", "seeds", "problems"]


@dataclass(frozen=True)
class Headline:
    """sentence: the result; remarks: what it is about, and what its errors are."""

    sentence: str
    remarks: str


def headline(experiment: Experiment) -> Headline | None:
    """The sentence, from the numbers of fig_difference; None for a scale without them.

    Raises: InputError for a table that is missing or lacks a column.
    """
    figure = next((one for one in figures(experiment) if one.name == FIGURE.name), None)
    if figure is None:
        return None
    rows = read_csv(figure_files(experiment, figure)[1], "against", *_NUMBERS, empty=True)
    if rows.empty:
        return None
    rows[_NUMBERS] = rows[_NUMBERS].apply(pd.to_numeric)
    models = model_labels(experiment, figure.policies(experiment))
    about = f"Model {models}, {rows['problems'].max()} problems."
    return Headline(_sentence(rows), f"{about} {_errors(int(rows['seeds'].min()), len(rows))}")


def _sentence(rows: pd.DataFrame) -> str:
    resolved = rows["p_adjusted"] < LEVEL
    above = rows[resolved & (rows["estimate"] > 0)]
    below = rows[resolved & (rows["estimate"] < 0)]
    found = [
        f"{direction} {_the(against)} by {_values(group.assign(estimate=group['estimate'].abs()))}"
        for direction, chosen in (("above", above), ("below", below))
        for against, group in chosen.groupby("against", sort=False)
    ]
    clauses = [f"RSPO is {_and(found)}"] if found else []
    whose = "its" if found else "RSPO's"
    clauses += [
        f"{whose} difference to {_the(against)}, {_values(group, signed=True)}, is not resolved"
        for against, group in rows[~resolved].groupby("against", sort=False)
    ]
    return f"In percentage points of Pass@k, {'; '.join(clauses)}."


def _the(against: object) -> str:
    return "the baseline" if against == "baseline" else str(against)


def _values(rows: pd.DataFrame, signed: bool = False) -> str:
    """Such as "3.8 ± 1.1 (k = 2) and 7.1 ± 2.2 (k = 4)", which break only between values."""
    values = [
        f"{plus_minus(estimate, low, high, signed)} (k\u00a0=\u00a0{k})"
        for k, estimate, low, high in rows[_POINTS].itertuples(index=False)
    ]
    return _and(values)


def _and(parts: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(parts[:-1]), parts[-1]]))


def _errors(seeds: int, tests: int) -> str:
    over = f"problems and {seeds} training seeds" if seeds > 1 else "problems"
    one = "; one training seed: about these policies, not the methods" if seeds == 1 else ""
    return (
        f"\u00b1: 95 % interval over {over}{one}. Not resolved: p \u2265 {LEVEL} by Holm's method "
        f"for {tests} tests."
    )
