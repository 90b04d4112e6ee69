"""`rspo claims` and `rspo study`: measure, and write tables and pages (docs/files.md)."""

from collections.abc import Sequence
from math import inf, isnan
from typing import Any

import pandas as pd

from rspo.analysis import studies
from rspo.analysis.bootstrap import tail_of
from rspo.analysis.choice import chosen_lines
from rspo.analysis.claims import Claim, claims_of, planned, task
from rspo.analysis.measure import Measurer
from rspo.analysis.pages import FOLDER, render, the_row, the_rows
from rspo.analysis.results import (
    NOT_TESTED,
    Row,
    deciding,
    verdict,
    with_p_values,
    write_comparisons,
)
from rspo.analysis.study_columns import bases, method_rows, origins
from rspo.config.experiment import Experiment
from rspo.core.files import write_text
from rspo.core.tables import write_csv
from rspo.evaluation.statistics import LEVEL
from rspo.objectives import OBJECTIVES
from rspo.pipeline.run import run

CLAIM_COLUMNS = [
    "claim",
    "title",
    "hypothesis",
    "comparison",
    "estimate",
    "low",
    "high",
    "p",
    "verdict",
    "comparisons",
    "cells",
    "seeds",
    "problems",
    "samples",
    "scale",
    "note",
]
ONE_SEED = "one training seed: the interval does not cover training variance"
Setting = tuple[str, str]  # method and variant


def write_claims(experiment: Experiment, force: bool = False) -> None:
    """Test every claim and write the two tables."""
    claims_task = task(experiment)
    claims_csv, comparisons_csv = claims_task.outputs

    def work() -> None:
        plan, reasons = planned(experiment)
        measurer = Measurer(experiment)
        rows = with_p_values([measurer.measure(comparison) for comparison in plan])
        write_comparisons(comparisons_csv, rows)
        claims = []
        for name, claim in claims_of(experiment).items():
            row = _claim_row(claim, [row for row in rows if row["claim"] == name])
            if name in reasons:
                row["verdict"] = f"{NOT_TESTED}: {reasons[name]}"
            claims.append(row | {"scale": experiment.scale})
        write_csv(claims_csv, pd.DataFrame(claims, columns=CLAIM_COLUMNS))

    run(claims_task, work, force)


def _claim_row(claim: Claim, rows: Sequence[Row]) -> Row:
    """The row of a claim without its scale, which the caller adds.

    The row of an untested claim has no verdict either: the caller writes why it is not tested.

    Args:
        rows: the comparisons of the claim.
    """
    claim_row: Row = dict.fromkeys(CLAIM_COLUMNS, "")
    claim_row |= {"claim": claim.name, "title": claim.title, "hypothesis": claim.hypothesis}
    chosen = deciding(rows)
    if not chosen:
        return claim_row | {"comparisons": 0}
    # The claim is as strong as its weakest comparison, which the row shows. A comparison without a
    # p-value is weaker than any other.
    weakest = max(chosen, key=lambda row: inf if isnan(row["p_for"]) else row["p_for"])
    cells = dict.fromkeys(cell for row in chosen for cell in row["cells"].split())
    return claim_row | {
        "comparison": weakest["id"],
        "estimate": weakest["estimate"],
        "low": weakest["low"],
        "high": weakest["high"],
        "p": weakest["p"],
        "verdict": verdict(rows),
        "comparisons": len(chosen),
        "cells": " ".join(cells),
        "seeds": min(row["seeds"] for row in chosen),
        "problems": max(row["problems"] or 0 for row in chosen) or "",
        "samples": max(row["samples"] or 0 for row in chosen) or "",
        "note": _note(claim, chosen),
    }


def _note(claim: Claim, rows: Sequence[Row]) -> str:
    """What a reader of a claim's verdict should know.

    Args:
        rows: the comparisons that decide the claim.
    """
    notes = [claim.remark] if claim.remark else []
    for margin in dict.fromkeys(row["margin"] for row in rows):
        if margin is not None:
            notes.append(f"equivalence_margin = {margin:g}")
    if any(row["seeds"] == 1 for row in rows):
        notes.append(ONE_SEED)
    return "; ".join(notes)


