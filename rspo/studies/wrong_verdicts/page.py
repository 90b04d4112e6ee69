"""The page of the study, in Markdown. Every statement follows from the table alone."""

from collections.abc import Callable

import pandas as pd

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

WORDS = ("part", "method", "objective", "errors", "k", "family", "policy", "cells")
SHOWN = (0.05, 0.2, 0.5, 0.8)  # probabilities of success in the table of weights


def page(table: pd.DataFrame) -> str:
    """The page of a table, as `rspo.studies.wrong_verdicts.table.table` makes it or as read."""
    table = with_numbers(table, WORDS)
    parts = [
        _opening(table),
        "![Pass@k by rate of wrong verdicts, and the theory](wrong_verdicts.png)",
        "## Do false accepts hurt RSPO more than policy gradient?",
        _against(table),
        "## What wrong verdicts cost",
        _costs(table),
        _changes(table),
        "## False accepts or false rejects?",
        _kinds(table),
        "## The expected weight of a false accept",
        _theory(table),
        "## How to read this",
        _method(table),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def percent(value: float) -> str:
    return f"{100 * value:.3g} %"


def _opening(table: pd.DataFrame) -> str:
    levels = table[table["part"] == "level"]
    first = levels.iloc[0]
    rates = joined(percent(rate) for rate in sorted({*levels["rate"]}))
    return (
        "# What a wrong verdict costs\n\n"
        f"{joined(dict.fromkeys(levels['method']))}, trained with n = {first['n']:.0f} and a "
        f"verifier that errs at a rate of {rates}: it accepts that fraction of the incorrect "
        "responses (false accepts) or rejects that fraction of the correct ones (false rejects), "
        "each response independently. Evaluation has no such errors: Pass@k on "
        f"{first['problems']:.0f} test problems with {first['samples']:.0f} samples each.\n\n"
        f"{caveat(first['seeds'])} Sizes of effects at the tiny scale do not carry over to large "
        "models ([tiny.md](../tiny.md)).\n\n"
        "`snakemake reports/fig_wrong_verdicts.pdf` makes the table and the figure again, "
        "`snakemake -f docs/studies/wrong_verdicts.md` this page too. The table is "
        "[wrong_verdicts.csv](wrong_verdicts.csv)."
    )


def _tests(rows: pd.DataFrame, more: str, less: str, name: Callable[[pd.Series], str]) -> str:
    """What a family of tests shows: a sentence on all of it, and a line for each test.

    Args:
        more, less: how significant values below and above 0 are called.
    """
    found = significant(rows)
    signs = ((more, found[found["estimate"] < 0]), (less, found[found["estimate"] > 0]))
    parts = [
        f"{word} in {len(some)}"
        + (f" ({', '.join(name(row) for _, row in some.iterrows())})" if len(some) else "")
        for word, some in signs
    ]
    opening = f"Of {len(rows)} tests: {', '.join(parts)}, no significant difference in the others."
    lines = [
        f"{name(row)}: {interval(row)} points, p {p_value(row['p_adjusted'])}."
        for _, row in rows.iterrows()
    ]
    return f"{opening}\n\n{bullets(lines)}"


def _against(table: pd.DataFrame) -> str:
    every = table[table["part"] == "against PG"]
    rows = every[every["errors"] != "control"]
    if rows.empty:
        return "Not tested: the study has no policy gradient."
    ks = rows["k"].iloc[0].replace(" ", ", ")
    texts = [
        f"The change of a method's Pass@{ks} (mean) by the errors, minus policy gradient's: below "
        "0, the errors cost the method more."
    ]
    for errors, of_errors in rows.groupby("errors", sort=False):
        tests = _tests(
            of_errors,
            "the errors cost the method significantly more than policy gradient",
            "significantly less",
            lambda row: f"{row['method']} at {percent(row['rate'])}",
        )
        texts.append(f"**{str(errors).capitalize()}.** {tests}")
    return "\n\n".join(text for text in (*texts, _control(every), _expected(table)) if text)


def _control(rows: pd.DataFrame) -> str:
    """What the same comparisons find where nothing that matters was changed."""
    rows = rows[rows["errors"] == "control"]
    if rows.empty:
        return ""
    largest = rows.loc[rows["estimate"].abs().idxmax()]
    return (
        "For comparison, the control: verdicts without errors, and another change that is too "
        f"small to matter. {len(significant(rows))} of its {len(rows)} differences are "
        f"significant; the largest is {interval(largest)} points ({largest['method']}, "
        f"Pass@{largest['k'].replace(' ', ', ')})."
    )


def _expected(table: pd.DataFrame) -> str:
    """The theory in a sentence: shares at the largest rate, before training."""
    shares = table[(table["part"] == "share") & (table["policy"] == "base")]
    rate = shares["rate"].max()
    largest = shares[shares["rate"] == rate]
    parts = joined(f"{percent(row['share'])} ({row['method']})" for _, row in largest.iterrows())
    return (
        f"Theory: at {percent(rate)}, false accepts are expected to have {parts} of the weight of "
        "all accepted responses, with the base model's Pass@k on the test problems."
    )


def _costs(table: pd.DataFrame) -> str:
    """Which methods lose at which rates."""
    lines = []
    every = table[table["part"] == "change"]
    rows = every[every["errors"] != "control"]
    for (errors, method), of_method in rows.groupby(["errors", "method"], sort=False):
        found = significant(of_method)
        worse, better = found[found["estimate"] < 0], found[found["estimate"] > 0]
        texts = [
            f"{word} at {joined(_where(some))}"
            for word, some in (("significantly worse", worse), ("significantly better", better))
            if len(some)
        ]
        text = "; ".join(texts) or "no significant change"
        lines.append(f"{str(errors).capitalize()}, {method}: {text}.")
    return f"{bullets(lines)}\n\n{_control(every)}".strip()


def _where(rows: pd.DataFrame) -> list[str]:
    return [
        f"{percent(float(str(rate)))} (Pass@{', '.join(of_rate['k'])})"
        for rate, of_rate in rows.groupby("rate", sort=False)
    ]


def _changes(table: pd.DataFrame) -> str:
    """Pass@k of every method and rate, with its change."""
    levels = table[table["part"] == "level"]
    ks = list(dict.fromkeys(levels["k"]))
    changes = table[table["part"] == "change"]
    lines = []
    for (method, errors, rate), rows in levels.groupby(["method", "errors", "rate"], sort=False):
        cells = [str(method), str(errors) if rate == 0 else f"{errors}, {percent(rate)}"]
        for k in ks:
            level = points(rows.set_index("k").loc[k, "estimate"], sign=False)
            change = changes[
                (changes["method"] == method)
                & (changes["errors"] == errors)
                & (changes["rate"] == rate)
                & (changes["k"] == k)
            ]
            cells.append(level if change.empty else f"{level} ({_marked(change.iloc[0])})")
        lines.append(cells)
    note = (
        "Pass@k in %, in brackets the change by the errors with its 95 % interval, in percentage "
        "points; * is significant."
    )
    header = ["method", "errors", *(f"Pass@{k}" for k in ks)]
    return f"{markdown_table(header, lines)}\n\n{note}"


def _marked(row: pd.Series) -> str:
    star = "*" if row["p_adjusted"] < LEVEL else ""
    return f"{points(row['estimate'])}{star}, {points(row['low'])} to {points(row['high'])}"


def _kinds(table: pd.DataFrame) -> str:
    rows = table[table["part"] == "accepts - rejects"]
    if rows.empty:
        return "Not tested: no rate has both."
    ks = rows["k"].iloc[0].replace(" ", ", ")
    tests = _tests(
        rows,
        "false accepts cost significantly more",
        "significantly less",
        lambda row: f"{row['method']} at {percent(row['rate'])}",
    )
    return (
        f"Pass@{ks} (mean) after training with false accepts minus that with false rejects of the "
        f"same rate. Equal rates are not equal numbers of errors{_more_frequent(table)}. {tests}"
    )


def _more_frequent(table: pd.DataFrame) -> str:
    """Which errors are more frequent at equal rates, if it is the same for all methods."""
    clean = table[(table["part"] == "level") & (table["errors"] == "none") & (table["k"] == "1")]
    correct = clean["estimate"]
    if len(correct) and (correct < 0.5).all():
        return (
            ": even after training, most responses are incorrect, so false accepts are more "
            "frequent"
        )
    return ""


def _theory(table: pd.DataFrame) -> str:
    return "\n\n".join(
        [
            "On a prompt with probability of success p and a rate e of false accepts, a response "
            "is accepted with probability q = p + (1 - p) e. RSPO's expected weight of an accepted "
            "response is k/n (1 - q)^(k-1) = k/n (1 - p)^(k-1) (1 - e)^(k-1), that of policy "
            "gradient 1/n. A weight depends on the verdict only, so on one prompt a false accept "
            "weighs as much as a true success. Across prompts it does not: most incorrect "
            "responses are to hard prompts, where RSPO's weights are largest.",
            _weights(table),
            _shares(table),
            "Independent false accepts multiply the expected gradient of Pass@k by (1 - e)^k "
            "without turning it, because they raise every prompt's probability of acceptance to "
            "1 - (1 - p)(1 - e); Adam ignores the factor. What they add is noise. A verifier that "
            "always accepts the same wrong responses turns the gradient towards them; this study "
            "does not have such errors.",
        ]
    )


def _weights(table: pd.DataFrame) -> str:
    rows = table[(table["part"] == "weight") & table["success"].isin(SHOWN)]
    header = ["method", "e", *(f"p = {success:g}" for success in SHOWN), "relative to e = 0"]
    lines = [
        [
            str(method),
            percent(rate),
            *(f"{weight:.3g}" for weight in of_rate["weight"]),
            f"{of_rate['of_clean'].iloc[0]:.3g}",
        ]
        for (method, rate), of_rate in rows.groupby(["method", "rate"], sort=False)
    ]
    note = "Expected weight of an accepted response, as a multiple of policy gradient's."
    return f"{markdown_table(header, lines)}\n\n{note}"


def _shares(table: pd.DataFrame) -> str:
    """Share of the weight that false accepts have, and the mean weight of one."""
    rows = table[table["part"] == "share"]
    rates = list(dict.fromkeys(rows["rate"]))
    header = ["method", "Pass@k of", "a false accept / a true success"]
    header += [f"share at {percent(rate)}" for rate in rates]
    lines = [
        [
            str(method),
            {"base": "the base model", "trained": "its policy trained without errors"}[str(policy)],
            f"{some['of_success'].iloc[0]:.2f}",
            *(percent(share) for share in some["share"]),
        ]
        for (method, policy), some in rows.groupby(["method", "policy"], sort=False)
    ]
    note = (
        "Mean weight of a false accept over that of a true success, and share of the weight of all "
        "accepted responses that false accepts have: expected values over the test problems, from "
        "Pass@k and Pass@(k-1) before and after training without errors."
    )
    return f"{markdown_table(header, lines)}\n\n{note}"


def _method(table: pd.DataFrame) -> str:
    families = table[table["family"] != ""].groupby("family", sort=False)["tests"].first()
    tests = joined(f"{name} ({size:.0f} tests)" for name, size in families.items())
    return (
        "Every difference is paired over problems: the same problems, sampled with the same random "
        "numbers. Significant means that the two-sided p-value, adjusted by Holm's method over its "
        f"family of tests, is below {LEVEL}. Families: {tests}. Intervals are not adjusted. No "
        "significant difference does not mean no difference."
    )
