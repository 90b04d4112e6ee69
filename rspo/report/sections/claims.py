"""The section Claims: the paper's claims and their verdicts, as `rspo claims` wrote them."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rspo.analysis.results import AGAINST, FOR, OPEN
from rspo.config.experiment import Experiment
from rspo.core.tables import read_csv
from rspo.report import table_path
from rspo.report.comparisons import NATS, ComparisonRow, tested
from rspo.report.page_table import PageTable
from rspo.report.rounding import p_value

Row = Mapping[str, str]
# The page shows these on their own; of the others, all but `_OF_COMPARISONS` become facts.
_SHOWN = [
    *("claim", "title", "hypothesis", "estimate", "low", "high", "p_adjusted", "verdict"),
]
_OF_COMPARISONS = ["comparison", "comparisons", "scale"]
_OUTCOMES = {FOR: "as claimed", AGAINST: "the opposite", OPEN: "open"}


@dataclass(frozen=True)
class Claim:
    """One claim.

    agreeing: "5 of 12": how many of the deciding comparisons are significantly as it says.
    weakest: the deciding comparison with the weakest evidence, in words; empty without one.
    facts: further information, as (name, value).
    deciding, others: its comparisons, those that decide and those for information.
    of_entropy: whether it is about the entropy of the policies.
    """

    name: str
    title: str
    verdict: str
    agreeing: str
    weakest: str
    facts: list[tuple[str, str]]
    deciding: PageTable | None
    others: PageTable | None
    of_entropy: bool


@dataclass(frozen=True)
class Claims:
    """counts: number of claims by verdict, the most common first."""

    counts: dict[str, int]
    claims: list[Claim]

    @property
    def numbering(self) -> str:
        """What the names of the claims mean."""
        names = [claim.name for claim in self.claims]
        paper = [name for name in names if re.fullmatch(r"C\d+[a-z]?", name)]
        variants = [name for name in paper if not name[-1].isdigit()]
        own = [name for name in names if name not in paper]
        letters = f"; a letter ({', '.join(variants)}) marks a variant of one" if variants else ""
        others = f"; {', '.join(own)}: claims of one's own" if own else ""
        return f"{paper[0]} to {paper[-1]} number the paper's claims{letters}{others}."


def claims(experiment: Experiment) -> Claims:
    """Read claims.csv and claim_comparisons.csv.

    Raises: InputError for tables that are missing or lack a column.
    """
    frame = read_csv(table_path(experiment, "claims"), *_SHOWN, "cells")
    comparisons = tested(experiment)
    rows: list[Row] = frame.to_dict("records")
    counts = frame["verdict"].map(_short).value_counts()
    return Claims(
        counts.to_dict(), [_claim(row, comparisons.get(row["claim"], [])) for row in rows]
    )


def _claim(row: Row, comparisons: Sequence[ComparisonRow]) -> Claim:
    verdict = _short(row["verdict"])
    deciding = [one for one in comparisons if one.decides]
    others = [one for one in comparisons if not one.decides]
    agreeing = sum(one.outcome == FOR for one in deciding)
    return Claim(
        name=row["claim"],
        title=row["title"],
        verdict=verdict,
        agreeing=f"{agreeing} of {len(deciding)}" if deciding else "",
        weakest=_weakest(deciding),
        facts=[
            ("Hypothesis", row["hypothesis"]),
            *([("Verdict", row["verdict"])] if row["verdict"] != verdict else []),
            *(
                (_heading(key), _cells(value) if key == "cells" else value)
                for key, value in row.items()
                if value and key not in (*_SHOWN, *_OF_COMPARISONS)
            ),
        ],
        deciding=_table(f"Comparisons that decide {row['claim']}", deciding),
        others=_table(f"Further comparisons for {row['claim']}", others),
        of_entropy=any(one.unit == NATS for one in deciding),
    )


def _weakest(deciding: Sequence[ComparisonRow]) -> str:
    if not deciding:
        return ""
    one = max(deciding, key=lambda one: one.p_for)
    return f"{one.label}: {one.value} {one.unit.name}, adjusted p {p_value(one.p_adjusted)}"


def _table(caption: str, comparisons: Sequence[ComparisonRow]) -> PageTable | None:
    if not comparisons:
        return None
    caption = f"{caption} ({comparisons[0].unit.name} \u00b1 half of the 95 % interval)"
    rows = [
        [
            *(one.label, one.value),
            *(p_value(one.p_adjusted).removeprefix("= "), _OUTCOMES[one.outcome]),
        ]
        for one in comparisons
    ]
    return PageTable(caption, ["comparison", "difference", "adjusted p", "result"], rows)


def _cells(names: str) -> str:
    """Cells without their seeds."""
    return ", ".join(dict.fromkeys(name.rpartition("--s")[0] for name in names.split()))


def _short(verdict: str) -> str:
    """The verdict without the reason that follows a colon."""
    return verdict.partition(":")[0]


def _heading(column: str) -> str:
    return column.replace("_", " ").capitalize()
