"""`rspo verify`: where answers stand in responses, several verifiers, and what is worth a look."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from rspo.cli import main
from rspo.config.registered import OWN_VERIFIERS, Verifier
from rspo.rewards import Verdict, verify
from tests.support import ROOT

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


NEEDS_A_LOOK = (
    ("7", r"\boxed{7}"),
    ("7", r"\boxed{7 \text{ or } 8}"),
    ("7", r"\boxed{7, 8}"),
    ("7", r"\boxed{6} or \boxed{7}"),
    ("(1,2)", r"\boxed{(1,3)}"),
    ("1, 2", r"\boxed{1, 3}"),
    ("1,000", r"\boxed{1,001}"),
)


def test_responses_that_offer_several_values_are_counted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    write(*NEEDS_A_LOOK)
    assert main(["verify", "own.jsonl"]) == 0
    expected = r"incorrect, and offer several values: 3, such as 7 \text{ or } 8 | 7, 8 | 6 or 7"
    assert expected in capsys.readouterr().out.splitlines()


def test_answers_that_the_verifier_does_not_read_are_counted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    write(("7", r"\boxed{7}"), (r"\frac{1}{2", r"\boxed{7}"), ("7", r"\boxed{8}"))
    assert main(["verify", "own.jsonl"]) == 0
    expected = r"answers of which rules accepts only an identical copy: 1, such as \frac{1}{2"
    assert expected in capsys.readouterr().out.splitlines()
    assert main(["verify", "own.jsonl", "--verifier=exact", "--force"]) == 0
    assert "identical copy" not in capsys.readouterr().out


SOLUTION = "In May, she sold 48/2 = <<48/2=24>>24 clips.\nTogether 48+24 = <<48+24=72>>72.\n#### "


def test_the_answer_of_a_worked_solution_is_read(capsys: pytest.CaptureFixture[str]) -> None:
    """Also if all responses to the problem are wrong. The last answer is not read."""
    solutions = [(f"{SOLUTION}{answer}", f"... #### {answer}") for answer in (72, 34, "1,000")]
    write(*solutions, (f"{SOLUTION}5", "#### 6"), (rf"{SOLUTION}\frac{{1}}{{2", "#### 1"))
    assert main(["verify", "own.jsonl", "--extract=hashes"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "verdicts: 3 correct, 2 incorrect" in lines
    assert [line.partition(",")[0] for line in lines if "identical copy" in line] == [
        "answers of which rules accepts only an identical copy: 1"
    ]


def test_only_answers_that_no_response_matched_are_verified_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[tuple[str, ...]] = []

    def remember(boxes: list[str], answers: list[tuple[str, ...]], verifier: str) -> list[Verdict]:
        asked.extend(answers)
        return verify(boxes, answers, verifier)

    monkeypatch.setattr("rspo.evaluation.verify_notes.verify", remember)
    write(*[("7", r"\boxed{7}"), ("7", "no"), ("8", "no"), ("8", r"\boxed{9}")])
    assert main(["verify", "own.jsonl"]) == 0
    assert asked == [("8",)]


def test_timeouts_are_counted_with_examples(capsys: pytest.CaptureFixture[str]) -> None:
    write(("7", r"\boxed{10^{10^{10}}}"))
    assert main(["verify", "own.jsonl", "--verifier=math_verify"]) == 0
    expected = "over the time limit, which counts as incorrect: 1, such as 10^{10^{10}}"
    assert expected in capsys.readouterr().out.splitlines()


def test_two_verifiers_are_compared_and_the_first_decides(
    capsys: pytest.CaptureFixture[str],
) -> None:
    write(("7", r"\boxed{7}"), ("7", r"\boxed{|x| = 7}"), ("7", r"\boxed{8}"))
    assert main(["verify", "own.jsonl", "--verifier", "rules,math_verify"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "verdicts: 2 incorrect, 1 correct" in lines
    agreement = "they agree on 66.7% of 3 responses, kappa 0.400"
    assert f"A: rules, 33.3% correct; B: math_verify; {agreement}" in lines
    assert r'  only B accepts "\boxed{|x| = 7}" for 7  "problem 1"' in lines
    rows = verdicts()
    assert [row["correct"] for row in rows] == [True, False, False]
    assert rows[1]["verdicts"] == {"rules": "incorrect", "math_verify": "correct"}
    assert sorted(path.name for path in Path().iterdir() if "journal" in path.name) == []


def test_a_run_with_fewer_verifiers_leaves_no_journal_of_a_killed_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write(("7", r"\boxed{7}"), ("7", r"\boxed{8}"))

    def end(*_: object) -> None:
        raise SystemExit

    with monkeypatch.context() as killed:
        killed.setattr("rspo.evaluation.verify_file._write_verdicts", end)
        with pytest.raises(SystemExit):
            main(["verify", "own.jsonl", "--verifier", "rules,math_verify,exact"])
    assert len(list(Path().glob(".*.journal"))) == 3
    assert main(["verify", "own.jsonl"]) == 0
    assert list(Path().glob(".*.journal")) == []


def test_each_verifier_must_exist(capsys: pytest.CaptureFixture[str]) -> None:
    write(("7", r"\boxed{7}"))
    assert main(["verify", "own.jsonl", "--verifier", "rules,math"]) == 2
    assert "no verifier 'math'" in capsys.readouterr().err


def test_a_file_without_a_box_names_the_place_that_has_answers(
    capsys: pytest.CaptureFixture[str],
) -> None:
    write(("72", "48 + 24 = 72\n#### 72"), ("34", "17 + 17\n#### 34"))
    assert main(["verify", "own.jsonl"]) == 0
    hint = "; of these 2, hashes finds one in 2; --extract box,hashes reads hashes too; "
    assert hint in capsys.readouterr().out
    assert main(["verify", "own.jsonl", "--extract", "answer-tag", "--force"]) == 0
    output = capsys.readouterr().out
    assert "rules reads answer-tag; " in output
    assert "--extract answer-tag,hashes reads hashes too; " in output


BOXED = ("7", r"\boxed{7}")


@pytest.mark.parametrize(
    ("others", "warned"),
    [
        ([("7", "Answer: 7")], True),
        ([("7", "Answer: 7"), BOXED], False),  # fewer than a fifth
        ([("7", "so 7")], False),  # the last number may be no answer
        ([("7", "I do not know")], False),
    ],
)
def test_many_responses_with_answers_at_another_place_are_warned_about(
    others: list[tuple[str, str]], warned: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [BOXED] * 4 + others
    write(*rows)
    assert main(["verify", "own.jsonl"]) == 0
    output = capsys.readouterr().out
    assert ("warning: 1 of 5 responses have no answer, such as 'Answer: 7'" in output) == warned
    assert ("; --extract box,answer-line reads answer-line too\n" in output) == warned


def test_a_file_of_bare_answers_is_not_compared_but_has_a_hint(
    capsys: pytest.CaptureFixture[str],
) -> None:
    write(("7", "7"), ("8", "9"))
    assert main(["verify", "own.jsonl", "--verifier", "rules,exact"]) == 0
    output = capsys.readouterr().out
    assert "they agree" not in output
    assert "rules and exact are not compared: neither read an answer in any response" in output
    assert "--extract box,whole reads whole too; " in output
    assert main(["verify", "own.jsonl", "--extract", "whole", "--force"]) == 0
    assert "verdicts: 1 correct, 1 incorrect" in capsys.readouterr().out


@pytest.mark.parametrize(
    "command", [["pass-at-k", "own.jsonl"], ["compare", "own.jsonl", "again.jsonl"]]
)
def test_commands_that_verify_take_the_places(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    write(("7", "Answer: 7"), ("8", "#### 8"))
    shutil.copy("own.jsonl", "again.jsonl")
    assert main(command + ["--extract", "box,answer-line"]) == 0
    lines = capsys.readouterr().out.splitlines()
    share = "50.0% of the responses have no answer"
    assert f"own.jsonl: verified with rules --extract box,answer-line; {share}" in lines
    assert main(command + ["--extract", "all"]) == 0
    assert "rules --extract all; 0.0% of the" in capsys.readouterr().out
    assert main(command + ["--extract", "boxes"]) == 2
    assert main(command + ["--extract", "all", "--verifier", "xverify"]) == 2


def test_rows_record_their_places_and_are_verified_again_with_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    write(("7", "Answer: 7"), ("8", "#### 8"))
    names = []
    for extract in ("box", "box,answer-line", "all"):
        names.append(f"{len(names)}.jsonl")
        assert main(["verify", "own.jsonl", "--extract", extract, "--output", names[-1]]) == 0
    assert [row.get("extract") for row in verdicts(names[0])] == [None] * 2
    assert [row["extract"] for row in verdicts(names[1])] == ["box,answer-line"] * 2
    capsys.readouterr()
    assert main(["compare"] + names[1:]) == 0
    warning = (
        "warning: 1.jsonl has verdicts of rules --extract box,answer-line, 2.jsonl those of "
        "rules --extract all; --verifier rules --extract box,answer-line verifies both alike"
    )
    assert warning in capsys.readouterr().out.splitlines()
    assert main(["compare"] + names[:2]) == 0
    assert "0.jsonl has verdicts of rules, 1.jsonl those of rules --extr" in capsys.readouterr().out
    assert main(["compare"] + names[1:] + ["--verifier", "exact"]) == 0
    output = capsys.readouterr().out
    assert "1.jsonl: verified with exact --extract box,answer-line; 50.0% of the" in output
    assert "2.jsonl: verified with exact --extract all; 0.0% of the responses" in output
    assert "warning: 1.jsonl has verdicts of exact --extract box,answer-line, 2.jsonl" in output
    assert main(["compare"] + names[1:] + ["--extract", "all"]) == 0
    assert "has verdicts of" not in capsys.readouterr().out


def test_places_are_refused_for_a_verifier_that_reads_the_full_response(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(BOXED)
    own = Verifier("first_letter", lambda response, answers: True)
    monkeypatch.setitem(OWN_VERIFIERS, own.name, own)
    for command in ("verify", "pass-at-k"):
        words = [command, "own.jsonl", "--verifier", own.name]
        assert main(words + ["--extract", "all"]) == 2
        error = "rspo: error: extract: first_letter gets the full response; exact, rules, math_ve"
        assert capsys.readouterr().err.startswith(error)
        assert main(words) == 0
    assert (
        main(["verify", "own.jsonl", f"--verifier=rules,{own.name}", "--extract=all", "--force"])
        == 0
    )


def test_without_the_option_the_places_of_the_config_count(
    capsys: pytest.CaptureFixture[str],
) -> None:
    shutil.copytree(ROOT / "config", "config")
    write(("7", "Answer: 7"))
    words = ["verify", "own.jsonl", "--set=extract=answer-line", "--force"]
    assert main(words) == 0
    assert "verdicts: 1 correct" in capsys.readouterr().out
    assert main(words + ["--extract", "box"]) == 0
    assert "verdicts: 1 no answer" in capsys.readouterr().out
