"""`rspo claims`: claims.csv, claim_comparisons.csv and claims.md. docs/files.md has the columns."""

import csv
import math
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from rspo.claims.catalogue import CLAIMS, Claim, NotTested, inputs, planned
from rspo.claims.comparisons import ScoreComparison
from rspo.claims.measure import Measures
from rspo.claims.verdicts import (
    AGAINST,
    FOR,
    LEVEL,
    NOT_TESTED,
    OPEN,
    Judged,
    deciding,
    judge,
    verdict,
    weakest,
)
from rspo.config import fingerprints
from rspo.config.experiment import Experiment
from rspo.core.files import atomic_write
from rspo.core.provenance import write_provenance

Row = dict[str, Any]
CLAIM_COLUMNS = (
    *("claim", "title", "hypothesis", "comparison", "estimate", "low", "high", "p_adjusted"),
    *("verdict", "comparisons", "cells", "seeds", "problems", "samples", "scale", "note"),
)
COMPARISON_COLUMNS = (
    *("claim", "decides", "comparison", "metric", "k", "benchmark", "margin", "estimate"),
    *("low", "high", "error_within", "error_problems", "error_seeds", "error", "degrees"),
    *("p", "p_adjusted", "outcome", "seeds", "problems", "samples", "cells", "scale"),
)
ONE_SEED = "one training seed: the interval does not cover training variance"


def outputs(experiment: Experiment) -> list[Path]:
    """The files that `write_claims` writes."""
    folder = experiment.results / "tables"
    return [folder / name for name in ("claims.csv", "claim_comparisons.csv", "claims.md")]


def write_claims(experiment: Experiment) -> None:
    """Check every claim and write the three files, all or none.

    Raises: InputError for scores or training logs that are missing, incomplete or bad.
    """
    plans = planned(experiment)
    measures = Measures(experiment)
    judged = {
        name: [] if isinstance(plan, NotTested) else judge([measures.of(one) for one in plan])
        for name, plan in plans.items()
    }
    reasons = {name: plan for name, plan in plans.items() if isinstance(plan, NotTested)}
    claims = [
        _untested(experiment, claim, reasons[name])
        if name in reasons
        else _tested(experiment, claim, judged[name])
        for name, claim in CLAIMS.items()
    ]
    rows = [_comparison(experiment, name, one) for name in CLAIMS for one in judged[name]]
    paths = outputs(experiment)
    with ExitStack() as stack:
        first, second, third = (stack.enter_context(atomic_write(path)) for path in paths)
        _write_csv(first, CLAIM_COLUMNS, claims)
        _write_csv(second, COMPARISON_COLUMNS, rows)
        third.write_text(_page(experiment, claims, judged))
    for path in paths:
        write_provenance(path, fingerprints.settings(experiment, "claims"), inputs(experiment))


# --- rows -----------------------------------------------------------------------------------------


def _tested(experiment: Experiment, claim: Claim, judged: Sequence[Judged]) -> Row:
    least = weakest(judged)
    found = least.measured
    low, high = found.estimate.interval()
    measured = [one.measured for one in deciding(judged)]
    margins = dict.fromkeys(one.comparison.margin for one in measured)
    notes = [
        claim.remark,
        *(f"equivalence_margin = {margin:g}" for margin in margins if margin is not None),
        ONE_SEED if any(one.one_seed for one in measured) else "",
    ]
    cells = dict.fromkeys(cell for one in measured for cell in one.comparison.policies)
    return {
        "claim": claim.name,
        "title": claim.title,
        "hypothesis": claim.hypothesis,
        "comparison": _label(least),
        "estimate": found.estimate.value,
        "low": _number(low),
        "high": _number(high),
        "p_adjusted": least.p_adjusted,
        "verdict": verdict(judged),
        "comparisons": len(measured),
        "cells": " ".join(cells),
        "seeds": min(one.seeds for one in measured),
        "problems": max(one.problems for one in measured) or "",
        "samples": max(one.samples for one in measured) or "",
        "scale": experiment.scale,
        "note": "; ".join(filter(None, notes)),
    }


def _untested(experiment: Experiment, claim: Claim, reason: NotTested) -> Row:
    row: Row = dict.fromkeys(CLAIM_COLUMNS, "")
    return row | {
        "claim": claim.name,
        "title": claim.title,
        "hypothesis": claim.hypothesis,
        "verdict": f"{NOT_TESTED}: {reason}",
        "comparisons": 0,
        "scale": experiment.scale,
    }


