"""Scores of any JSON-lines file of responses."""

import json
from pathlib import Path
from typing import Any

import pytest
from rspo.evaluation.score_file import score_file

from rspo.core.errors import InputError
from rspo.core.tables import SCORES, read_table


def write_lines(path: Path, lines: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def line(question: str, gold: Any, output: Any) -> dict[str, Any]:
    return {"question": question, "gold": gold, "output": output}


COLUMNS = ("question", "gold", "output")


def test_lines_of_one_problem_are_its_samples(tmp_path: Path) -> None:
    lines = [
        line("a", "5", r"\boxed{5}"),
        line("b", ["1", "one"], r"\boxed{one}"),
        line("a", "5", "no"),
        line("b", ["1", "one"], r"\boxed{2}"),
        line("c", 42, r"\boxed{42}"),
    ]
    source = write_lines(tmp_path / "responses.jsonl", lines)
    output = tmp_path / "scores" / "mine.parquet"
    score_file(source, output, "exact", *COLUMNS)
    rows = read_table(output, SCORES)
    a, b = rows[0]["problem_id"], rows[1]["problem_id"]
    assert a != b
    found = [(r["problem_id"], r["sample_index"], r["verdict"], r["reward"]) for r in rows]
    assert found == [
        (a, 0, "correct", 1.0),
        (b, 0, "correct", 1.0),
        (a, 1, "no answer", 0.0),
        (b, 1, "incorrect", 0.0),
        (rows[4]["problem_id"], 0, "correct", 1.0),
    ]
    score_file(write_lines(source, lines[2:3]), output, "exact", *COLUMNS)
    assert read_table(output, SCORES)[0]["problem_id"] == a  # the same text, the same id


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], r"responses\.jsonl: has no lines"),
        (
            [line("a", "5", "x"), {"question": "a", "response": "x"}],
            r"responses\.jsonl, line 2: the column 'gold' is missing; has question, response",
        ),
        ([line("a", "5", None)], r"line 1: column 'output' is None; expected text"),
        (
            [line("a", True, "x")],
            r"line 1: column 'gold' is True; expected text, number or list of them",
        ),
        ([line("a", float("nan"), "x")], r"line 1: column 'gold' is nan; expected text"),
        ([line("a", [], "x")], r"line 1: column 'gold' is \[\]; expected text"),
        (
            [line("a", "5", "x"), line("a", "6", "x")],
            r"line 2: the answer '6' differs from '5', given before for the same problem",
        ),
    ],
)
def test_bad_responses_are_refused(
    tmp_path: Path, lines: list[dict[str, Any]], message: str
) -> None:
    source = write_lines(tmp_path / "responses.jsonl", lines)
    output = tmp_path / "scores.parquet"
    with pytest.raises(InputError, match=message):
        score_file(source, output, "exact", *COLUMNS)
    assert not output.exists()


def test_missing_and_truncated_files_are_named(tmp_path: Path) -> None:
    output = tmp_path / "scores.parquet"
    with pytest.raises(InputError, match=r"nothing\.jsonl: no such file"):
        score_file(tmp_path / "nothing.jsonl", output)
    cut = tmp_path / "cut.jsonl"
    cut.write_text('{"problem": "a"')
    with pytest.raises(InputError, match=r"cut\.jsonl, line 1: not JSON"):
        score_file(cut, output)
