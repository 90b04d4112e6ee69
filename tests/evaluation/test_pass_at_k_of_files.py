"""`rspo pass-at-k`: estimates from verdicts that a user has."""

import json
from itertools import combinations
from pathlib import Path

import pandas as pd
import pytest

from rspo.cli import main
from tests.support import response_files

VERDICTS = {"a": [True, False, False, True], "b": [False, False, False, True]}


def pass_at_k(verdicts: list[bool], k: int) -> float:
    """By counting every subset."""
    subsets = list(combinations(verdicts, k))
    return sum(any(subset) for subset in subsets) / len(subsets)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rows = [{"task": task, "checks": {"ok": ok}} for task, ok in VERDICTS.items()]
    Path("mine.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return Path()


def test_the_table_has_the_mean_over_problems(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["mine.jsonl", "--problem-column=task", "--correct-column=checks.ok", "--k=3", "--k=1"]
    assert main(["pass-at-k", *words, "--out=table.csv"]) == 0
    output = capsys.readouterr().out
    assert output.startswith(
        "8 responses to 2 problems, 4 each\naccuracy: 37.5% of the responses are correct\n\n"
    )
    assert output.endswith("\nwrote table.csv\n")
    table = pd.read_csv("table.csv").set_index(["metric", "k"])
    for k in (1, 3):
        expected = sum(pass_at_k(verdicts, k) for verdicts in VERDICTS.values()) / 2
        assert table.loc[("pass_at_k", k), "estimate"] == pytest.approx(expected)
        row = next(line for line in output.splitlines() if line.startswith(f"    {k} "))
        assert float(row.split()[1]) == pytest.approx(expected, abs=5.1e-4)
    assert set(table.index.get_level_values("metric")) == {"pass_at_k", "pass_hat_k"}


def test_files_of_other_tools_are_read_without_an_option(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for write, name in response_files.WITH_VERDICTS:
        assert main(["pass-at-k", *map(str, write(folder))]) == 0
        output = capsys.readouterr().out
        assert f": read as {name} (" in output
        assert "6 responses to 2 problems, 3 each\naccuracy: 50.0%" in output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["mine.jsonl"],
            "the key 'problem' is missing; has task, checks (--problem-column names the key of the "
            "problem)\n",
        ),
        (
            ["mine.jsonl", "--problem-column=tsk", "--correct-column=checks.ok"],
            "the key 'tsk' is missing; has task, checks; did you mean task? (--problem-column name",
        ),
        (
            ["mine.jsonl", "--problem-column=task"],
            "is missing; has task, checks (--correct-column names the key of the verdict; `rspo ve",
        ),
        (["mine.jsonl", "--problem-column=task"], "line 1: the key 'correct' is missing; has task"),
        (["mine.jsonl", "--suite=standard", "x"], "--suite takes one policy"),
        (["no.jsonl"], "no.jsonl: no such file"),
    ],
)
def test_mistakes_are_one_line(
    capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    assert main(["pass-at-k", *words]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.count("\n") == 1
    assert message in output.err
    words = ["mine.jsonl", "--problem-column=task", "--correct-column=checks.ok", "--out=a.txt"]
    assert main(["pass-at-k", *words]) == 2
    assert "a.txt: has the suffix '.txt'; allowed: .csv" in capsys.readouterr().err


def test_a_wrong_output_is_an_error_before_a_file_is_read(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Reading may mean to verify thousands of responses first."""
    assert main(["pass-at-k", "gone.jsonl", "--out", "a.txt"]) == 2
    assert "a.txt: has the suffix '.txt'; allowed: .csv" in capsys.readouterr().err
