"""Numbers, lists and tables of a study's page."""

from collections.abc import Iterable, Sequence

import pandas as pd

from rspo.evaluation.statistics import LEVEL


def with_numbers(table: pd.DataFrame, words: Sequence[str]) -> pd.DataFrame:
    """The table with floats, whether computed or read from CSV; the columns `words` are text."""
    numbers = [name for name in table.columns if name not in words]
    result = table.assign(**{name: pd.to_numeric(table[name]) for name in numbers})
    result = result.astype(dict.fromkeys(numbers, "float64"))
    return result.fillna(dict.fromkeys(words, "")).astype(dict.fromkeys(words, str))


def points(value: float, sign: bool = True) -> str:
    """A fraction in percentage points, such as "+1.2"."""
    text = f"{100 * value:{'+' if sign else ''}.1f}"
    if text in ("+0.0", "-0.0"):
        return "0.0"
    return text.replace("-", "\u2212")


def interval(row: pd.Series) -> str:
    """An estimate and its 95 % interval in percentage points."""
    return f"{points(row['estimate'])} ({points(row['low'])} to {points(row['high'])})"


def p_value(p: float) -> str:
    return "< .0001" if p < 1e-4 else f"{min(p, 1):.4f}".removeprefix("0")


def significant(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows whose adjusted p-value is below `LEVEL`."""
    return rows[rows["p_adjusted"] < LEVEL]


def joined(parts: Iterable[str]) -> str:
    """ "a", "a and b", or "a, b and c"."""
    *first, last = parts
    return f"{', '.join(first)} and {last}" if first else last


def bullets(lines: Iterable[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def caveat(seeds: float) -> str:
    """What the errors cover."""
    if seeds == 1:
        return (
            "**One training seed**: intervals and p-values are about these trained policies. They "
            "cover the choice of test problems and the sampling of responses, but not another "
            "training seed, so a significant difference may be due to the seed."
        )
    return f"{seeds:.0f} training seeds: intervals and p-values cover test problems and seeds."
