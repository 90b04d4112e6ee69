"""The comparison of verifiers: kinds of answers, and the tables of docs/verification.md."""

import json
from pathlib import Path

import pytest

from benchmarks.verifier import accuracy, tables
from benchmarks.verifier.accuracy import Figures, Labelled, figures
from benchmarks.verifier.kinds import KINDS, kind_of
from rspo.config.experiment import Experiment
from rspo.rewards import is_correct
from rspo.rewards.verdict import Verdict
from tests.support import judge_server
from tests.support.attacks import boxed

OF_KIND = {
    "integer": ["7", "-12", "1,234", r"5\text{ cm}", "x = 5", r"45^\circ", r"\boxed{3}"],
    "fraction": [r"\frac12", "3/4", r"3\frac12", r"x=\frac12"],
    "decimal": ["0.5", "-3.25", r"41.4\%"],
    "other constant": [r"\sqrt2", r"2\pi", r"\frac{1+\sqrt5}{2}"],
    "expression": ["x+1", "2^n", r"\int x dx"],
    "equation": ["y=2x+3", "x^2+y^2=4", "f(x)=x"],
    "interval or set": ["x<5", "[1,2)", r"\{1,2\}", r"(-\infty,1)\cup(2,3)", "x<1 or x>3"],
    "list or tuple": ["(1,2)", "1, 2", "(312,123,231)", "x=1 or x=2", r"1 \pm \sqrt2"],
    "matrix": [r"\begin{pmatrix}1\\2\end{pmatrix}"],
    "choice": ["C", r"\text{(B)}"],
    "text": [r"\text{odd}", "Petya will receive the last token."],
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_kind_follows_from_the_answer(kind: str) -> None:
    assert {answer: kind_of(answer) for answer in OF_KIND[kind]} == dict.fromkeys(
        OF_KIND[kind], kind
    )


def test_errors_are_counted_by_their_direction() -> None:
    reasons = ["correct", "correct", "incorrect", "timeout", "incorrect"]
    labels = [True, False, True, True, False]
    found = figures([Verdict(reason) for reason in reasons], labels)
    assert found == Figures(rows=5, false_accepts=1, false_refusals=2, at_limit=1)
    assert found.accuracy == pytest.approx(40)


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


def test_a_judge_is_measured_only_with_a_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = Labelled(["1", "2"], [boxed("1"), boxed("3")], [True, False], ["?", "??"])
    monkeypatch.setattr(accuracy, "labelled", lambda _: rows)
    monkeypatch.delenv(accuracy.JUDGE_URL, raising=False)
    assert "not measured: XVERIFY_URL" in str(accuracy.of_judge("some rows"))
    prompt = tmp_path / "prompt.py"
    prompt.write_text("PROMPT = 'Q {question} | O {output} | A {answer}'\n")
    monkeypatch.setattr(Experiment, "judge_prompt", prompt)
    with judge_server.running(lambda _: judge_server.reply("correct")) as judge:
        monkeypatch.setenv(accuracy.JUDGE_URL, judge.url)
        found = accuracy.of_judge("some rows")
    assert isinstance(found, Figures), found
    assert (found.rows, found.false_accepts, found.false_refusals) == (2, 1, 0)
    assert any("Q ?? |" in prompt for prompt in judge.prompts)
