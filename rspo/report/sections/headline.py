"""The section Result: what RSPO does to a group of rewards, and how far it is above the others."""

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from rspo.claims.catalogue import BASELINE, RISK_NEUTRAL
from rspo.config.experiment import Experiment
from rspo.core.tables import read_csv
from rspo.figures import Figure, curves, style
from rspo.figures.methods import label_of
from rspo.objectives import response_weights
from rspo.report import figure_files, figures, table_path
from rspo.report.page_table import PageTable, with_error
from rspo.report.sections.figures import Picture, data_url, inches

# A group of eight responses, the first two of which are right.
_REWARDS = np.array([[1, 1, 0, 0, 0, 0, 0, 0]])
_K = 4
# A method that is trained for k against the baseline for the same k, or against policy gradient.
_PAIR = re.compile(r"RSPO k=(?P<k>\d+) - (?:Baseline k=(?P=k)|(?P<neutral>PG))")
_AGAINST = {False: "the baseline", True: "policy gradient"}
_NAMES = {"pass_at_k": "Pass@", "max_at_k": "Max@"}


@dataclass(frozen=True)
class Difference:
    """RSPO minus another method, in percentage points; both are evaluated at RSPO's own k."""

    k: int
    against: str
    estimate: float
    low: float
    high: float

    @property
    def text(self) -> str:
        half = (self.high - self.low) / 2
        value, error = with_error(self.estimate, half)
        zero = ", not significant" if self.low <= 0 <= self.high else ""
        return f"{value} ± {error} (k = {self.k}{zero})"


@dataclass(frozen=True)
class Headline:
    """group: a worked group of responses; sentence and picture: None without such comparisons."""

    group: PageTable
    sentence: str | None
    picture: Picture | None


def headline(experiment: Experiment) -> Headline:
    """Read the claims' comparisons of fig_main's policies, or else of the first figure like it.

    Raises: InputError for a table that is missing or lacks a column.
    """
    figure = main_figure(experiment)
    differences = _differences(experiment, figure) if figure else []
    if not differences:
        return Headline(worked_group(), None, None)
    name = _NAMES[figure.metric] if figure else ""
    return Headline(worked_group(), _sentence(name, differences), _picture(name, differences))


def main_figure(experiment: Experiment) -> Figure | None:
    """fig_main, or else the first figure of curves; a figure of one's own may have other tables."""
    candidates = {f.name: f for f in figures(experiment) if f.table is curves.table}
    return candidates.get(curves.MAIN.name) or next(iter(candidates.values()), None)


def worked_group() -> PageTable:
    """The weights of three objectives for one group of rewards."""
    rows = [["reward", *(str(reward) for reward in _REWARDS[0])]]
    for objective in (RISK_NEUTRAL, BASELINE, "rspo_pass_at_k"):
        k = None if objective == RISK_NEUTRAL else _K
        weights = response_weights(_REWARDS, objective, k)[0]
        rows.append([label_of(objective, k), *(f"{weight:.3g}" for weight in weights)])
    right = int(_REWARDS.sum())
    return PageTable(
        f"Weights of {_REWARDS.size} responses to a prompt, {right} of them right, for k = {_K}",
        ["response", *(str(number + 1) for number in range(_REWARDS.size))],
        rows,
    )


def _differences(experiment: Experiment, figure: Figure) -> list[Difference]:
    chosen = comparisons_of(experiment, figure)
    found = {}
    for row in chosen.to_dict("records"):
        match = _PAIR.fullmatch(row["comparison"])
        if match and match["k"] == row["k"]:
            values = (100 * float(row[key]) for key in ("estimate", "low", "high"))
            against = _AGAINST[bool(match["neutral"])]
            found[against, int(row["k"])] = Difference(int(row["k"]), against, *values)
    return [found[key] for key in sorted(found)]


def comparisons_of(experiment: Experiment, figure: Figure) -> pd.DataFrame:
    """The claims' comparisons "this is above 0" of a figure's policies, on all of its problems.

    Raises: InputError for a table that is missing or lacks a column.
    """
    columns = ("claim", "decides", "comparison", "metric", "k", "benchmark", "margin", "estimate")
    path = table_path(experiment, "claim_comparisons")
    frame = read_csv(path, *columns, "low", "high", "outcome", "problems", "cells", empty=True)
    curves_of_figure = read_csv(figure_files(experiment, figure)[1], "benchmark", "problems")
    pooled = curves_of_figure[curves_of_figure["benchmark"] == "pooled"]
    policies = set(figure.policies(experiment))
    return frame[
        (frame["metric"] == figure.metric)
        & (frame["benchmark"] == "pooled")
        & (frame["margin"] == "")
        & frame["problems"].isin(pooled["problems"])  # not of another suite
        & frame["cells"].map(lambda cells: policies.issuperset(cells.split()))
    ]


def _sentence(name: str, differences: Sequence[Difference]) -> str:
    parts = []
    for against in _AGAINST.values():
        if own := [one for one in differences if one.against == against]:
            values = ", ".join(one.text for one in own)
            parts.append(f"{_relation(own)} {against}'s by {values}")
    return f"Evaluated at the k that it is trained for, RSPO's {name}k {' and '.join(parts)}."


def _relation(differences: Sequence[Difference]) -> str:
    if all(one.low > 0 for one in differences):
        return "is above"
    if all(one.high < 0 for one in differences):
        return "is below"
    return "differs from"


def _picture(name: str, differences: Sequence[Difference]) -> Picture:
    frame = pd.DataFrame([vars(one) for one in differences])
    png = _draw(name, frame)
    table = frame.assign(
        **{key: frame[key].map("{:.2f}".format) for key in ("estimate", "low", "high")}
    )
    return Picture(
        "differences",
        f"RSPO minus the other method, both evaluated at {name}k for the k that RSPO is trained "
        "for (the baseline is trained for the same k), all problems pooled; bars are 95 % "
        "intervals of the paired difference, not adjusted.",
        f"Differences of {name}k to the baseline and to policy gradient at each k",
        data_url(png),
        inches(png, style.DOTS_PER_INCH // 2),
        PageTable(
            "Every difference, in percentage points",
            list(table.columns),
            table.astype(str).to_numpy().tolist(),
        ),
    )


def _draw(name: str, frame: pd.DataFrame) -> bytes:
    colours = {"the baseline": style.SKY, "policy gradient": style.INK}
    ks = sorted(frame["k"].unique())
    with style.applied():
        picture = style.new_picture(style.COLUMN_WIDTH, 2.0)
        axes = picture.subplots()
        axes.axhline(0, color=style.FAINT, linewidth=0.8)
        for shift, (against, rows) in zip((-0.08, 0.08), frame.groupby("against"), strict=False):
            axes.errorbar(
                [ks.index(k) + shift for k in rows["k"]],
                rows["estimate"],
                [rows["estimate"] - rows["low"], rows["high"] - rows["estimate"]],
                fmt="o",
                markersize=4,
                color=colours[str(against)],
                label=f"RSPO - {against}",
            )
        axes.set_xticks(range(len(ks)), [f"{name}{k}" for k in ks])
        axes.set_xlim(-0.5, len(ks) - 0.5)
        axes.set_ylabel("percentage points")
        picture.legend(loc="outside lower center", ncols=2)
        stream = io.BytesIO()
        dots = style.DOTS_PER_INCH // 2
        picture.savefig(stream, format="png", dpi=dots, metadata={"Software": None})
    return stream.getvalue()
