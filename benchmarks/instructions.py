"""Whether the verdicts on claims depend on the processor's instructions, which round differently.

It compares the claims of finished runs, each with one set of instructions of PyTorch:

    for set in default avx2 avx512; do
        ATEN_CPU_CAPABILITY=$set snakemake trial/$set/reports/claims.csv --config results=trial/$set
    done

One sampled token that differs by rounding leads a training elsewhere, so numbers differ as between
training seeds. No claim may be supported with one set and contradicted with another, and no
deciding comparison significantly above 0 with one and below 0 with another.
"""

from collections.abc import Mapping
from itertools import combinations
from pathlib import Path

from benchmarks import Row
from rspo.analysis.results import AGAINST, CONTRADICTED, FOR, SUPPORTED
from rspo.core.tables import read_csv

FOLDER = Path("trial")
SETS = ("default", "avx2", "avx512")
COMMAND = "ATEN_CPU_CAPABILITY={0} snakemake {1} --config results={2}"


def run() -> list[Row]:
    """The verdicts and outcomes that differ, and those that are opposite."""
    what = "claims with the instructions " + ", ".join(SETS)
    for name in SETS:
        claims = FOLDER / name / "reports" / "claims.csv"
        if not claims.is_file():
            command = COMMAND.format(name, claims, FOLDER / name)
            return [Row(what, f"not measured: no {claims}; `{command}` makes it")]
    verdicts = [_column(FOLDER / name, "claims", "claim", "verdict") for name in SETS]
    outcomes = [_column(FOLDER / name, "claim_comparisons", "id", "outcome") for name in SETS]
    return [
        Row(what, f"{len(verdicts[0])}, of which {_differing(verdicts)} differ in their verdict"),
        _opposite("claims with opposite verdicts", verdicts, SUPPORTED, CONTRADICTED),
        _opposite("comparisons with opposite outcomes", outcomes, FOR, AGAINST),
    ]


def _column(folder: Path, table: str, key: str, column: str) -> dict[str, str]:
    """A column of a table of claims by another one; of comparisons, only those that decide."""
    rows = read_csv(folder / "reports" / f"{table}.csv")
    if "decides" in rows.columns:
        rows = rows[rows["decides"] == "yes"]
    return dict(zip(rows[key], rows[column], strict=True))


def _differing(values: list[dict[str, str]]) -> int:
    """The number of keys whose values are not the same everywhere."""
    return sum(len({one.get(key) for one in values}) > 1 for key in values[0])


def _opposite(what: str, values: list[dict[str, str]], one: str, other: str) -> Row:
    """A row with the keys that have `one` in some values and `other` in others."""
    found = sorted({key for pair in combinations(values, 2) for key in _pairs(*pair, {one, other})})
    return Row(what, ", ".join(found) or "none", "none", not found)


def _pairs(first: Mapping[str, str], second: Mapping[str, str], both: set[str]) -> list[str]:
    """The keys whose values in the two are these two."""
    return [key for key in first if {first[key], second.get(key)} == both]
