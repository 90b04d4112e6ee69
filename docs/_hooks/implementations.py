"""Writes the table of docs/check_gradient.md: `python docs/_hooks/implementations.py`."""

import math
import re
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from rspo.objectives.diagnose import diagnose

DOCS = Path(__file__).parents[1]
PAGE = DOCS / "check_gradient.md"
MARKS = "<!-- table: python docs/_hooks/implementations.py -->\n", "<!-- end of the table -->\n"
N, KS = 8, (2, 4, 8)
SLOPES = 0.1, 0.5, 0.9
Row = dict[str, Any]
Number = Callable[[Any], Any]


def rows() -> list[Row]:
    found: list[Row] = yaml.safe_load((DOCS / "implementations.yaml").read_text(encoding="utf-8"))
    return found


def accepts(row: Row, k: int, n: int) -> bool:
    return {"none": True, "k <= n": k <= n, "k < n": k < n}[row["k"]]


def weight(row: Row, of: str, c: int, n: int, k: int, number: Number = Fraction) -> Any:
    """The weight of a response, `correct` or `wrong`, with every step in numbers of one type.

    Args:
        number: Fraction, exact but for roots, or a float of NumPy.
    """

    def binomial(a: Any, b: Any) -> Any:
        return number(math.comb(int(a), int(b)) if 0 <= b <= a else 0)

    def rho(n: Any, c: Any, k: Any) -> Any:
        return number(1) - binomial(n - c, k) / binomial(n, k)

    def sqrt(value: Any) -> Any:
        return math.sqrt(value) if number is Fraction else np.sqrt(value)

    names = {"n": number(n), "c": number(c), "k": number(k), "sqrt": sqrt, "C": binomial}
    names |= {"rho": rho, "std": sqrt(number(c * (n - c)) / number(n * (n - 1)))}
    value = eval(str(row[of]), {"__builtins__": {}}, names)
    return value / number(n) if row.get("advantage") else value


def weights(row: Row) -> Callable[[Any, int], Any]:
    """The implementation as a function of rewards [..., n] and k, in the precision it runs in."""
    dtype = np.dtype(row["precision"])

    def function(rewards: Any, k: int) -> Any:
        n = rewards.shape[-1]
        correct = [0.0, *(weight(row, "correct", c, n, k, dtype.type) for c in range(1, n + 1))]
        wrong = [*(weight(row, "wrong", c, n, k, dtype.type) for c in range(n)), 0.0]
        c = rewards.sum(axis=-1, keepdims=True).astype(int)
        return np.where(rewards == 1, np.array(correct, dtype)[c], np.array(wrong, dtype)[c])

    return function


def verdict(row: Row, k: int) -> str:
    """What it maximizes with groups of N."""
    if not accepts(row, k, N):
        return "not allowed"
    form = diagnose(weights(row), k, N, SLOPES).weights
    if form.unbiased_for is None and form.mixture is None:
        return f"F' = {', '.join(f'{slope:.2g}' for slope in form.slope)}"
    return re.sub("^(unbiased for|maximizes) ", "", form.target).replace(" times", "")


def unbiased_with(row: Row) -> str:
    """The k up to N for which it is unbiased for Pass@k, as `1 to 7`."""
    ks = [k for k in range(1, N + 1) if accepts(row, k, N)]
    good = [k for k in ks if diagnose(weights(row), k, N).weights.unbiased_for == k]
    if not good:
        return "no"
    span = str(good[0]) if len(good) == 1 else f"{good[0]} to {good[-1]}"
    return f"k = {span}" + (" only" if row["k"] == "none" else "")


def table() -> str:
    lines = [
        f"| implementation | weight | computed in | unbiased, n = {N} | "
        f"{' | '.join(f'k = {k}' for k in KS)} |",
        "|---|---|---|---|" + "---|" * len(KS),
    ]
    for row in rows():
        found = [verdict(row, k) for k in KS]
        if row["k"] == "none":
            found = [f"no k: {found[0]}", *[""] * (len(KS) - 1)]
        source = f"[{row['name']}]({row['url']}) ({row['version']})"
        cells = [source, row["idea"], row["precision"], unbiased_with(row), *found]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def page() -> str:
    """The page with the table as it should be."""
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(MARKS[0])
    return before + MARKS[0] + "\n" + table() + "\n" + MARKS[1] + rest.split(MARKS[1])[1]


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
