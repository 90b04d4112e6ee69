"""The filters of the pages: numbers with the digits that their errors allow, and safe text."""

import math
import unicodedata
from collections.abc import Iterable, Mapping
from statistics import median
from typing import Any

import yaml

from rspo.analysis.pages import MINUS
from rspo.config.schema import Config

# C: control, format (writing direction, zero width), surrogate, private, unassigned. Zl, Zp: two
# separators that browsers and editors treat differently.
_INVISIBLE = ("C", "Zl", "Zp")


def decimals(error: float) -> int:
    """Decimals that show an error: two significant digits if it begins with 1 or 2, else one.

    Args:
        error: above 0. Without an error (0, NaN or infinity) the result is 3.
    """
    if not 0 < error < math.inf:
        return 3
    exponent = math.floor(math.log10(error))
    return (1 if error / 10**exponent < 3 else 0) - exponent


def rounded(value: float, error: float, signed: bool = False) -> str:
    """A value with the digits that its error allows.

    Args:
        signed: with its sign also where it is above 0.
    """
    places = decimals(error)  # less than 0: tens, hundreds, ...
    near = round(value, places) or 0.0  # not -0.0
    text = f"{near:{'+' if signed and near else ''}.{max(0, places)}f}"
    return text.replace("-", MINUS)


def common_error(rows: Iterable[Mapping[str, Any]]) -> float:
    """The median half-width of the intervals of a table's rows, which gives all the same digits."""
    known = [half for row in rows if (half := (row["high"] - row["low"]) / 2) > 0]
    return median(known) if known else math.nan


def interval(low: float, high: float) -> str:
    """An interval, rounded by half of its width."""
    half = (high - low) / 2
    if any(end and round(end, decimals(half)) == 0 for end in (low, high)):
        half /= 10  # 0 would be wrong about whether the interval includes 0
    return f"{rounded(low, half)} to {rounded(high, half)}"


def plus_minus(
    value: float, low: float, high: float, signed: bool = True, error: float = math.nan
) -> str:
    """A value with half of the width of its interval; without an interval, two digits.

    Args:
        error: to round by, of the column of a table; default: half of the width.
    """
    if math.isnan(low):
        return f"{value:+.2g}".replace("-", MINUS)
    half = (high - low) / 2
    by = half if math.isnan(error) else error
    return f"{rounded(value, by, signed)}\u00a0\u00b1\u00a0{rounded(half, by)}"


def p_value(p: float) -> str:
    """A p-value with two significant digits; the sign = or < comes first."""
    if p < 1e-4:
        return "< 0.0001"
    return "= 1" if p > 0.995 else f"= {p:.2g}"


def as_yaml(config: Config) -> str:
    values = config.model_dump(mode="json", exclude_unset=True)
    return yaml.safe_dump(values, sort_keys=False, allow_unicode=True, width=90)


def clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"


def without_seeds(cells: str) -> str:
    """Names of cells, each once for all of its seeds."""
    return ", ".join(dict.fromkeys(name.rpartition("--s")[0] for name in cells.split()))


def visible(text: str) -> str:
    """Replace every character that is invisible or moves others by its name; keep line feeds.

    Does not escape HTML: the template does.
    """
    return "".join(map(_visible, text))


def _visible(character: str) -> str:
    if character == "\n" or not unicodedata.category(character).startswith(_INVISIBLE):
        return character
    code = ord(character)
    if code < 0x20:
        return chr(0x2400 + code)  # Unicode's symbols for control characters
    return f"\u27e8U+{code:04X}\u27e9"


def table_cell(text: str) -> str:
    """Text in a cell of a Markdown table."""
    return text.replace("|", "\\|").replace("<", "&lt;")


def one_line(text: str) -> str:
    """Without the line breaks of a template; spaces that do not break stay."""
    return " ".join(filter(None, text.replace("\n", " ").split(" ")))
