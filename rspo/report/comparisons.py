"""The comparisons of the claims as the pages show them: each with its unit, and rounded."""

import math
from dataclasses import dataclass

from rspo.analysis.results import read_comparisons
from rspo.config.experiment import Experiment
from rspo.config.schema import POOLED
from rspo.evaluation.statistics import Estimate
from rspo.report import table_path
from rspo.report.rounding import interval, plus_minus

METRICS = {"pass_at_k": "Pass", "max_at_k": "Max"}
_NUMBERS = ("estimate", "low", "high", "error_problems", "error_seeds", "error", "degrees")
_TESTED = ("p", "p_adjusted")


@dataclass(frozen=True)
class Unit:
    """factor: from the numbers in the tables to those on the page."""

    name: str
    factor: float = 1.0


POINTS = Unit("percentage points", 100.0)
REWARD = Unit("units of reward")
NATS = Unit("nats per token")
TIME = Unit("% of the training time", 100.0)
_UNITS = {"pass_at_k": POINTS, "max_at_k": REWARD, "entropy": NATS, "time_of_dropping": TIME}


@dataclass(frozen=True)
class ComparisonRow:
    """One comparison; its numbers are in its unit, NaN where they are unknown.

    margin: the claim says that the value is between -margin and margin; NaN: that it is above 0.
    outcome: "for" or "against" the claim, or "open".
    """

    label: str
    unit: Unit
    decides: bool
    estimate: Estimate
    low: float
    high: float
    margin: float
    p: float
    p_adjusted: float
    outcome: str
    seeds: int
    problems: int

    @property
    def distance(self) -> float:
        """From the estimate to the value it is tested against; above 0: as the claim says."""
        value = self.estimate.value
        return value if math.isnan(self.margin) else self.margin - abs(value)

    @property
    def p_for(self) -> float:
        """One-sided p-value of the claim about this comparison."""
        return self.p / 2 if self.distance > 0 else 1 - self.p / 2

    @property
    def value(self) -> str:
        """The estimate as text; with an interval, rounded by it."""
        value = self.estimate.value
        if math.isnan(self.low):
            return f"{value:+.2g}".replace("-", "\u2212")
        return plus_minus(value, self.low, self.high)

    @property
    def interval(self) -> str:
        return "unknown" if math.isnan(self.low) else interval(self.low, self.high)


def tested(experiment: Experiment) -> dict[str, list[ComparisonRow]]:
    """The comparisons of every claim that has some, in the order of the table.

    Raises: InputError for a table that is missing or lacks a column.
    """
    rows = read_comparisons(table_path(experiment, "claim_comparisons"))
    result: dict[str, list[ComparisonRow]] = {}
    for row in rows.to_dict("records"):
        result.setdefault(row["claim"], []).append(_tested(row, _UNITS[row["metric"]]))
    return result


def _tested(row: "dict[str, object]", unit: Unit) -> ComparisonRow:
    values = {name: float(str(row[name])) for name in (*_NUMBERS, "margin")}
    degrees = values.pop("degrees")
    values = {name: unit.factor * value for name, value in values.items()}
    errors = (values["error_problems"], values["error_seeds"], values["error"])
    return ComparisonRow(
        label=_label(row),
        unit=unit,
        decides=row["decides"] == "yes",
        estimate=Estimate(values["estimate"], *errors, degrees),
        low=values["low"],
        high=values["high"],
        margin=values["margin"],
        p=float(str(row["p"])),
        p_adjusted=float(str(row["p_adjusted"])),
        outcome=str(row["outcome"]),
        seeds=int(float(str(row["seeds"]))),
        problems=int(float(str(row["problems"]))) if row["problems"] == row["problems"] else 0,
    )


def _label(row: "dict[str, object]") -> str:
    """Methods, k and problems in words."""
    methods = " - ".join(filter(None, (str(row["method_a"]), str(row["method_b"]))))
    if row["metric"] not in METRICS:
        return methods
    ks = str(row["k"]).split()
    metric = f"{METRICS[str(row['metric'])]}@{', '.join(ks)}"
    mean = "mean of " if len(ks) > 1 else ""
    where = "all problems" if row["where"] == POOLED else str(row["where"])
    return f"{methods}, {mean}{metric}, {where}"
