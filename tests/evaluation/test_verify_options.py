"""`rspo verify`: where answers stand in responses, several verifiers, and what is worth a look."""

import json
from pathlib import Path
from typing import Any

import pytest

from rspo.cli import main

Line = dict[str, Any]


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write(*rows: tuple[str, str]) -> None:
    """Write a file of responses, from pairs of an answer and a response to a problem of its own."""
    lines = []
    for number, (answer, response) in enumerate(rows):
        row = {"problem": f"problem {number}", "answer": answer, "response": response}
        lines.append(json.dumps(row) + "\n")
    Path("own.jsonl").write_text("".join(lines))


def verdicts(path: str = "own.verdicts.jsonl") -> list[Line]:
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def test_the_answer_is_read_at_the_chosen_places(capsys: pytest.CaptureFixture[str]) -> None:
    write(("72", "48 + 24 = 72\n#### 72"), ("34", "Answer: 34"), ("5", r"\boxed{5}"))
    assert main(["verify", "own.jsonl"]) == 0
    assert "verdicts: 2 no answer, 1 correct" in capsys.readouterr().out
    assert main(["verify", "own.jsonl", "--extract", "box,answer-line,hashes", "--force"]) == 0
    assert "verdicts: 3 correct" in capsys.readouterr().out
    assert [row["extracted"] for row in verdicts()] == ["72", "34", "5"]


def test_an_unknown_place_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    write(("5", r"\boxed{5}"))
    assert main(["verify", "own.jsonl", "--extract", "box,tag"]) == 2
    assert "extract 'tag'; " in capsys.readouterr().err
