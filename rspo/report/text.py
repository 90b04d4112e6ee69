"""The filters of the pages: numbers with the digits of their unit, and safe text.

Every function of this module is a filter that templates call by its name.
"""

import math
import unicodedata

from rspo.analysis.pages import MINUS
from rspo.evaluation.statistics import least_p_of_seeds

# Decimals of values in percentage points, units of reward, nats per token, and percent.
_DECIMALS = {"pass_at_k": 1, "max_at_k": 3, "entropy": 3, "time_of_dropping": 1}
# Beginnings of Unicode's categories of characters that do not show. C: control, format (writing
# direction, zero width), surrogate, private, unassigned. Zl, Zp: separators of lines and of
# paragraphs, which browsers and editors treat differently.
_INVISIBLE = ("C", "Zl", "Zp")


def rounded(value: float, metric: str = "pass_at_k", signed: bool = False) -> str:
    """A value in the unit of a metric.

    Args:
        signed: write a plus before values above 0.
    """
    text = f"{value:z.{_DECIMALS[metric]}f}"  # z: no minus before a value that rounds to 0
    if signed and float(text) > 0:
        return f"+{text}"
    return text.replace("-", MINUS)


def plus_minus(
    value: float, low: float, high: float, metric: str = "pass_at_k", signed: bool = True
) -> str:
    """A value, followed by ± and half of the width of its interval if it has one (not NaN)."""
    text = rounded(value, metric, signed)
    return text if math.isnan(low) else f"{text}\u00a0±\u00a0{rounded((high - low) / 2, metric)}"


def p_value(p: float, seeds: int = 0) -> str:
    """A p-value with two significant digits; the sign = or < comes first. "-" if it is unknown.

    Args:
        seeds: number of training seeds; no p-value below their `least_p_of_seeds` is written.
    """
    if math.isnan(p):
        return "-"
    least = least_p_of_seeds(seeds)
    if least > 0 and p <= least:
        return f"< {least:g}"
    if p < 1e-4:
        return "< 0.0001"
    return "= 1" if p > 0.995 else f"= {p:.2g}"


def clock(seconds: float) -> str:
    """A duration as hours:minutes:seconds."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"


def visible(text: str) -> str:
    """Replace each invisible character by a visible symbol or its code point, such as ⟨U+200B⟩.

    Characters that change the direction of text are replaced too. Line feeds stay. HTML is not
    escaped here, because the template does that.
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
    """Text for a cell of a Markdown table, where | would end the cell and < begin a tag."""
    return text.replace("|", "\\|").replace("<", "&lt;")


def one_line(text: str) -> str:
    """Text in one line, without the line breaks and indents of a template.

    Non-breaking spaces stay, which `str.split()` without an argument would remove.
    """
    return " ".join(filter(None, text.replace("\n", " ").split(" ")))
