"""What would silently be 0 %, or count twice, is one line that names the cause and an option."""

import json
from pathlib import Path
from typing import Any

import pytest

from rspo.cli import main
from tests.support import response_files

Line = dict[str, Any]
RIGHT = r"\boxed{5}"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def row(problem: object, response: object, answer: object = "5", **more: object) -> Line:
    return {"problem": problem, "answer": answer, "response": response} | more


def warnings_of(capsys: pytest.CaptureFixture[str], rows: list[Line], *words: str) -> list[str]:
    """The warnings of `rspo verify`, but for the one about few problems."""
    Path("r.jsonl").write_text("".join(json.dumps(line) + "\n" for line in rows))
    assert main(["verify", "r.jsonl", "--force", *words]) == 0
    lines = capsys.readouterr().out.splitlines()
    warnings = [line for line in lines if line.startswith("warning: ")]
    return [line for line in warnings if "with fewer than 30" not in line]


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The output of `rspo verify` for the same file."""
    assert main(["verify", "r.jsonl", "--force", *words]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("command", ["verify", "pass-at-k"])
def test_files_of_different_layouts_and_problems(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (verl,) = response_files.verl(Path())
    (qwen,) = response_files.qwen_math(Path())
    Path("r.jsonl").write_text(json.dumps(row("other", RIGHT, correct=True)) + "\n")
    expected = (
        "warning: files in several layouts (verl, plain) have no problem in common, and are taken "
        "together as those of one run"
    )
    assert main([command, str(verl), "r.jsonl"]) == 0
    assert expected in capsys.readouterr().out.splitlines()
    Path("s.jsonl").write_text(json.dumps(row("another", RIGHT, correct=True)) + "\n")
    for files in (["r.jsonl", "s.jsonl"], [str(verl), str(qwen)]):
        Path("responses.verdicts.jsonl").unlink(missing_ok=True)
        assert main([command, *files]) == 0
        assert "several layouts" not in capsys.readouterr().out


def test_good_responses_have_no_warning(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [row("a", RIGHT), row("a", "no"), row("b", RIGHT), row("b", RIGHT)]
    assert warnings_of(capsys, rows) == []


def test_no_response_has_an_answer(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [row("a", "It is 5."), row("b", None)]
    empty, warning = warnings_of(capsys, rows)
    assert empty.startswith("warning: 1 of 2 responses are empty or null, to 1 problem: ")
    assert warning.startswith("warning: no response has an answer, such as 'It is 5.': rules reads")
    assert "--response-column" in warning
    assert len(warnings_of(capsys, [*rows, row("c", RIGHT)])) == 1  # that one is empty


def test_an_answer_that_is_the_text_of_a_list(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [row("a", RIGHT, "['5']"), row("b", RIGHT, '["4", "5"]')]
    (warning,) = warnings_of(capsys, rows)
    assert warning.startswith("warning: answers are the text of a list, such as \"['5']\"")
    assert "--answer-column 'KEY.*' reads the items of such a text as accepted forms" in warning
    assert warnings_of(capsys, rows, "--answer-column=answer.*") == []
    assert "verdicts: 2 correct" in printed(capsys, "--answer-column=answer.*")
    interval = [row("a", RIGHT, "[4, 5]"), row("b", RIGHT, "(1, '2')")]
    assert warnings_of(capsys, interval) == []


def test_responses_that_are_the_text_of_a_list(capsys: pytest.CaptureFixture[str]) -> None:
    """As pandas writes lists into a CSV file."""
    rows = [row(name, str([RIGHT, f"no {name}"])) for name in "ab"]
    (warning,) = warnings_of(capsys, rows)
    assert warning.startswith("warning: each response is the text of a list, such as ")
    assert "--response-column 'KEY.*'" in warning
    assert warnings_of(capsys, rows, "--response-column=response.*") == []
    assert "4 responses to 2 problems" in printed(capsys, "--response-column=response.*")


def test_a_problem_that_is_the_response_itself(capsys: pytest.CaptureFixture[str]) -> None:
    """The last message of a conversation that ends with the response."""
    rows = []
    for number in range(2):
        reply = {"role": "assistant", "content": rf"{number} \boxed{{5}}"}
        rows.append({"messages": [{"role": "user", "content": "a"}, reply], "answer": "5"})
    words = ["--problem-column=messages", "--response-column=messages"]
    (warning,) = warnings_of(capsys, rows, *words)
    assert "the problem of each response is its own text" in warning
    assert "messages.-2" in warning
    assert warnings_of(capsys, rows, "--problem-column=messages.-2", words[1]) == []


def test_all_responses_to_each_problem_are_equal(capsys: pytest.CaptureFixture[str]) -> None:
    """As when the rows of two filters are read as samples."""
    rows = [row(name, RIGHT) for name in "ab" for _ in range(2)] + [row("c", "once")]
    (warning,) = warnings_of(capsys, rows)
    assert "all responses to each problem are equal" in warning
    assert "--format" in warning


def test_every_response_occurs_twice(capsys: pytest.CaptureFixture[str]) -> None:
    texts = [RIGHT, "no", RIGHT, "no"]
    rows = [row(name, f"{name}: {text}") for name in "ab" for text in texts]
    (warning,) = warnings_of(capsys, rows)
    assert "every response occurs 2 times or a multiple of it" in warning
    assert warnings_of(capsys, [*rows, row("a", "once")]) == []


def test_problems_that_differ_by_a_space(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [row("one  id", RIGHT), row("one id", "no"), row("other", RIGHT)]
    (warning,) = warnings_of(capsys, rows)
    assert "1 problem in several spellings that differ by spaces only" in warning
    assert "'one  id' and 'one id'" in warning
    assert "--problem-column" in warning


def test_two_ids_with_one_text(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [row("same", f"{number}: {RIGHT}", id=number % 2) for number in range(4)]
    (warning,) = warnings_of(capsys, rows)
    assert "1 problem text has several ids, such as 0 and 1 for 'same'" in warning
    assert "count as those of one problem; --problem-column" in warning
    (warning,) = warnings_of(capsys, rows, "--problem-column=id")
    assert "1 problem text has several ids, such as 0 and 1 for 'same'" in warning
    assert "they count as different problems; --problem-column" in warning


def test_two_ids_with_one_text_among_single_responses(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [row(f"text {min(n, 3)}", f"{n}: {RIGHT}", id=n) for n in range(5)]
    (warning,) = warnings_of(capsys, rows)
    assert "1 problem text has several ids, such as 3 and 4 for 'text 3'" in warning


def test_ids_of_responses_are_not_taken_for_those_of_problems(
    capsys: pytest.CaptureFixture[str],
) -> None:
    unique = [row(name, f"{n}: {RIGHT}", id=f"{name}{n}") for name in "ab" for n in range(2)]
    assert warnings_of(capsys, unique) == []
    numbered = [row(name, f"{n}: {RIGHT}", id=n) for name in "ab" for n in range(2)]
    assert warnings_of(capsys, numbered) == []


def test_problems_of_verdicts_are_checked_too(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"problem": name, "correct": True} for name in ("p 1", "p  1")]
    Path("v.jsonl").write_text("".join(json.dumps(line) + "\n" for line in rows))
    assert main(["pass-at-k", "v.jsonl"]) == 0
    assert "differ by spaces only, such as 'p 1' and 'p  1'" in capsys.readouterr().out


def test_problems_of_two_runs_that_differ_by_spaces(capsys: pytest.CaptureFixture[str]) -> None:
    for name, problem in (("a", "p  1"), ("b", "p 1")):
        rows = [{"problem": text, "correct": True} for text in (problem, "same")]
        Path(f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in rows))
    assert main(["compare", "a.jsonl", "b.jsonl"]) == 0
    output = capsys.readouterr().out
    assert "problems of both differ by spaces only and are not shared, such as 'p  1' and" in output
    for name, problem in (("c", "p  1"), ("d", "p 1")):  # which share no problem at all
        Path(f"{name}.jsonl").write_text(json.dumps({"problem": problem, "correct": True}) + "\n")
    assert main(["compare", "c.jsonl", "d.jsonl"]) == 2
    error = capsys.readouterr().err
    assert "in common; some differ by spaces only, such as 'p  1' and 'p 1'\n" in error
    Path("again.jsonl").write_text(Path("a.jsonl").read_text())
    assert main(["compare", "a.jsonl", "again.jsonl"]) == 0
    assert "differ by spaces" not in capsys.readouterr().out


@pytest.mark.parametrize("command", ["verify", "pass-at-k"])
def test_empty_and_null_responses_are_counted(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = [None, "", " \n", "\\boxed{1}"]
    for problem, shown in (("p", "3 of 4 responses are empty or null, to 1 problem: "), ("q", "")):
        rows = [{"problem": problem, "answer": "1", "response": text} for text in texts]
        if problem == "q":
            rows = rows[-1:]
        Path("own.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        assert main([command, "own.jsonl", *(["--force"] if command == "verify" else [])]) == 0
        output = capsys.readouterr().out
        assert ("empty or null" in output) == bool(shown)
        assert shown in output
