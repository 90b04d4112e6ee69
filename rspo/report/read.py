"""What the pages show: tables as rows for the templates, and what follows from them."""

from base64 import b64encode
from collections import Counter
from collections.abc import Iterator
from math import inf, isnan, nan, sqrt
from statistics import fmean
from typing import Any

import pandas as pd

from rspo.analysis.claims import TRANSFER
from rspo.analysis.results import (
    AGAINST,
    CONTRADICTED,
    DOES_NOT_TRANSFER,
    FOR,
    NOT_RESOLVED,
    NOT_TESTED,
    OPEN,
    SUPPORTED,
    TIE,
    Row,
    read_rows,
    shown_by,
)
from rspo.config.experiment import Experiment
from rspo.config.schema import POOLED
from rspo.core.tables import CURVES, read_frame
from rspo.datasets.generated import ABOUT
from rspo.evaluation.read_outcomes import scored_samples
from rspo.evaluation.statistics import Estimate
from rspo.figures import Figure, curves, difference, figures_of
from rspo.figures.methods import model_labels
from rspo.pipeline import tasks
from rspo.pipeline.provenance import code_version
from rspo.pipeline.trace import content_of, history, sources
from rspo.report import figures, readable, task
from rspo.training.logs import clipping_warning, column, read_log, sampler_warning

_FACTORS = {"pass_at_k": 100.0, "max_at_k": 1.0, "entropy": 1.0, "time_of_dropping": 100.0}
_SCALED = ["estimate", "error_problems", "error_seeds", "error", "low", "high"]
_SCALED += ["margin", "tie_margin"]
# How verdicts begin, in the order in which pages count them.
_VERDICTS = (SUPPORTED, CONTRADICTED, TIE, DOES_NOT_TRANSFER, NOT_RESOLVED, NOT_TESTED)
MOST_SEEDS = 1000  # to ask for


# --- what the pages conclude ----------------------------------------------------------------------


def headline(experiment: Experiment) -> dict[str, Any]:
    """The models and the rows of fig_difference, each with its `outcome`.

    That is "above" or "below", if the difference is significant, else "tie" or "open".
    """
    rows = _drawn(experiment, difference.FIGURE)
    for row in rows:
        row["outcome"] = shown_by(row)
    policies = difference.FIGURE.policies(experiment) if rows else []
    return {"models": model_labels(experiment, policies), "rows": rows}


def main_table(experiment: Experiment) -> dict[str, list[Row]]:
    """The rows of each method on the pooled problems of fig_main."""
    methods: dict[str, list[Row]] = {}
    for row in _drawn(experiment, curves.MAIN):
        if row["benchmark"] == POOLED:
            methods.setdefault(row["method"], []).append(row)
    return methods


def _drawn(experiment: Experiment, figure: Figure) -> list[Row]:
    """The rows of a figure's table; none for a scale without the figure."""
    if figure.name not in figures_of(experiment):
        return []
    return read_rows(figure.task(experiment).outputs[2]).to_dict("records")


def claims(experiment: Experiment) -> list[Row]:
    """The rows of claims.csv, each with the comparisons that decide it.

    `verdict` is without its `reason`, which untested claims have.
    `weakest`: the comparison with the weakest evidence, or None. `not_as_claimed`: the comparisons
    that are against the claim, then the open ones by p, then the ties, each with `seeds_to_halve`.
    `transfer`: differences between two suites.
    """
    every = _comparisons(experiment)
    tested = [one for one in every if one["decides"] == "yes"]
    by_id = {one["id"]: one for one in every}
    found = read_rows(experiment.reports / "claims.csv").to_dict("records")
    for row in found:
        verdict, _, reason = row["verdict"].partition(": ")
        deciding = [one for one in tested if one["claim"] == row["claim"]]
        others = [one for one in deciding if one["outcome"] != FOR]
        others.sort(key=_place)
        row |= {
            "verdict": verdict,
            "reason": reason,
            "deciding": deciding,
            "transfer": [one for one in every if one["family"] == TRANSFER],
            "weakest": by_id[row["comparison"]] if deciding else None,
            "not_as_claimed": others,
        }
        for one in others:
            one["seeds_to_halve"] = _seeds_to_halve(one)
    return found


def _place(one: Row) -> tuple[int, float]:
    """The place of a comparison that is not as claimed: by its outcome, and if it is open by p."""
    p = inf if isnan(one["p"]) else one["p"]
    return [AGAINST, OPEN, TIE].index(one["outcome"]), p if one["outcome"] == OPEN else 0.0


def by_verdict(claims: list[Row]) -> list[tuple[str, int]]:
    """Each verdict, without the reason that it may have, and the number of claims with it."""
    counts = Counter(claim["verdict"] for claim in claims)
    return [
        (verdict, count)
        for start in _VERDICTS
        for verdict, count in counts.items()
        if verdict.startswith(start)
    ]


