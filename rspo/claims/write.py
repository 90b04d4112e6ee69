"""`rspo claims`: claims.csv, claim_comparisons.csv and claims.md. docs/files.md has the columns."""

from collections.abc import Mapping, Sequence
from math import isnan
from typing import Any

import pandas as pd

from rspo.claims.catalogue import CLAIMS, Claim, NotTested, planned, step
from rspo.claims.comparisons import ScoreComparison
from rspo.claims.measure import Measurer
from rspo.claims.verdicts import (
    AGAINST,
    FOR,
    NOT_TESTED,
    OPEN,
    Result,
    deciding,
    results_of,
    verdict,
    weakest,
)
from rspo.config.experiment import Experiment
from rspo.core.files import write_text
from rspo.core.tables import write_csv
from rspo.evaluation.statistics import LEVEL

Row = dict[str, Any]
CLAIM_COLUMNS = [
    *("claim", "title", "hypothesis", "comparison", "estimate", "low", "high", "p_adjusted"),
    *("verdict", "comparisons", "cells", "seeds", "problems", "samples", "scale", "note"),
]
COMPARISON_COLUMNS = [
    *("claim", "decides", "comparison", "metric", "k", "benchmark", "margin", "estimate"),
    *("low", "high", "error_within", "error_problems", "error_seeds", "error", "degrees"),
    *("p", "p_adjusted", "outcome", "seeds", "problems", "samples", "cells", "scale"),
]
ONE_SEED = "one training seed: the interval does not cover training variance"


def write_claims(experiment: Experiment, force: bool = False) -> None:
    """Test every claim and write the three files.

    Raises: InputError for scores or training logs that are missing, incomplete or bad.
    """
    made = step(experiment)
    claims_csv, page, comparisons_csv = made.outputs

    def work() -> None:
        measurer = Measurer(experiment)
        results: dict[str, list[Result]] = {}
        claims = []
        for name, plan in planned(experiment).items():
            if isinstance(plan, NotTested):
                results[name] = []
                claims.append(_untested_row(experiment, CLAIMS[name], plan))
            else:
                results[name] = results_of([measurer.of(comparison) for comparison in plan])
                claims.append(_claim_row(experiment, CLAIMS[name], results[name]))
        comparisons = [
            _comparison_row(experiment, name, result)
            for name in results
            for result in results[name]
        ]
        write_csv(claims_csv, pd.DataFrame(claims, columns=CLAIM_COLUMNS))
        write_csv(comparisons_csv, pd.DataFrame(comparisons, columns=COMPARISON_COLUMNS))
        write_text(page, _page(experiment, claims, results))

    made.run(work, force)


def _claim_row(experiment: Experiment, claim: Claim, results: Sequence[Result]) -> Row:
    least = weakest(results)
    estimate = least.measurement.estimate
    low, high = estimate.interval()
    measurements = [result.measurement for result in deciding(results)]
    margins = dict.fromkeys(one.comparison.margin for one in measurements)
    notes = [
        claim.remark,
        *(f"equivalence_margin = {margin:g}" for margin in margins if margin is not None),
        ONE_SEED if any(one.one_seed for one in measurements) else "",
    ]
    cells = dict.fromkeys(cell for one in measurements for cell in one.comparison.policies)
    return {
        "claim": claim.name,
        "title": claim.title,
        "hypothesis": claim.hypothesis,
        "comparison": _label(least),
        "estimate": estimate.value,
        "low": low,
        "high": high,
        "p_adjusted": least.p_adjusted,
        "verdict": verdict(results),
        "comparisons": len(measurements),
        "cells": " ".join(cells),
        "seeds": min(one.seeds for one in measurements),
        "problems": max(one.problems for one in measurements) or "",
        "samples": max(one.samples for one in measurements) or "",
        "scale": experiment.scale,
        "note": "; ".join(filter(None, notes)),
    }


def _untested_row(experiment: Experiment, claim: Claim, reason: NotTested) -> Row:
    row: Row = dict.fromkeys(CLAIM_COLUMNS, "")
    return row | {
        "claim": claim.name,
        "title": claim.title,
        "hypothesis": claim.hypothesis,
        "verdict": f"{NOT_TESTED}: {reason}",
        "comparisons": 0,
        "scale": experiment.scale,
    }


