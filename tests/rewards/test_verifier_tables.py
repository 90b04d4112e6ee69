"""The verifiers on labelled answers: limits, and the tables of docs/verification.md."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks import __main__ as benchmarks_main
from benchmarks.verifier import __main__ as writing
from benchmarks.verifier import accuracy, tables
from rspo.rewards import is_correct
from tests.support.attacks import boxed

# By verifier and set: least agreement with the labels and most false accepts, in percent of the
# rows. data/README.md gives the sources and the licences.
LIMITS = {
    ("rules", "hardverify_math"): (88, 0.8),
    ("rules", "math_verify_tests"): (97, 0.8),
    ("rules", "lighteval_extractive_match_tests"): (93, 0.9),
    ("rules", "qwen_math_cot_100"): (
        99.5,
        0.3,
    ),  # not in data/
    ("math_verify", "hardverify_math"): (76, 1.7),
    ("math_verify", "math_verify_tests"): (88, 1.5),
    ("math_verify", "lighteval_extractive_match_tests"): (80, 1.8),
}


@pytest.mark.parametrize(("verifier", "name"), LIMITS)
def test_verdicts_agree_with_the_labels(shared: Path, verifier: str, name: str) -> None:
    found, (agreement, false_accepts) = accuracy.by_set(name, verifier), LIMITS[verifier, name]
    assert found.accuracy >= agreement
    # A false reject lowers a curve. Training exploits a false accept.
    assert 100 * found.false_accepts / found.rows <= false_accepts


def test_the_rules_refuse_every_published_false_accept() -> None:
    """Pairs that Math-Verify accepted, according to its issues."""
    path = accuracy.SHIPPED / "published_false_accepts.jsonl"
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    pairs = [(row["gold"], row["prediction"]) for row in rows]
    pairs += [(prediction, gold) for gold, prediction in pairs]
    found = is_correct([boxed(other) for _, other in pairs], [gold for gold, _ in pairs])
    assert [pair for pair, right in zip(pairs, found, strict=True) if right] == []


def test_without_the_data_the_page_stays_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As in a fresh clone, which has four of the six sets."""
    monkeypatch.setattr(accuracy, "SHARED", tmp_path)
    accuracy.labelled.cache_clear()
    page = tables.PAGE.read_bytes()
    assert writing.main([]) == 2
    message = capsys.readouterr().err
    assert message.startswith("verification.md stays as it is, ")
    assert message.endswith(": qwen_math_cot_100.jsonl, reported_pairs.jsonl\n")
    accuracy.labelled.cache_clear()
    assert tables.PAGE.read_bytes() == page


@pytest.mark.parametrize("main", [benchmarks_main.main, writing.main])
def test_help_measures_nothing(
    main: Callable[[list[str]], int], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match=r"^0$"):
        main(["--help"])
    assert capsys.readouterr().out.startswith("usage: python -m benchmarks")


def cells(page: list[str], column: str) -> dict[str, str]:
    """A column of a table, by the first cell of each line."""
    head, _, *lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in page]
    return {line[0]: line[head.index(column)] for line in lines}


@pytest.mark.parametrize("name", ["sets", "kinds"])
def test_the_page_has_the_figures_of_a_fresh_run(name: str) -> None:
    """Only of `rules`: the library takes minutes (its limits are above)."""
    text = tables.PAGE.read_text(encoding="utf-8")
    written = text.partition(f"<!-- {name} -->\n")[2].partition("<!-- end -->")[0].splitlines()
    make = {"sets": tables.table_of_sets, "kinds": tables.table_of_kinds}[name]
    fresh = cells(make(("rules",)), "`rules`")
    assert len(fresh) >= 5
    shown = cells(written, "`rules`")
    assert fresh == {row: shown[row] for row in fresh}