def _comparison(experiment: Experiment, claim: str, judged: Judged) -> Row:
    found, comparison = judged.measured, judged.measured.comparison
    scores = comparison if isinstance(comparison, ScoreComparison) else None
    estimate = found.estimate
    low, high = estimate.interval()
    return {
        "claim": claim,
        "decides": "yes" if comparison.decides else "no",
        "comparison": comparison.label,
        "metric": scores.metric if scores else "",
        "k": " ".join(map(str, scores.ks)) if scores else "",
        "benchmark": scores.where if scores else "",
        "margin": "" if comparison.margin is None else comparison.margin,
        "estimate": estimate.value,
        "low": _number(low),
        "high": _number(high),
        "error_within": _number(found.error_within),
        "error_problems": _number(estimate.error_problems),
        "error_seeds": _number(estimate.error_seeds),
        "error": _number(estimate.error),
        "degrees": _number(estimate.degrees),
        "p": found.p,
        "p_adjusted": judged.p_adjusted,
        "outcome": judged.outcome,
        "seeds": found.seeds,
        "problems": found.problems or "",
        "samples": found.samples or "",
        "cells": " ".join(comparison.policies),
        "scale": experiment.scale,
    }


def _label(judged: Judged) -> str:
    """A comparison in words: what, at which k, where."""
    comparison = judged.measured.comparison
    if not isinstance(comparison, ScoreComparison):
        return comparison.label
    metric = {"pass_at_k": "Pass", "max_at_k": "Max"}[comparison.metric]
    ks = ",".join(map(str, comparison.ks))
    return f"{comparison.label}, {metric}@{ks}, {comparison.where}"


def _number(value: float) -> float | str:
    """Empty where there is none."""
    return "" if math.isnan(value) else value


def _write_csv(path: Path, columns: Sequence[str], rows: Sequence[Row]) -> None:
    with path.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


# --- the page -------------------------------------------------------------------------------------


def _page(experiment: Experiment, claims: Sequence[Row], judged: dict[str, list[Judged]]) -> str:
    seeds = experiment.config.seeds
    lines = [
        f"# The paper's claims on our data ({experiment.scale} scale, "
        f"{seeds} training seed{'s' if seeds > 1 else ''})",
        "",
        "A claim is supported if each of its comparisons is significantly as it says, contradicted "
        "if one is significantly the opposite (two-sided, Holm over the claim's comparisons, "
        f"{LEVEL}). Estimate, 95 % interval (not adjusted) and adjusted p are those of the "
        "comparison that speaks least for the claim. With one training seed a verdict is about the "
        "policies that were trained, not about methods. With several it is about methods, started "
        "from these base policies, as every seed does; seed s of every method has the same prompts "
        "and random numbers, which the errors ignore. K: the k that methods are trained for. "
        "docs/statistics.md has more.",
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
        lines += _section(row, judged[row["claim"]])
    return "\n".join(lines) + "\n"


def _short(row: Row) -> str:
    """Estimate, interval and p as cells of a line."""
    interval = "none" if row["low"] == "" else f"{row['low']:+.3f} .. {row['high']:+.3f}"
    p = row["p_adjusted"]
    rounded = "< .0001" if p < 1e-4 else f"{p:.4f}".removeprefix("0")
    return f"{row['estimate']:+.3f} | {interval} | {rounded}"


def _section(row: Row, judged: Sequence[Judged]) -> list[str]:
    lines = ["", f"## {row['claim']}: {row['title']}", "", f"Hypothesis: {row['hypothesis']}.", ""]
    lines += [f"Verdict: **{row['verdict']}**" + (f" ({row['note']})." if row["note"] else ".")]
    if not judged:
        return lines
    size = f", {row['problems']} problems x {row['samples']} samples" if row["problems"] else ""
    lines += [
        "",
        f"{row['seeds']} seed{'s' if row['seeds'] > 1 else ''}{size}.",
        "",
        "| comparison | estimate | 95 % interval | p | |",
        "|---|---|---|---|---|",
    ]
    for one in deciding(judged):
        low, high = map(_number, one.measured.estimate.interval())
        value = one.measured.estimate.value
        cells = _short({"estimate": value, "low": low, "high": high, "p_adjusted": one.p_adjusted})
        lines.append(f"| {_label(one)} | {cells} | {one.outcome} |")
    rest = [one for one in judged if not one.measured.comparison.decides]
    if rest:
        counts = {way: sum(one.outcome == way for one in rest) for way in (FOR, AGAINST, OPEN)}
        lines += [
            "",
            f"Of {len(rest)} further comparisons, which decide nothing (claim_comparisons.csv, "
            f"Holm over these), {counts[FOR]} are for the claim, {counts[AGAINST]} against, "
            f"{counts[OPEN]} open.",
        ]
        lines += [f"Against: {_label(one)}." for one in rest if one.outcome == AGAINST]
    lines += ["", "Cells: " + ", ".join(f"`{cell}`" for cell in row["cells"].split()) + "."]
    return lines