def _comparison_row(experiment: Experiment, claim: str, result: Result) -> Row:
    measurement, comparison = result.measurement, result.measurement.comparison
    scores = comparison if isinstance(comparison, ScoreComparison) else None
    estimate = measurement.estimate
    low, high = estimate.interval()
    return {
        "claim": claim,
        "decides": "yes" if comparison.decides else "no",
        "comparison": comparison.label,
        "metric": scores.metric if scores else "",
        "k": " ".join(map(str, scores.ks)) if scores else "",
        "benchmark": scores.where if scores else "",
        "margin": comparison.margin,
        "estimate": estimate.value,
        "low": low,
        "high": high,
        "error_within": measurement.error_within,
        "error_problems": estimate.error_problems,
        "error_seeds": estimate.error_seeds,
        "error": estimate.error,
        "degrees": estimate.degrees,
        "p": measurement.p,
        "p_adjusted": result.p_adjusted,
        "outcome": result.outcome,
        "seeds": measurement.seeds,
        "problems": measurement.problems or "",
        "samples": measurement.samples or "",
        "cells": " ".join(comparison.policies),
        "scale": experiment.scale,
    }


def _label(result: Result) -> str:
    """A comparison as text: methods, k and benchmark."""
    comparison = result.measurement.comparison
    if not isinstance(comparison, ScoreComparison):
        return comparison.label
    metric = {"pass_at_k": "Pass", "max_at_k": "Max"}[comparison.metric]
    ks = ",".join(map(str, comparison.ks))
    return f"{comparison.label}, {metric}@{ks}, {comparison.where}"


def _page(
    experiment: Experiment, claims: Sequence[Row], results: Mapping[str, Sequence[Result]]
) -> str:
    lines = [
        f"# The paper's claims on our data ({experiment.scale} scale, "
        f"{_count(experiment.config.seeds, 'training seed')})",
        "",
        "A claim is *supported* if each of its comparisons is significantly as it says, and "
        "*contradicted* if one is significantly the opposite (two-sided tests, Holm over the "
        f"claim's comparisons, level {LEVEL}). Estimate, 95 % interval (not adjusted) and adjusted "
        "p are those of the comparison with the weakest evidence for the claim. With one training "
        "seed, a verdict is about the trained policies, not about the methods. With several seeds "
        "it is about the methods, trained from these base policies; seed s of every method uses "
        "the same prompts and random numbers, which the errors ignore. K: the k that methods are "
        "trained for. docs/statistics.md explains the tests.",
        "",
        "| claim | verdict | seeds | estimate | 95 % interval | p |",
        "|---|---|---|---|---|---|",
    ]
    for row in claims:
        numbers = _short(row) if row["comparisons"] else " | | "
        lines.append(
            f"| {row['claim']} {row['title']} | **{row['verdict']}** | {row['seeds']} | {numbers} |"
        )
    for row in claims:
        lines += _section(row, results[row["claim"]])
    return "\n".join(lines) + "\n"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' if number > 1 else ''}"


def _short(row: Mapping[str, Any]) -> str:
    """Estimate, interval and p as cells of a line."""
    interval = "none" if isnan(row["low"]) else f"{row['low']:+.3f} .. {row['high']:+.3f}"
    p = row["p_adjusted"]
    rounded = "< .0001" if p < 1e-4 else f"{p:.4f}".removeprefix("0")
    return f"{row['estimate']:+.3f} | {interval} | {rounded}"


def _section(row: Row, results: Sequence[Result]) -> list[str]:
    lines = ["", f"## {row['claim']}: {row['title']}", "", f"Hypothesis: {row['hypothesis']}.", ""]
    lines += [f"Verdict: **{row['verdict']}**" + (f" ({row['note']})." if row["note"] else ".")]
    if not results:
        return lines
    size = f", {row['problems']} problems x {row['samples']} samples" if row["problems"] else ""
    lines += [
        "",
        f"{_count(row['seeds'], 'seed')}{size}.",
        "",
        "| comparison | estimate | 95 % interval | p | |",
        "|---|---|---|---|---|",
    ]
    for result in deciding(results):
        estimate = result.measurement.estimate
        low, high = estimate.interval()
        numbers = {"low": low, "high": high, "p_adjusted": result.p_adjusted}
        cells = _short({"estimate": estimate.value} | numbers)
        lines.append(f"| {_label(result)} | {cells} | {result.outcome} |")
    rest = [result for result in results if not result.measurement.comparison.decides]
    if rest:
        counts = {way: sum(one.outcome == way for one in rest) for way in (FOR, AGAINST, OPEN)}
        lines += [
            "",
            f"Of {len(rest)} further comparisons for information (claim_comparisons.csv, "
            f"Holm over these), {counts[FOR]} are for the claim, {counts[AGAINST]} against, "
            f"{counts[OPEN]} open.",
        ]
        lines += [f"Against: {_label(one)}." for one in rest if one.outcome == AGAINST]
    lines += ["", "Cells: " + ", ".join(f"`{cell}`" for cell in row["cells"].split()) + "."]
    return lines
