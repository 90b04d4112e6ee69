"""Write the table of docs/check_gradient.md: `python docs/_hooks/implementations.py`.

The table says what public implementations of Pass@k training maximize. Their formulas are in
docs/implementations.yaml, which explains its keys; a `Row` is one of its entries.
"""

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
BEGIN = "<!-- table: python docs/_hooks/implementations.py -->\n"
END = "<!-- end of the table -->\n"
N = 8  # responses of a group
KS = (2, 4, 8)
SLOPES = (0.1, 0.5, 0.9)  # the p at which the table gives F'(p) if it has no name
Row = dict[str, Any]
Number = Callable[[Any], Any]  # converts a number to a type


def rows() -> list[Row]:
    """The implementations, in the order of the table."""
    text = (DOCS / "implementations.yaml").read_text(encoding="utf-8")
    implementations: list[Row] = yaml.safe_load(text)
    return implementations


def accepts(row: Row, k: int, n: int) -> bool:
    """Whether an implementation accepts groups of n responses with this k."""
    return {"none": True, "k <= n": k <= n, "k < n": k < n}[row["k"]]


def weight(row: Row, kind: str, c: int, n: int, k: int, number: Number = Fraction) -> Any:
    """The weight of a response in a group of n, with every step in numbers of one type.

    Args:
        kind: "correct" or "wrong".
        c: number of correct responses in the group.
        number: Fraction, which is exact except for roots, or a type of NumPy such as float32.
    """

    def binomial(a: Any, b: Any) -> Any:
        return number(math.comb(int(a), int(b)) if 0 <= b <= a else 0)

    def rho(n: Any, c: Any, k: Any) -> Any:
        return number(1) - binomial(n - c, k) / binomial(n, k)

    def sqrt(value: Any) -> Any:
        return math.sqrt(value) if number is Fraction else np.sqrt(value)

    names = {"n": number(n), "c": number(c), "k": number(k), "sqrt": sqrt, "C": binomial}
    names |= {"rho": rho, "std": sqrt(number(c * (n - c)) / number(n * (n - 1)))}
    # The formulas are a file of this repository, so they may be evaluated as code.
    value = eval(str(row[kind]), {"__builtins__": {}}, names)
    # An advantage is n times a weight.
    return value / number(n) if row.get("advantage") else value


def weights(row: Row) -> Callable[[Any, int], Any]:
    """The implementation as a function of 0/1 rewards [..., n] and k, in its own precision."""
    dtype = np.dtype(row["precision"])

    def function(rewards: Any, k: int) -> Any:
        n = rewards.shape[-1]
        # The weights for each number c of correct responses, from 0 to n. A group without correct
        # responses has no weight of one, and a group without wrong responses none of a wrong one.
        correct = [0.0]
        correct += [weight(row, "correct", c, n, k, dtype.type) for c in range(1, n + 1)]
        wrong = [weight(row, "wrong", c, n, k, dtype.type) for c in range(n)]
        wrong.append(0.0)
        c = rewards.sum(axis=-1, keepdims=True).astype(int)
        return np.where(rewards == 1, np.array(correct, dtype)[c], np.array(wrong, dtype)[c])

    return function


def verdict(row: Row, k: int) -> str:
    """What an implementation maximizes with groups of N, in a few words or as F'(p) at `SLOPES`."""
    if not accepts(row, k, N):
        return "not allowed"
    form = diagnose(weights(row), k, N, SLOPES).weights
    if form.unbiased_for is None and form.mixture is None:
        return f"F' = {', '.join(f'{slope:.2g}' for slope in form.slope)}"
    return re.sub("^(unbiased for|maximizes) ", "", form.target).replace(" times", "")


def unbiased_with(row: Row) -> str:
    """The k up to N for which an implementation is unbiased for Pass@k, such as `k = 1 to 7`."""
    ks = [k for k in range(1, N + 1) if accepts(row, k, N)]
    unbiased = [k for k in ks if diagnose(weights(row), k, N).weights.unbiased_for == k]
    if not unbiased:
        return "no"
    span = str(unbiased[0]) if len(unbiased) == 1 else f"{unbiased[0]} to {unbiased[-1]}"
    return f"k = {span}" + (" only" if row["k"] == "none" else "")


def table() -> str:
    """The table in Markdown."""
    lines = [
        f"| implementation | weight | computed in | unbiased, n = {N} | "
        f"{' | '.join(f'k = {k}' for k in KS)} |",
        "|---|---|---|---|" + "---|" * len(KS),
    ]
    for row in rows():
        verdicts = [verdict(row, k) for k in KS]
        if row["k"] == "none":  # the verdict is the same for every k
            verdicts = [f"no k: {verdicts[0]}"] + [""] * (len(KS) - 1)
        source = f"[{row['name']}]({row['url']}) ({row['version']})"
        cells = [source, row["idea"], row["precision"], unbiased_with(row)] + verdicts
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def page() -> str:
    """The page with the table as it should be."""
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    return before + BEGIN + "\n" + table() + "\n" + END + after


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