def write_study(experiment: Experiment, name: str, force: bool = False) -> None:
    """Measure a study: its comparisons, its methods, and its page."""
    study_task = studies.task(experiment, name)
    study = studies.study_of(experiment, name)
    experiment = experiment.of_study(name)  # a study may have its own k and number of samples
    comparisons_csv, methods_csv, page = study_task.outputs

    def work() -> None:
        measurer = Measurer(experiment)
        lines = studies.lines_of(experiment, name)
        chosen = chosen_lines(measurer, name, lines)
        plan = studies.planned(experiment, name, chosen)
        rows = with_p_values([measurer.measure(comparison) for comparison in plan], name)
        _add_verdicts(rows)
        table = write_comparisons(comparisons_csv, rows)
        methods = pd.DataFrame(method_rows(measurer, name, lines, chosen))
        # Whole numbers, and nothing for objectives without k.
        write_csv(methods_csv, methods.astype({"trained_k": "Int64"}))
        template = experiment.root / study.page if study.page else FOLDER / "study.md.jinja"
        every_cell = [cell.name for cell in experiment.cells_of(name)]
        cells = [cell for cell in every_cell if not experiment.is_derived(cell)]
        contents = study_contents(experiment, name, table, methods) | {
            "origins": origins(experiment, cells),
            "bases": bases(experiment, cells),
        }
        write_text(page, render(template, contents))

    run(study_task, work, force)


def _add_verdicts(rows: Sequence[Row]) -> None:
    """Write the verdict on each claim into the row with the claim's estimate.

    The row with an estimate has a claim, but no family.
    """
    for row in rows:
        if row["claim"] and not row["family"]:
            family = studies.claim_family(row["claim"], row["variant"])
            row["outcome"] = verdict([other for other in rows if other["family"] == family])


def study_contents(
    experiment: Experiment,
    name: str,
    table: pd.DataFrame,
    methods: pd.DataFrame,
) -> dict[str, Any]:
    """The names that the template of a study's page may use, with their values.

    Args:
        table: the comparisons of the study.
        methods: the rows of `method_rows`.
    """
    study = studies.study_of(experiment, name)
    ahead = ahead_of(table, study.frontier) if study.frontier else {}
    lines = methods.to_dict("records")
    for line in lines:
        line["ahead"] = ahead.get((line["method"], line["variant"]), [])
        # The k at which its rate is chosen, and those at which it is the best one in validation.
        line["chosen_ks"] = _numbers(line.get("chosen_at", ""))
        line["best_ks"] = _numbers(line.get("best_at", ""))
        line["has_k"] = OBJECTIVES[line["objective"]].has_k
    return {
        "name": name,
        "scale": experiment.scale,
        "verdicts": bool((table["claim"] != "").any()),
        "study": study,
        "seeds": int(table["seeds"].max()),
        "problems": int(table["problems"].max()),
        "samples": int(table["samples"].max()),
        "ks": sorted(experiment.of_study(name).config.evaluation.k),
        "alpha": LEVEL,
        # The share of the resamples in which an order must hold to be shown.
        "order_share": 1 - tail_of(int(table["seeds"].max())),
        # The learning rate of the model, which a variant may change.
        "shared_rate": experiment.config.models[study.cells[0].model].learning_rate,
        "margin": experiment.config.evaluation.equivalence_margin,
        "varied_by_seed": experiment.varied_by_seed,
        # How many training seeds the choice of the variants follows.
        "chooser": studies.chooser(experiment, name),
        "chooser_seeds": len({cell.seed for cell in experiment.cells_of(study.choose_in or name)}),
        "rows": lambda **wanted: the_rows(table, **wanted),
        "row": lambda **wanted: the_row(table, **wanted),
        "methods": lines,
        "families": table[table["family"] != ""].groupby("family", sort=False)["tests"].first(),
    }


def _numbers(text: str) -> list[int]:
    """Whole numbers between spaces."""
    return [int(word) for word in str(text).split()]


def ahead_of(table: pd.DataFrame, ks: tuple[int, int]) -> dict[Setting, list[Setting]]:
    """For each method and variant, the others whose estimate of Pass@k is higher at both k.

    Those of which no other is ahead are the frontier.

    Args:
        table: the comparisons of a study, which include Pass@k of every method and variant.
    """
    # Levels of trained methods: not differences, not estimates of claims, not the base model.
    levels = table[(table["method_b"] == "") & (table["claim"] == "") & (table["variant"] != "")]
    by_k = levels.pivot(index=["method_a", "variant"], columns="k", values="estimate")
    points = by_k[[str(k) for k in ks]]
    return {
        setting: [other for other, above in points.iterrows() if (above > point).all()]
        for setting, point in points.iterrows()
    }
