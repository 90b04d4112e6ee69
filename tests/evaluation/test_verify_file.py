"""`rspo verify`: what a user gets for a file of responses, good or bad."""

import gzip
import json
import re
import shutil
from itertools import combinations
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from rspo.cli import main
from rspo.evaluation.score import verified
from tests.support import ROOT, judge_server
from tests.support.judge_prompt import commit

Line = dict[str, Any]


def line(problem: Any, answer: Any, response: Any) -> Line:
    return {"problem": problem, "answer": answer, "response": response}


def box(answer: object) -> str:
    return rf"so \boxed{{{answer}}}"


LINES = [
    line("a", "5", box(5)),
    line("b", ["1", "one"], box("one")),
    line("a", "5", "no"),
    line("b", ["1", "one"], box(2)),
    line("c", 42, box(42)),
]


def text_of(lines: list[Line]) -> str:
    return "".join(json.dumps(line) + "\n" for line in lines)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, which is no project of ours."""
    monkeypatch.chdir(tmp_path)
    Path("responses.jsonl").write_text(text_of(LINES))
    return tmp_path


def verify(*words: str) -> int:
    return main(["verify", *words, "--verifier=exact"])


def rows_of(path: str) -> list[Line]:
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def test_a_row_a_response_says_what_was_extracted_and_why(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert verify("responses.jsonl") == 0
    rows = rows_of("responses.verdicts.jsonl")
    assert [(row["correct"], row["reason"], row["extracted"]) for row in rows] == [
        (True, "correct", "5"),
        (True, "correct", "one"),
        (False, "no answer", None),
        (False, "incorrect", "2"),
        (True, "correct", "42"),
    ]
    assert [{key: row[key] for key in LINES[0]} for row in rows] == LINES
    output = capsys.readouterr().out
    assert output.startswith(
        "5 responses to 3 problems, 1 to 2 each\n"
        "verdicts: 3 correct, 1 no answer, 1 incorrect\n"
        "accuracy: 60.0% of the responses are correct\n"
    )
    header = next(row for row in output.splitlines() if "Pass@k" in row)
    assert header.split()[:4] == ["k", "Pass@k", "error", "within"]
    assert output.endswith("\nwrote responses.verdicts.jsonl\n")


@pytest.mark.parametrize(
    ("response", "extracted"),
    [(r"\boxed{1} and \boxed{2}", "1, 2"), (r"\boxed{1}, no: \boxed{2}", "2"), ("2", None)],
)
def test_the_extracted_answer_is_what_the_rules_read(
    response: str, extracted: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("one.jsonl").write_text(text_of([line("a", "1,2", response)]))
    assert main(["verify", "one.jsonl"]) == 0
    assert capsys.readouterr().out.startswith("1 response to 1 problem, ")
    (row,) = rows_of("one.verdicts.jsonl")
    assert row["extracted"] == extracted
    assert row["correct"] == (extracted == "1, 2")
    assert row["verifier"] == "rules"


def fraction_of_subsets(outcomes: list[bool], k: int) -> float:
    """Pass@k by counting every subset."""
    passed = [any(subset) for subset in combinations(outcomes, k)]
    return sum(passed) / len(passed)


def printed(output: str) -> dict[int, list[str]]:
    """The columns of each k in the printed table."""
    lines = re.findall(
        r"^ +(\d+) +(\S+) +(\S+) +(\S+)  (\S+)(?: to (\S+))? +\S+ +\S+$", output, flags=re.MULTILINE
    )
    return {int(k): columns for k, *columns in lines}


def test_a_backspace_instead_of_a_box_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    """`"\\boxed{5}"` in JSON, written with one backslash."""
    Path("own.jsonl").write_text(text_of([line("a", "5", "\boxed{5}"), *LINES]))
    assert verify("own.jsonl") == 0
    assert "responses with a backspace and oxed{: 1;" in capsys.readouterr().out


def test_problems_have_their_own_numbers_of_responses(capsys: pytest.CaptureFixture[str]) -> None:
    """Each estimate equals that of all subsets; a larger k says whom it leaves out."""
    outcomes = {
        "few": [True, False, False],
        "some": [False, True, False, False, True],
        "many": [False] * 6 + [True],
    }
    lines = [line(name, "1", box(int(one))) for name, of in outcomes.items() for one in of]
    Path("unequal.jsonl").write_text(text_of(lines))
    assert verify("unequal.jsonl") == 0
    output = capsys.readouterr().out
    assert "--k 4 would leave out 1 problem with fewer responses" in output
    table = printed(output)
    assert list(table) == [1, 2]
    assert verify("unequal.jsonl", "--k=4", "--k=3", "--k=7") == 0
    output = capsys.readouterr().out
    table |= printed(output)
    assert list(table) == [1, 2, 3, 4, 7]
    for k, (estimate, *_) in table.items():
        each = [fraction_of_subsets(of, k) for of in outcomes.values() if len(of) >= k]
        assert float(estimate) == pytest.approx(sum(each) / len(each), abs=5.1e-4)
    assert 'k = 4 leaves out 1 problem with fewer responses, such as "few"' in output
    assert "k = 7 leaves out 2 problems" in output
    assert table[7][1:4] == ["-", "-", "-"]  # one problem, and 2k > N


def test_gzip_and_a_byte_order_mark_give_the_same_rows() -> None:
    assert verify("responses.jsonl") == 0
    expected = rows_of("responses.verdicts.jsonl")
    data = Path("responses.jsonl").read_bytes()
    marked = b"\xef\xbb\xbf" + data.replace(b"\n", b"\r\n\r\n")
    Path("marked.jsonl").write_bytes(marked)
    Path("packed.jsonl.gz").write_bytes(gzip.compress(marked))
    for name in ("marked.jsonl", "packed.jsonl.gz"):
        assert verify(name) == 0
        assert rows_of(f"{name.partition('.')[0]}.verdicts.jsonl") == expected


def test_the_history_of_verdicts_names_a_file_that_was_changed_meanwhile(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def changed_meanwhile(*arguments: Any) -> Any:
        with Path("responses.jsonl").open("a") as file:
            file.write(text_of(LINES[:1]))
        return verified(*arguments)

    monkeypatch.setattr("rspo.evaluation.verify_file.verified", changed_meanwhile)
    assert verify("responses.jsonl") == 0
    assert len(rows_of("responses.verdicts.jsonl")) == len(LINES)
    assert main(["trace", "responses.verdicts.jsonl"]) == 2
    assert "was made from another version of responses.jsonl" in capsys.readouterr().err


def test_the_rows_can_be_verified_again_and_are_readable_in_every_language() -> None:
    problem = "求 \ud800 \\frac{1}{2}"  # a lone surrogate cannot be encoded
    Path("chinese.jsonl").write_text(text_of([line(problem, "二", box("二"))]))
    assert verify("chinese.jsonl") == 0
    text = Path("chinese.verdicts.jsonl").read_text()
    assert '"answer": "二"' in text
    assert json.loads(text)["problem"] == problem
    assert verify("chinese.verdicts.jsonl", "--output=again.jsonl") == 0
    assert Path("again.jsonl").read_text() == text


BAD_LINES = [
    ("\n\n", "x.jsonl: has no rows; at least one response is needed"),
    ('{"problem": "a"', "x.jsonl, line 1: not JSON (Expecting ',' delimiter)"),
    ('\n{"problem": "a"}\n', "x.jsonl, line 2: the key 'answer' is missing; has problem (--answer"),
    ("{}", "line 1: the key 'problem' is missing; has no keys (--problem-column names the key of"),
    ('{"problem": "a", "answer": {"b": 1, "b": 2}}', "(the key 'b' is duplicated)"),
    (text_of([line("a", "5", 5)]), "line 1: 'response' is 5; expected text"),
    (text_of([line("a", "5", [])]), "'response' is []; expected text, or a list with a text for"),
    (text_of([line("a", "5", [["x"]])]), "expected text, or a list with a text for each response"),
    (text_of([line(True, "5", "x")]), "line 1: 'problem' is true; expected text"),
    (text_of([line("a", True, "x")]), "'answer' is true; expected text, number or list of them"),
    (text_of([line("a", [], "x")]), "is []; expected text, number or list of them, not empty"),
    (text_of([line("a", ["1", " "], "x")]), 'line 1: \'answer\' is ["1", " "]; expected text'),
    (
        text_of([line("a", "5", "x"), line("a", "6", "x")]),
        "line 2: the answer '6' differs from '5', given before for the same problem",
    ),
    (text_of(LINES).encode() + b"\xff\n", "x.jsonl, line 6: not UTF-8 ("),
    (gzip.compress(text_of(LINES).encode())[:-9], "x.jsonl: not a complete gzip file ("),
    ('{"a": ' + "[" * 100_000, "x.jsonl, line 1: not JSON ("),
]
MINE = "responses.jsonl"
BAD_WORDS = [
    (["nothing.jsonl"], "nothing.jsonl: no such file"),
    (["."], ".: not a file"),
    ([MINE, "--k=0"], "k = 0; allowed: 1 to 2, the largest number of responses"),
    ([MINE, "--output=a.parquet"], "a.parquet: has the suffix '.parquet'; allowed: .js"),
    ([MINE, "--output=no/a.jsonl"], "no/a.jsonl: no such folder: no"),
    ([MINE, "--output=./responses.jsonl", "--force"], "has the responses; name another"),
    ([MINE, "--answer-column=gold"], "line 1: the key 'gold' is missing; has problem, a"),
    ([MINE, "--verifier=rule"], "did you mean rules? Allowed: exact, rules, math_verify"),
    ([MINE, "--verifier=mine"], "no verifier 'mine'; allowed: "),
    (["/dev/null"], "/dev/null: not a file"),
]


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_tables_are_read_by_their_suffix(suffix: str) -> None:
    long = "think " * 40_000  # Python's own limit in CSV files is 131,072 characters
    table = pd.DataFrame([line("a", "5", long + box(5)), line("b", "6", box(7))])
    table.to_csv("r.csv", index=False)
    table.to_parquet("r.parquet")
    assert verify(f"r.{suffix}") == 0
    assert [row["correct"] for row in rows_of("r.verdicts.jsonl")] == [True, False]


def assert_refused(folder: Path, words: list[str], message: str, capsys: Any) -> None:
    before = {path: path.read_bytes() for path in folder.rglob("*")}
    assert main(["verify", "--verifier=exact", *words]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith("rspo: error: ")
    assert output.err.count("\n") == 1
    assert message in output.err
    assert {path: path.read_bytes() for path in folder.rglob("*")} == before


@pytest.mark.parametrize(("content", "message"), BAD_LINES, ids=range(len(BAD_LINES)))
def test_bad_lines_are_one_line_and_nothing_is_written(
    folder: Path, content: str | bytes, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("x.jsonl").write_bytes(content if isinstance(content, bytes) else content.encode())
    assert_refused(folder, ["x.jsonl"], message, capsys)


@pytest.mark.parametrize(("words", "message"), BAD_WORDS, ids=range(len(BAD_WORDS)))
def test_bad_arguments_are_one_line_and_nothing_is_written(
    folder: Path, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert_refused(folder, words, message, capsys)


def test_an_existing_output_is_kept_without_force(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("responses.verdicts.jsonl").write_text("mine")
    assert_refused(folder, ["responses.jsonl"], "exists and was not made by this command", capsys)
    wrong = ["responses.jsonl", "--answer-column=gold"]  # is named first
    assert_refused(folder, wrong, "'gold'", capsys)
    assert verify("responses.jsonl", "--force") == 0
    assert len(rows_of("responses.verdicts.jsonl")) == len(LINES)
    capsys.readouterr()
    assert_refused(
        folder,
        ["responses.jsonl", "--verifier=rules"],
        "responses.verdicts.jsonl exists and was not made by this command with these settings",
        capsys,
    )


def test_verdicts_on_another_file_are_kept_without_force(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """x.jsonl and x.jsonl.gz have one default output."""
    Path("x.jsonl").write_text(text_of(LINES))
    Path("x.jsonl.gz").write_bytes(gzip.compress(text_of(LINES[:1]).encode()))
    assert verify("x.jsonl") == verify("x.jsonl") == 0
    before = Path("x.verdicts.jsonl").read_bytes()
    assert verify("x.jsonl.gz") == 2
    message = capsys.readouterr().err
    assert "x.verdicts.jsonl exists and was not made by this command" in message
    assert "name another file with --output, or replace it with --force" in message
    assert Path("x.verdicts.jsonl").read_bytes() == before


def test_a_judge_decides_on_own_responses(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It accepts every response that reaches it, also one without a box."""
    shutil.copytree(ROOT / "config", "config")
    pinned = commit(folder / "upstream", "PROMPT = '{question} | {output} | {answer}'\n")
    prompt = {"repository": str(folder / "upstream"), "commit": pinned}
    with judge_server.running(lambda prompt: judge_server.reply("correct")) as judge:
        xverify = {"prompt": prompt, "model": "test/judge", "url": judge.url, "start_seconds": 1}
        xverify |= {"retry_seconds": 0, "concurrent_requests": 2, "request_seconds": 10}
        setting = f"--set=xverify={json.dumps(xverify)}"
        assert main(["fetch-judge", setting, "--force"]) == 0
        words = ["verify", "responses.jsonl", "--verifier=xverify", setting]
        assert main(words) == main(words) == 0  # its verdicts are stored
        assert len(judge.prompts) == len(LINES)
        assert {r"a | no | 5", r"b | so \boxed{2} | 1 or one"} <= set(judge.prompts)
    rows = rows_of("responses.verdicts.jsonl")
    assert [row["verifier"] for row in rows] == ["xverify"] * 5
    assert [row["extracted"] for row in rows] == ["5", "one", None, "2", "42"]
    assert "accuracy: 100.0%" in capsys.readouterr().out
    assert main(["trace", "responses.verdicts.jsonl"]) == 0
