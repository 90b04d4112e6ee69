"""`rspo claims` and `rspo study`: measure, and write tables and pages (docs/files.md)."""

from collections.abc import Sequence
from math import inf, isnan
from typing import Any

import pandas as pd

from rspo.analysis import studies
from rspo.analysis.claims import CLAIMS, Claim, planned, task
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
from rspo.analysis.trainings import bases, chosen_lines, method_rows, origins
from rspo.config.experiment import Experiment
from rspo.core.files import write_text
from rspo.core.tables import write_csv
from rspo.evaluation.statistics import LEVEL
from rspo.pipeline.run import run

CLAIM_COLUMNS = [
    *("claim", "title", "hypothesis", "comparison", "estimate", "low", "high", "p"),
    *("verdict", "comparisons", "cells", "seeds", "problems", "samples", "scale", "note"),
]
ONE_SEED = "one training seed: the interval does not cover training variance"
Setting = tuple[str, str]  # method and variant


def write_claims(experiment: Experiment, force: bool = False) -> None:
    """Test every claim and write the two tables."""
    made = task(experiment)
    claims_csv, comparisons_csv = made.outputs

    def work() -> None:
        plan, reasons = planned(experiment)
        measurer = Measurer(experiment)
        comparisons = with_p_values([measurer.measure(one) for one in plan])
        write_comparisons(comparisons_csv, comparisons)
        claims = []
        for name, claim in CLAIMS.items():
            row = _claim_row(claim, [one for one in comparisons if one["claim"] == name])
            if name in reasons:
                row["verdict"] = f"{NOT_TESTED}: {reasons[name]}"
            claims.append(row | {"scale": experiment.scale})
        write_csv(claims_csv, pd.DataFrame(claims, columns=CLAIM_COLUMNS))

    run(made, work, force)


def _claim_row(claim: Claim, rows: Sequence[Row]) -> Row:
    """The row of a claim without its scale; of an untested one, also without its verdict."""
    found: Row = dict.fromkeys(CLAIM_COLUMNS, "")
    found |= {"claim": claim.name, "title": claim.title, "hypothesis": claim.hypothesis}
    chosen = deciding(rows)
    if not chosen:
        return found | {"comparisons": 0}
    weakest = max(chosen, key=lambda row: inf if isnan(row["p_for"]) else row["p_for"])
    margins = dict.fromkeys(row["margin"] for row in chosen)
    of_one = any(row["seeds"] == 1 for row in chosen)
    notes = [
        claim.remark,
        *(f"equivalence_margin = {margin:g}" for margin in margins if margin is not None),
        ONE_SEED if of_one else "",
    ]
    cells = dict.fromkeys(cell for row in chosen for cell in row["cells"].split())
    return found | {
        "comparison": weakest["id"],
        **{key: weakest[key] for key in ("estimate", "low", "high", "p")},
        "verdict": verdict(rows),
        "comparisons": len(chosen),
        "cells": " ".join(cells),
        "seeds": min(row["seeds"] for row in chosen),
        "problems": max(row["problems"] or 0 for row in chosen) or "",
        "samples": max(row["samples"] or 0 for row in chosen) or "",
        "note": "; ".join(filter(None, notes)),
    }


def write_study(experiment: Experiment, name: str, force: bool = False) -> None:
    """Measure a study: its comparisons, its methods, and its page."""
    made = studies.task(experiment, name)
    study, experiment = studies.study_of(experiment, name), experiment.of_study(name)
    comparisons_csv, methods_csv, page = made.outputs

    def work() -> None:
        measurer = Measurer(experiment)
        lines = studies.lines_of(experiment, name)
        chosen = chosen_lines(measurer, name, lines)
        plan = studies.planned(experiment, name, chosen)
        rows = with_p_values([measurer.measure(one) for one in plan], name)
        for row in (one for one in rows if one["claim"] and not one["family"]):
            family = studies.claim_family(row["claim"], row["variant"])
            row["outcome"] = verdict([one for one in rows if one["family"] == family])
        table = write_comparisons(comparisons_csv, rows)
        methods = pd.DataFrame(method_rows(measurer, name, lines, chosen))
        write_csv(methods_csv, methods.astype({"trained_k": "Int64"}))
        template = experiment.root / study.page if study.page else FOLDER / "study.md.jinja"
        cells = [cell.name for cell in experiment.cells_of(name)]
        contents = study_contents(experiment, name, table, methods) | {
            "origins": origins(experiment, cells),
            "bases": bases(experiment, cells),
        }
        write_text(page, render(template, contents))

    run(made, work, force)


def study_contents(
    experiment: Experiment,
    name: str,
    table: pd.DataFrame,
    methods: pd.DataFrame,
) -> dict[str, Any]:
    """What the template of a study's page reads of its tables."""
    study = studies.study_of(experiment, name)
    ahead = ahead_of(table, study.frontier) if study.frontier else {}
    lines = [
        {**line, "ahead": ahead.get((line["method"], line["variant"]), [])}
        for line in methods.to_dict("records")
    ]
    return {
        "name": name,
        "scale": experiment.scale,
        "verdicts": bool((table["claim"] != "").any()),
        "study": study,
        **{key: int(table[key].max()) for key in ("seeds", "problems", "samples")},
        "ks": sorted(experiment.of_study(name).config.evaluation.k),
        "alpha": LEVEL,
        "margin": experiment.config.evaluation.equivalence_margin,
        "rows": lambda **wanted: the_rows(table, **wanted),
        "row": lambda **wanted: the_row(table, **wanted),
        "methods": lines,
        "families": table[table["family"] != ""].groupby("family", sort=False)["tests"].first(),
    }


def ahead_of(table: pd.DataFrame, ks: tuple[int, int]) -> dict[Setting, list[Setting]]:
    """For each method and variant, those with a higher Pass@k at both k, by the estimates.

    Those without any are the frontier.

    Args:
        table: the comparisons of a study, which include Pass@k of every method and variant.
    """
    levels = table[(table["method_b"] == "") & (table["claim"] == "") & (table["variant"] != "")]
    by_k = levels.pivot(index=["method_a", "variant"], columns="k", values="estimate")
    points = by_k[[str(k) for k in ks]]
    return {
        setting: [other for other, above in points.iterrows() if (above > point).all()]
        for setting, point in points.iterrows()
    }
