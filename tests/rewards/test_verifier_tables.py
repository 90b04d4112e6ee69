"""The comparison of verifiers: its counts, and the tables of docs/verification.md."""

import json

import pytest

from benchmarks.verifier import accuracy, tables
from rspo.rewards import is_correct
from tests.support.attacks import boxed


def test_the_rules_refuse_every_published_false_accept() -> None:
    """Pairs that Math-Verify accepted, according to its issues."""
    path = accuracy.SHIPPED / "published_false_accepts.jsonl"
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    pairs = [(row["gold"], row["prediction"]) for row in rows]
    pairs += [(prediction, gold) for gold, prediction in pairs]
    found = is_correct([boxed(other) for _, other in pairs], [gold for gold, _ in pairs])
    assert [pair for pair, right in zip(pairs, found, strict=True) if right] == []


def cells(page: list[str], column: str) -> dict[str, str]:
    """A column of a table, by the first cell of each line."""
    head, _, *lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in page]
    return {line[0]: line[head.index(column)] for line in lines}


@pytest.mark.parametrize("name", ["sets", "kinds"])
def test_the_page_has_the_figures_of_a_fresh_run(name: str) -> None:
    """Only of `rules`: the library takes minutes (its limits are in test_labelled.py)."""
    text = tables.PAGE.read_text(encoding="utf-8")
    written = text.partition(f"<!-- {name} -->\n")[2].partition("<!-- end -->")[0].splitlines()
    make = {"sets": tables.table_of_sets, "kinds": tables.table_of_kinds}[name]
    fresh = cells(make(("rules",)), "`rules`")
    assert len(fresh) >= 5
    shown = cells(written, "`rules`")
    assert fresh == {row: shown[row] for row in fresh}