def _comparisons(experiment: Experiment) -> list[Row]:
    """Every comparison of the claims; of Pass@k and of time in percent."""
    frame = read_rows(experiment.reports / "claim_comparisons.csv")
    frame[_SCALED] = frame[_SCALED].mul(frame["metric"].map(_FACTORS).astype(float), axis="index")
    return frame.assign(ks=frame["k"].str.split()).to_dict("records")


def _seeds_to_halve(one: Row) -> float:
    """The number of seeds with which the interval of a comparison is half as wide.

    NaN with one seed; infinite if `MOST_SEEDS` are not enough (docs/statistics.md).
    """
    if isnan(one["error_seeds"]) or isnan(one["error"]) or one["error"] == 0:
        return nan
    half = (one["high"] - one["low"]) / 2
    of_problems = max(0.0, one["error"] ** 2 - one["error_seeds"] ** 2)  # does not fall
    for seeds in range(int(one["seeds"]) + 1, MOST_SEEDS + 1):
        fewer = one["seeds"] / seeds
        of_seeds = one["error_seeds"] ** 2 * fewer
        error_problems = sqrt(of_problems + (one["error_problems"] ** 2 - of_problems) * fewer)
        error = sqrt(of_problems + of_seeds)
        expected = Estimate(0.0, error_problems, sqrt(of_seeds), error, one["degrees"], seeds)
        if expected.interval()[1] <= half / 2:
            return seeds
    return inf


# --- what was run ---------------------------------------------------------------------------------


def pictures(experiment: Experiment) -> Iterator[Row]:
    """The figures, results before formulas, with their captions and pictures."""
    for figure in figures(experiment):
        image = figure.task(experiment).outputs[1]
        yield {
            "figure": figure,
            "alt": figure.caption.partition(";")[0],  # without the details
            "png": b64encode(image.read_bytes()).decode(),
        }


def setup(experiment: Experiment) -> dict[str, Any]:
    """The number of responses and of policies, the models, and the problems of each benchmark."""
    frame = pd.concat(read_frame(path, CURVES) for path, _ in tasks.every_curve(experiment))
    sizes = frame[frame["benchmark"] != POOLED].drop_duplicates(["cell", "benchmark"])
    problems = sizes.set_index("benchmark")["problems"].to_dict()
    suites = experiment.config.data.suites.values()
    labels = {name: one.label for suite in suites for name, one in suite.items()}
    models = dict.fromkeys(cell.model for cell in experiment.cells.values())
    return {
        "models": [experiment.config.models[model].label for model in models],
        "responses": (sizes["problems"] * sizes["samples"]).sum(),
        "policies": sizes["cell"].nunique(),
        "benchmarks": [(labels[name], problems[name]) for name in labels if name in problems],
    }


def warnings(experiment: Experiment) -> list[str]:
    """What the training logs warn of: gradients that were clipped, a sampler with other weights."""
    logs = {cell: read_log(experiment, cell) for cell in experiment.cells}
    clipped = {
        cell: fmean(column(experiment.training_log(cell), log, "gradient_clipped"))
        for cell, log in logs.items()
    }
    sentences = [clipping_warning(clipped), sampler_warning(logs)]
    return [sentence for sentence in sentences if sentence]


def cost(experiment: Experiment) -> list[Row]:
    """The seconds of each policy, training and evaluation together, and of all."""
    seconds = ["wall_seconds", "cpu_seconds", "gpu_seconds"]
    frame = read_rows(experiment.table("cost"))
    sums = frame.groupby("policy", sort=False)[seconds].sum()
    sums.loc["all"] = sums.sum()
    return sums.reset_index().to_dict("records")


def samples(experiment: Experiment) -> Iterator[tuple[str, str, Row]]:
    """For each benchmark a policy and the first of its responses of each kind, or None."""
    for policy, benchmark in readable(experiment):
        frame = scored_samples(experiment, policy, benchmark)
        of_problem = frame.groupby("problem_id")["correct"]
        frame = frame.assign(right=of_problem.transform("sum"), total=of_problem.transform("size"))
        kinds = {
            "right": frame[frame["correct"]].head(1),
            "wrong": frame[~frame["correct"]].head(1),
            "longest": frame.loc[[frame["tokens"].idxmax()]],
        }
        first = {kind: next(iter(part.to_dict("records")), None) for kind, part in kinds.items()}
        yield benchmark, policy, first


def families(experiment: Experiment, benchmark: str) -> list[str]:
    """What the problems of a generated benchmark ask; empty for another one."""
    generated = experiment.data_set(benchmark).generated
    return [ABOUT[family] for family in generated.families] if generated else []


def provenance(experiment: Experiment) -> dict[str, Any]:
    """The code that writes the page, and the data behind it."""
    behind = history(task(experiment).input_files)
    return {
        "code": code_version(),
        "data": sorted(
            (source, str(path), content_of(behind[path]))
            for source, paths in sources(behind).items()
            for path in paths
        ),
    }
