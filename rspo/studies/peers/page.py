"""The page of the study, in Markdown. Every statement follows from the table alone."""

import pandas as pd

from rspo.config.experiment import BASE
from rspo.evaluation.statistics import LEVEL
from rspo.studies.markdown import bullets, caveat, markdown_table, points, with_numbers
from rspo.studies.peers.runs import RSPO
from rspo.studies.peers.statements import (
    better,
    by_objective,
    joined,
    not_better,
    passes,
    reference,
)

# The columns of the table that are text.
WORDS = ("part", "objective", "rates", "rate_is", "against", "family", "same_as", "cells")


def page(table: pd.DataFrame) -> str:
    """The page of a table, as `rspo.studies.peers.table.table` makes it or as read from CSV."""
    table = with_numbers(table, WORDS)
    table = table.assign(name=_names(table))
    parts = [
        _opening(table),
        "![Differences to RSPO, training and Pass@k of every objective](peers.png)",
        "## What RSPO does better",
        bullets(better(table)),
        "## What RSPO does not do better",
        bullets(not_better(table)),
        "## All objectives",
        _objectives(table),
        "## How to read this",
        _method(table),
        "## Several passes over the responses of a step",
        *_epochs(table),
        "## Objectives without a training of their own",
        _left_out(table),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _names(table: pd.DataFrame) -> list[str]:
    """How the page calls the objective of each row: with k and n if it was trained with several."""
    keys = table[["part", "objective", "trained_k", "n"]]
    several = keys.drop_duplicates().groupby(["part", "objective"]).size() > 1
    return [
        f"`{objective}`" + (f" (k = {k:.0f}, n = {n:.0f})" if several[part, objective] else "")
        for part, objective, k, n in keys.itertuples(index=False)
    ]


def _opening(table: pd.DataFrame) -> str:
    rspo, count = reference(table), len(by_objective(table))
    return (
        "# RSPO and the other published objectives\n\n"
        f"{count} objectives, trained with the same prompts, random numbers, steps and "
        f"n = {rspo['n']:.0f} responses per prompt, for k = {rspo['trained_k']:.0f} where they "
        "have a k, each at the learning rate that is best for it on the validation split. Pass@k "
        f"is measured on {rspo['problems']:.0f} test problems with {rspo['samples']:.0f} samples "
        f"each. RSPO is `{RSPO}`; for 0/1 rewards, PKPO's s^(loo-1) is the same.\n\n"
        f"{caveat(rspo['seeds'])} The tiny scale shows whether an objective works under real "
        "sampling and gradients; sizes of effects do not carry over to large models "
        "([tiny.md](../tiny.md)).\n\n"
        "`snakemake reports/fig_peers.pdf` makes the table and the figure again, "
        "`snakemake -f docs/studies/peers.md` this page too. The table is [peers.csv](peers.csv); "
        "[objectives.md](../objectives.md) has the formulas."
    )


def _method(table: pd.DataFrame) -> str:
    rows = table[table["part"] == "objectives"]
    families = rows[rows["family"] != ""].groupby("family", sort=False)["tests"].first()
    tests = joined(f"{name} ({size:.0f} tests)" for name, size in families.items())
    lines = [
        "Significant means that the two-sided p-value of the paired difference, adjusted by Holm's "
        f"method over its family of tests, is below .05. Families: {tests}. Intervals are not "
        "adjusted. Not distinguishable does not mean equal.",
        *_rates(by_objective(table)),
        "Entropy is that of the last third of training. Seconds are processor time per step, which "
        "other work on the machine may lengthen, start and validation included. Gradient noise is "
        "measured on the base model: tr Cov of one prompt's gradient, divided by the squared "
        "length of its mean, which does not depend on the scale of the weights. It is about the "
        "gradient of each objective's own target.",
    ]
    return "\n\n".join(lines)


def _rates(rows: pd.DataFrame) -> list[str]:
    chosen = rows[rows["rate_is"] != "only"]
    if chosen.empty:
        return []
    grids = joined(dict.fromkeys(rates.replace(" ", ", ") for rates in chosen["rates"]))
    by_rate = [
        f"{rate:g} for {joined(group['name'])}" for rate, group in chosen.groupby("learning_rate")
    ]
    lines = [
        "Learning rates: of each objective's variants, the comparison uses the one with the "
        f"highest Pass@{reference(rows)['trained_k']:.0f} on the validation split after the last "
        f"step, mean over seeds (to choose from: {grids}). Chosen: {'; '.join(by_rate)}."
    ]
    ends = []
    for end, direction in (("lowest", "lower"), ("highest", "higher")):
        at_end = chosen[chosen["rate_is"] == end]
        if len(at_end):
            ends.append(f"a {direction} rate may be better for {joined(at_end['name'])}")
    edge = "No chosen rate is at the edge of the grid."
    if ends:
        edge = f"Some chosen rates are at the edge of the grid: {'; '.join(ends)}."
    return [*lines, edge]


def _objectives(table: pd.DataFrame) -> str:
    """Pass@k of every objective, with marks, and what its training was like."""
    ks = sorted(set(table["k"].dropna()))
    shown = [ks[0], reference(table)["trained_k"], ks[-1]]
    shown = [k for k in dict.fromkeys(shown) if k in ks]
    header = ["objective", "k", "rate", *(f"Pass@{k:.0f}" for k in shown)]
    header += ["entropy", "zero weights", "gradient noise", "variance / RSPO's", "s per step"]
    rows = [
        [
            f"**{row['name']}**" if row["cells"] == reference(table)["cells"] else row["name"],
            number(row["trained_k"], ".0f"),
            number(row["learning_rate"], "g"),
            *(_level(table, str(row["cells"]), k) for k in shown),
            number(row["entropy"], ".3f"),
            number(100 * row["zero_weight"], ".0f", " %"),
            number(row["noise"], ".1f"),
            number(row["variance"], ".3g"),
            number(row["seconds"], ".3f"),
        ]
        for _, row in by_objective(table).iterrows()
    ]
    base = table[table["part"] == BASE].set_index("k")["pass_at_k"]
    rows.append(["base model", "", "", *(points(base[k], sign=False) for k in shown), *[""] * 5])
    note = (
        "Pass@k in %, in brackets the difference to RSPO in percentage points; * is significant. "
        "Gradient noise and variance are those on the base model."
    )
    return f"{markdown_table(header, rows)}\n\n{note}"


def _level(table: pd.DataFrame, cells: str, k: float) -> str:
    """Pass@k of the run with these cells, and its difference to RSPO's."""
    rows = table[(table["cells"] == cells) & (table["k"] == k) & (table["against"] == "rspo")]
    row = rows.iloc[0]
    if pd.isna(row["difference"]):
        return points(row["pass_at_k"], sign=False)
    star = "*" if row["p_adjusted"] < 0.05 else ""
    return f"{points(row['pass_at_k'], sign=False)} ({points(row['difference'])}{star})"


def _epochs(table: pd.DataFrame) -> list[str]:
    rows = table[table["part"] == "epochs"]
    if rows.empty:
        return []
    ks = sorted(set(rows["k"]))
    header = ["objective", "k", "n", "passes", "steps", *(f"Pass@{k:.0f}" for k in ks), "entropy"]
    cells = []
    for (objective, k, n, epochs, steps), group in rows.groupby(
        ["objective", "trained_k", "n", "epochs", "steps"], sort=False, dropna=False
    ):
        against = group[group["against"] == BASE].set_index("k")
        cells.append(
            [
                f"`{objective}`",
                number(k, ".0f"),
                f"{n:.0f}",
                f"{epochs:.0f}",
                f"{steps:.0f}",
                *(_marked(against.loc[at]) for at in ks),
                number(group["entropy"].iloc[0], ".3f"),
            ]
        )
    tests = rows[rows["against"] == BASE]["tests"].iloc[0]
    note = (
        "Difference to the base model's Pass@k in percentage points; * is significant, adjusted "
        f"over the {tests:.0f} tests of this table."
    )
    opening = (
        "Bagirov et al. (arXiv 2510.23393) train with n = 8 and three PPO iterations over the "
        "responses of a step, and report that PKPO's s^(loo-1), which is RSPO, ends below the base "
        "model. `training.epochs` is the number of such passes. All updates of a step use the "
        "responses that were sampled before the first one, so more passes mean more off-policy "
        "updates, which PPO's clip limits. (A single pass has an update for each mini-batch.) "
        "One pass in more steps makes as many updates, each on fresh responses, and so sees more "
        "of them. The learning rate is the config's."
    )
    return [opening, bullets(passes(rows)), f"{markdown_table(header, cells)}\n\n{note}"]


def _marked(row: pd.Series) -> str:
    return points(row["difference"]) + ("*" if row["p_adjusted"] < LEVEL else "")


def _left_out(table: pd.DataFrame) -> str:
    rows = table[table["part"] == "left out"]
    lines = []
    for other, group in rows.groupby("same_as", sort=False):
        reason = "no cells in the entry `studies.peers` of the config"
        if other:
            reason = f"for 0/1 rewards, the weights of `{other}` times a constant"
        lines.append(f"{joined(group['name'])}: {reason}.")
    add = (
        "An objective of your own takes part with one more line in the entry `studies.peers` of "
        "the config ([how to register it](../add/objective.md))."
    )
    if not lines:
        return add
    why = "Weights times a constant make the same updates, because Adam ignores the scale."
    return f"{bullets(lines)}\n\n{why} {add}"


def number(value: float, form: str, unit: str = "") -> str:
    """A number as text; empty for NaN."""
    return "" if pd.isna(value) else f"{value:{form}}{unit}".replace("-", "\u2212")
