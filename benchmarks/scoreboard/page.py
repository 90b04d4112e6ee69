"""docs/scoreboard.md from docs/scoreboard.json: `python -m benchmarks.scoreboard.page`."""

import json
from pathlib import Path
from typing import Any

import jinja2
import numpy as np

from benchmarks.scoreboard import N

DOCS = Path(__file__).resolve().parents[2] / "docs"
RESULTS = DOCS / "scoreboard.json"
PAGE = DOCS / "scoreboard.md"
TEMPLATE = "scoreboard.md.jinja"
Row = dict[str, Any]


def results() -> list[Row]:
    """The rows of the result file."""
    found: list[Row] = json.loads(RESULTS.read_text(encoding="utf-8"))
    return found


def as_text(rows: list[Row]) -> str:
    """The text of the result file, with a line for each row."""
    lines = [json.dumps(row) for row in rows]
    return "[\n" + ",\n".join(lines) + "\n]\n"


def is_meant(meant: str, k: str, found: Row) -> bool:
    """Whether advantages maximize what they are meant to, up to a factor.

    Args:
        meant: as in projects.yaml.
        k: the k of the call, or `none`.
        found: what the call maximizes, as in the result file.
    """
    if "refused" in found:
        return False
    if meant != "MaxRL":
        expected = {"Pass@1": 1, "Pass@n": N}.get(meant)
        return bool(found["j"] == (expected or int(k)))
    mixture = found["mixture"] or {}
    if sorted(map(int, mixture)) != list(range(1, N)):
        return False
    return all(abs(int(j) * b - mixture["1"]) < 1e-3 for j, b in mixture.items())


def right_ks(row: Row, by_k: str = "by_k") -> list[str]:
    """The k with which a call maximizes what it is meant to; `none` if it has no k."""
    return [k for k, found in row[by_k].items() if is_meant(row["meant"], k, found)]


def is_right(row: Row, by_k: str = "by_k") -> bool:
    """Whether a call maximizes what it is meant to with every k that it accepts."""
    accepted = [k for k, found in row[by_k].items() if "refused" not in found]
    return bool(accepted) and right_ks(row, by_k) == accepted


def same(one: Row, other: Row) -> bool:
    """Whether two results are equal up to rounding, or both a refusal."""
    if "refused" in one or "refused" in other:
        return "refused" in one and "refused" in other
    close = np.allclose(one["slopes"], other["slopes"], rtol=0.02, atol=2e-6)
    return one["j"] == other["j"] and bool(close)


def fault_is_found(row: Row) -> bool:
    """Whether the check tells the copy of a source with a fault from the source.

    A call that is right must not be with the fault, and one that is not right must maximize another
    thing. It does not count if the copy only raises an error.
    """
    with_fault = row["with_fault"]
    if all("failed for rewards" in found.get("refused", "") for found in with_fault.values()):
        return False
    if is_right(row):
        return not is_right(row, "with_fault")
    return not all(same(found, row["by_k"][k]) for k, found in with_fault.items())


def words(found: Row) -> str:
    """What a call maximizes, in a few words, or as F'(p)."""
    if "refused" in found:
        if "other groups" in found["refused"]:
            return "no function of the group alone"
        return "unequal for equal rewards" if "order" in found["refused"] else "refused"
    if found["mixture"] is None:
        return f"F' = {', '.join(f'{slope:.2g}' for slope in found['slopes'])}"
    target: str = found["target"]
    for begin in ("unbiased for ", "maximizes "):
        target = target.removeprefix(begin)
    return target.replace(" times", "")


def page() -> str:
    """The page."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(DOCS),
        undefined=jinja2.StrictUndefined,
        autoescape=False,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"words": words, "right_ks": right_ks}
    environment.tests["right"] = is_right
    environment.tests["found"] = fault_is_found
    return environment.get_template(TEMPLATE).render(rows=results(), n=N)


def write(rows: list[Row]) -> None:
    """Write the result file with these rows, and the page."""
    RESULTS.write_text(as_text(rows), encoding="utf-8")
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
