"""The tables that the pages show: as rows for the templates, with the names of their files."""

from collections.abc import Iterator
from pathlib import Path
from statistics import fmean
from typing import Any

import pandas as pd

from rspo.analysis.results import read_comparisons
from rspo.config.experiment import Experiment
from rspo.config.schema import POOLED
from rspo.core.provenance import code_version
from rspo.core.tables import read_csv
from rspo.core.trace import content_of, faults, history, sources
from rspo.datasets.generated import ABOUT
from rspo.evaluation.read_outcomes import scored_samples
from rspo.report import readable, step
from rspo.training.clipping import clipping_warning
from rspo.training.logs import column, read_log
from rspo.training.sampler_difference import sampler_warning

Row = dict[str, Any]  # of a table
_NUMBERS = {
    *("estimate", "low", "high", "lowest", "highest", "error", "error_problems"),
    *("error_seeds", "degrees", "p", "p_adjusted", "margin", "seeds", "problems", "samples"),
    *("responses", "without_answer", "count", "wall_seconds", "cpu_seconds", "gpu_seconds"),
}


def table(path: Path, *columns: str, empty: bool = False) -> pd.DataFrame:
    """A CSV table, with NaN for a number that is empty.

    Args:
        columns: those that Python needs; the templates name the others.

    Raises: InputError, as `read_csv`.
    """
    frame = read_csv(path, *columns, empty=empty)
    numbers = sorted(_NUMBERS.intersection(frame.columns))
    if frame.empty:
        return frame.astype(dict.fromkeys(numbers, float))
    frame[numbers] = frame[numbers].replace("nan", "").apply(pd.to_numeric)
    return frame


_UNITS = {
    "pass_at_k": "points",
    "max_at_k": "reward",
    "entropy": "nats",
    "time_of_dropping": "time",
}
_FACTORS = {"points": 100.0, "time": 100.0}


def comparisons(experiment: Experiment) -> list[Row]:
    """Every comparison of the claims, in the order of the table. Nothing else reads it.

    The numbers are in the row's unit: "points", "reward", "nats" or "time". `margin`: the claim
    says that the value is between -margin and margin; NaN: that it is above 0. `distance`: from the
    estimate to the value it is tested against, above 0 if the estimate is as the claim says.
    `p_for`: the one-sided p-value of the claim about it.

    Raises: InputError for a table that is missing or lacks a column.
    """
    scaled = ["estimate", "error_problems", "error_seeds", "error", "low", "high", "margin"]
    frame = read_comparisons(experiment.reports / "claim_comparisons.csv")
    unit = frame["metric"].map(_UNITS)
    factor = unit.map(_FACTORS).astype(float).fillna(1.0)  # of an empty table: text
    frame[scaled] = frame[scaled].mul(factor, axis="index")
    inside = frame["margin"] - frame["estimate"].abs()
    distance = inside.fillna(frame["estimate"])
    one_sided = (frame["p"] / 2).where(frame["margin"].isna(), frame["p"])  # TOST is not doubled
    frame = frame.assign(
        unit=unit,
        distance=distance,
        p_for=one_sided.where(distance > 0, 1 - frame["p"] / 2),
        decides=frame["decides"] == "yes",
        ks=frame["k"].str.split(),
    )
    return frame.to_dict("records")


def setup(experiment: Experiment) -> dict[str, Any]:
    """The number of responses and of policies, the models, and the problems of each benchmark."""
    frame = table(experiment.table("curves"), "cell", "benchmark", "problems", "samples")
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


def answers(experiment: Experiment) -> list[Row]:
    """Each policy and suite with `share`, that of its responses without an answer, sorted by it."""
    columns = ["policy", "suite", "benchmark", "responses", "without_answer"]
    frame = table(experiment.table("answers"), *columns)
    pooled = frame[frame["benchmark"] == POOLED].drop_duplicates(["policy", "suite"])
    pooled = pooled.assign(share=pooled["without_answer"] / pooled["responses"])
    return pooled.sort_values("share", kind="stable").to_dict("records")


def contamination(experiment: Experiment) -> list[Row]:
    """The pairs of data sets that have problems in common, after normalization."""
    frame = table(experiment.table("contamination"), "set_a", "set_b", "kind", "count")
    frame["of_training"] = (frame["set_a"] == "train") | (frame["set_b"] == "train")
    return frame[(frame["kind"] == "normalized") & (frame["count"] > 0)].to_dict("records")


def warnings(experiment: Experiment) -> list[str]:
    """What the training logs warn of: gradients that were clipped, a sampler with other weights.

    Raises: InputError for a log that is missing or incomplete.
    """
    limit, logs = experiment.config.training.optimizer.gradient_clip, {}
    for cell in experiment.cells:
        remedy = f"`{experiment.command('train', cell)}` finishes it"
        steps = experiment.config.training.steps
        logs[cell] = read_log(experiment.training_log(cell), steps, remedy)
    clipped = {
        cell: fmean(column(experiment.training_log(cell), logs[cell], "gradient_clipped"))
        for cell in logs
        if limit
    }
    return list(filter(None, [clipping_warning(clipped, limit), sampler_warning(logs)]))


def cost(experiment: Experiment) -> list[Row]:
    """The seconds of each policy, training and evaluation together, and of all."""
    seconds = ["wall_seconds", "cpu_seconds", "gpu_seconds"]
    frame = table(experiment.table("cost"), "policy", *seconds)
    sums = frame.groupby("policy", sort=False)[seconds].sum()
    sums.loc["all"] = sums.sum()
    return sums.reset_index().to_dict("records")


def samples(experiment: Experiment) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """For each benchmark a policy and the first of its responses of each kind, or None.

    Raises: InputError for tables that are missing or do not belong together.
    """
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
    """The code that writes the page, faults in its history, and the data behind it.

    Raises: InputError for a damaged provenance file.
    """
    behind = history(step(experiment).input_files)
    return {
        "code": code_version(),
        "faults": faults(behind, contents=False),
        "data": sorted(
            (source, str(path), content_of(behind[path]))
            for source, paths in sources(behind).items()
            for path in paths
        ),
    }
