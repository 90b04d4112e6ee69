"""The page of the study, in Markdown. Every statement follows from the table alone."""

from collections.abc import Sequence

import pandas as pd

from rspo.config.schema import CONTROL_VARIANT, DEFAULT_VARIANT
from rspo.evaluation.statistics import LEVEL
from rspo.studies.markdown import (
    bullets,
    caveat,
    interval,
    joined,
    markdown_table,
    p_value,
    points,
    significant,
    with_numbers,
)

WORDS = (
    *("part", "variant", "choice", "value", "default", "setting", "claim", "comparison", "where"),
    *("k", "family", "outcome", "verdict", "cells"),
)


def page(table: pd.DataFrame) -> str:
    """The page of a table, as `rspo.studies.open_choices.table.table` makes it or as read."""
    table = with_numbers(table, WORDS)
    parts = [
        _opening(table),
        "![Estimates of three claims under each choice](open_choices.png)",
        f"## {_title(table)}",
        _that_matter(table),
        "## Choices without a detectable effect",
        _without_effect(table),
        "## Verdicts",
        _flips(table),
        _verdicts(table),
        "## How to read this",
        _method(table),
        "## Clipping and limits in training",
        _training(table),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def name_of(row: pd.Series) -> str:
    """A choice in words, such as "PPO clip range 0.1 instead of 0.2"."""
    if row["variant"] == DEFAULT_VARIANT:
        return "default"
    return f"{row['choice']} {row['value']} instead of {row['default']}"


def _title(table: pd.DataFrame) -> str:
    """One policy of each choice does not show what the choice does to another."""
    one_seed = table[table["part"] == "claim"]["seeds"].iloc[0] == 1
    return "Choices that change these policies" if one_seed else "Choices that matter"


def _changes(table: pd.DataFrame) -> pd.DataFrame:
    """The tested changes, without those of the control."""
    return table[(table["part"] == "change") & (table["variant"] != CONTROL_VARIANT)]


def _effects(table: pd.DataFrame) -> pd.DataFrame:
    """The changes that are significant and larger than any in the control's 95 % interval."""
    control = table[(table["part"] == "change") & (table["variant"] == CONTROL_VARIANT)]
    largest = control.set_index("claim")[["low", "high"]].abs().max(axis=1)
    found = significant(_changes(table))
    return found[found["estimate"].abs() > found["claim"].map(largest).astype(float).fillna(0)]


def _that_matter(table: pd.DataFrame) -> str:
    found = _effects(table)
    if found.empty:
        none = "No choice changes an estimate significantly and by more than the control may."
        return f"{none}\n\n{_control(table)}".strip()
    by_chance = _flipped_by_control(table)
    by_size = found.assign(size=found["estimate"].abs()).sort_values("size", ascending=False)
    lines = []
    for variant in dict.fromkeys(by_size["variant"]):
        rows = found[found["variant"] == variant]
        changes = [
            f"{row['claim']} by {interval(row)} points"
            + ("" if row["claim"] in by_chance else _new_verdict(table, variant, row["claim"]))
            for _, row in rows.iterrows()
        ]
        lines.append(f"**{name_of(rows.iloc[0])}** changes the estimate of {joined(changes)}.")
    return f"{bullets(lines)}\n\n{_control(table)}".strip()


def _new_verdict(table: pd.DataFrame, variant: str, claim: str) -> str:
    now, before = (_verdict(table, one, claim) for one in (variant, DEFAULT_VARIANT))
    return f" (verdict: {now}, was: {before})" if now != before else ""


def _verdict(table: pd.DataFrame, variant: str, claim: str) -> str:
    rows = table[(table["part"] == "claim") & (table["variant"] == variant)]
    return str(rows.set_index("claim")["verdict"].get(claim, "not tested"))


def _control(table: pd.DataFrame) -> str:
    """What a change of a setting that is too small to matter does."""
    rows = table[(table["part"] == "change") & (table["variant"] == CONTROL_VARIANT)]
    if rows.empty:
        return ""
    changes = joined(f"{row['claim']} by {interval(row)}" for _, row in rows.iterrows())
    found = significant(rows)
    verdict = "none of them significant" if found.empty else f"{len(found)} of them significant"
    return (
        f"For comparison, the control ({name_of(rows.iloc[0])}), a change too small to matter, "
        f"changes {changes} points, {verdict}. Two trainings with the same seed and prompts take "
        "different paths once one sampled token differs. Changes of this size say nothing about a "
        "choice."
    )


def _without_effect(table: pd.DataFrame) -> str:
    changes = _changes(table)
    matters = set(_effects(table)["variant"])
    lines = []
    for variant, rows in changes.groupby("variant", sort=False):
        if variant in matters:
            continue
        same = joined(points(row["estimate"]) for _, row in rows.iterrows())
        low, high = rows["low"].min(), rows["high"].max()
        identical = " (the same policies)" if low == high == 0 else ""
        lines.append(
            f"{name_of(rows.iloc[0])}: {same} points{identical}; intervals from {points(low)} to "
            f"{points(high)}."
        )
    if not lines:
        return "None."
    claims = joined(dict.fromkeys(changes["claim"]))
    return (
        f"Changes of the estimates of {claims}. Not detectable does not mean zero: effects within "
        f"these intervals are possible.\n\n{bullets(lines)}"
    )


def _flips(table: pd.DataFrame) -> str:
    """Which verdicts differ from the default's, and whether the change is significant."""
    changes = _changes(table)
    lines = []
    for _, row in changes.iterrows():
        if not (text := _new_verdict(table, row["variant"], row["claim"])):
            continue
        proof = "significant" if row["p_adjusted"] < LEVEL else "not significant"
        lines.append(
            f"{row['claim']} under {name_of(row)}{text}; the change of its estimate is {proof}."
        )
    kept = len(changes) - len(lines)
    opening = f"{kept} of {len(changes)} verdicts are those of the default."
    if not lines:
        return f"{opening} {_flips_of_control(table)}".strip()
    return (
        f"{opening} The others:\n\n{bullets(lines)}\n\n"
        "A verdict that differs while the change of the estimate is not significant is near the "
        "limit of what this number of problems can show; it is no evidence that the choice "
        f"matters. {_flips_of_control(table)}"
    ).strip()


def _flips_of_control(table: pd.DataFrame) -> str:
    """The claims whose verdict depends on chance: it differs under the control."""
    flipped = _flipped_by_control(table)
    if not flipped:
        return ""
    return (
        f"Under the control, the verdict on {joined(flipped)} differs too, although nothing that "
        "matters was changed: so there, the default's own verdict is near that limit, and a "
        "verdict that differs says nothing about a choice."
    )


def _flipped_by_control(table: pd.DataFrame) -> list[str]:
    if CONTROL_VARIANT not in {*table["variant"]}:
        return []
    claims = dict.fromkeys(_claims(table))
    return [claim for claim in claims if _new_verdict(table, CONTROL_VARIANT, claim)]


def _verdicts(table: pd.DataFrame) -> str:
    """Estimate, interval and verdict of every claim under every choice."""
    claims = list(dict.fromkeys(table[table["part"] == "claim"]["claim"]))
    header = ["choice", *(cell for claim in claims for cell in (claim, "change"))]
    lines = []
    for variant, rows in table.groupby("variant", sort=False):
        cells = [f"{name_of(rows.iloc[0])}{' (control)' if variant == CONTROL_VARIANT else ''}"]
        for claim in claims:
            of_claim = rows[rows["claim"] == claim].set_index("part")
            cells += _estimate_and_change(of_claim)
        lines.append(cells)
    return markdown_table(header, lines)


def _estimate_and_change(parts: pd.DataFrame) -> list[str]:
    if "claim" not in parts.index:
        return ["not tested", ""]
    estimate = parts.loc["claim"]
    text = f"{interval(estimate)}, {estimate['verdict']}"
    if "change" not in parts.index:
        return [text, ""]
    change = parts.loc["change"]
    return [text, f"{interval(change)}, p {p_value(change['p_adjusted'])}"]


def _opening(table: pd.DataFrame) -> str:
    first = table[table["part"] == "claim"].iloc[0]
    variants = [name for name in dict.fromkeys(table["variant"]) if name != DEFAULT_VARIANT]
    choices = [name for name in variants if name != CONTROL_VARIANT]
    methods = joined(dict.fromkeys(table[table["part"] == "training"]["comparison"]))
    return (
        "# What the paper leaves open, measured\n\n"
        f"The paper does not give every setting. Here {len(choices)} other values are each tried "
        f"alone, for {methods}, and the claims {joined(dict.fromkeys(_claims(table)))} are decided "
        f"again on {first['problems']:.0f} test problems with {first['samples']:.0f} samples "
        f"each.\n\n{caveat(first['seeds'])} Sizes of effects at the tiny scale do not carry over "
        "to large models ([tiny.md](../tiny.md)).\n\n"
        "`snakemake reports/fig_open_choices.pdf` makes the table and the figure again, "
        "`snakemake -f docs/studies/open_choices.md` this page too. The table, with every "
        "comparison, is [open_choices.csv](open_choices.csv)."
    )


def _claims(table: pd.DataFrame) -> Sequence[str]:
    return list(table[table["part"] == "claim"]["claim"])


def _method(table: pd.DataFrame) -> str:
    default = table[table["variant"] == DEFAULT_VARIANT]
    comparisons = default[default["part"] == "comparison"]
    counts = comparisons.groupby("claim", sort=False).size()
    described = default[default["part"] == "claim"].set_index("claim")
    claims = bullets(
        f"{claim}: {described.loc[claim, 'comparison']} (estimate: the mean over Pass@"
        f"{described.loc[claim, 'k'].replace(' ', ', ')}, all problems pooled; {count} comparisons "
        "decide)"
        for claim, count in counts.items()
    )
    tests = table[table["part"] == "change"]["tests"].max()
    changes = ""
    if pd.notna(tests):
        changes = (
            f" The p-values of all {tests:.0f} changes (every choice, the control included, and "
            "every claim) are adjusted together by Holm's method. A choice is listed above if it "
            "changes an estimate significantly, and by more than any value in the 95 % interval "
            "of the control's change. A change is the estimate minus that of the default, paired "
            "over problems, with the same training seeds."
        )
    return (
        "The comparisons are those of `rspo claims` ([statistics](../statistics.md)), as far as "
        "these methods allow, so C1 and C3 rest on fewer k than in the paper's grid:\n\n"
        f"{claims}\n\nNumbers are percentage points of Pass@k with 95 % intervals, not adjusted. "
        "Verdicts: each comparison's p-value is adjusted by Holm's method over those of its claim "
        f"and choice, level {LEVEL}; every comparison must be significant for *supported*.{changes}"
    )


def _training(table: pd.DataFrame) -> str:
    rows = table[table["part"] == "training"]
    methods = " / ".join(dict.fromkeys(rows["comparison"]))
    keys = ("ppo_clipped", "gradient_clipped", "finished")
    header = ["choice", "tokens clipped by PPO", "updates with clipped gradient"]
    header += ["responses that end before the limit"]
    lines = [
        [
            name_of(of_choice.iloc[0]),
            *(" / ".join(f"{100 * value:.3g}" for value in of_choice[key]) for key in keys),
        ]
        for _, of_choice in rows.groupby("variant", sort=False)
    ]
    return f"In %, means over the steps: {methods}.\n\n{markdown_table(header, lines)}"
