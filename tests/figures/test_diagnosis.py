"""`rspo diagnose`: its table, its picture, objectives of extensions, and wrong arguments."""

import shutil
from pathlib import Path

import pytest

from rspo.cli import main
from tests.support import ROOT
from tests.support.registries import restored

Capture = pytest.CaptureFixture[str]

OWN = """
from rspo.objectives import KRule, Objective, register
register(Objective("twice", lambda rewards, k: 2 * rewards / rewards.shape[-1], KRule.NONE))
"""


def test_the_table_has_the_exact_numbers(capsys: Capture) -> None:
    assert main(["diagnose", "rspo_pass_at_k", "--k", "2", "--n", "8"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "rspo_pass_at_k, k = 2, n = 8, 0/1 rewards"
    assert lines[1].split() == ["weights:", "unbiased", "for", "Pass@2"]
    assert lines[2].split() == ["centred:", "maximizes", "0.25", "Pass@1", "+", "0.75", "Pass@2"]
    half = next(line.split() for line in lines if line.startswith("  0.50"))
    # F = 1 - (1-p)^2; F' = 2 (1-p); centred: 3/4 of it plus 1/4 of p.
    assert half[1:3] == ["0.7500", "1.0000"]
    assert half[5:7] == ["0.6875", "1.0000"]
    assert all(len(line) <= 100 for line in lines)


def test_a_wrong_k_is_one_line(capsys: Capture) -> None:
    assert main(["diagnose", "maxpo", "--k", "8", "--n", "8"]) == 2
    error = capsys.readouterr().err
    assert "maxpo cannot use k = 8 with n = 8" in error
    assert error.count("\n") == 1


FUNCTIONS = """
import numpy as np
from factor import FACTOR
from rspo.objectives import response_weights


def centred(rewards, k):
    weights = response_weights(rewards, "pkpo_s", k)
    return (weights - weights.mean(axis=-1, keepdims=True)).astype(np.float32)


def off_by_one(rewards, k):
    n = rewards.shape[-1]
    return FACTOR * (n - k + 1) / n * response_weights(rewards, "rspo_pass_at_k", k)


def fails(rewards, k):
    return rewards.reshape(8)


constant = 3
"""


def test_a_function_of_a_file_is_checked_for_pass_at_k(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "factor.py").write_text("FACTOR = 1")  # a module beside the file
    file = tmp_path / "json.py"  # a name that Python has, too
    file.write_text(FUNCTIONS)
    check = ["--n", "8", "--check", "pass_at_k"]
    assert main(["diagnose", f"{file}:centred", "--k", "4", *check]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{file}:centred, n = 8, 0/1 rewards"
    assert lines[4] == "k = 4   unbiased for 0.5 times Pass@4"
    assert main(["diagnose", f"{file}:centred", "--k", "8", *check]) == 1
    *_, verdict = capsys.readouterr().out.splitlines()
    assert verdict == "not unbiased for Pass@8 with n = 8; unbiased with k = 1, 2, 3, 4, 5, 6, 7"
    assert main(["diagnose", f"{file}:off_by_one", "--k", "4", *check]) == 0
    assert "unbiased for (n-k+1)/n = 0.625 times Pass@4" in capsys.readouterr().out
    assert main(["diagnose", f"{file}:off_by_one", "--k", "4", *check, "--factor", "1"]) == 1
    assert "not for 1 times Pass@4" in capsys.readouterr().out
    assert main(["diagnose", "maxpo", "--k", "4", *check, "--factor", "1"]) == 0
    assert main(["diagnose", "grpo", "--k", "4", *check]) == 1
    capsys.readouterr()
    assert main(["diagnose", f"{file}:centred", "--k", "4", "--n", "8"]) == 0
    assert capsys.readouterr().out.startswith(f"{file}:centred, k = 4, n = 8, 0/1 rewards\n")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["{}:centred", "--check", "pass_at_k"], "--check needs --k"),
        (["{}:centred", "--k", "2", "--factor", "1"], "--factor needs --check pass_at_k"),
        (["{}:constant", "--k", "2"], "has no function 'constant'; has response_weights, centred"),
        (["no_such.py:centred", "--k", "2"], "no file 'no_such.py'; allowed: FILE.py:FUNCTION"),
        (["{}:fails", "--k", "2", "--n", "4"], "failed for rewards of shape (5, 4), dtype float64"),
        (["{}/../broken.py:f", "--k", "2"], "broken.py failed: ZeroDivisionError: division by"),
        (["maxpo", "--k", "8", "--n", "8", "--check", "pass_at_k"], "maxpo cannot use k = 8 with"),
        (["maxpo", "--k", "8", "--check", "best"], "--check"),
    ],
)
def test_a_wrong_call_for_a_function_is_one_line(
    tmp_path: Path, capsys: Capture, words: list[str], message: str
) -> None:
    (tmp_path / "factor.py").write_text("FACTOR = 1")
    (tmp_path / "own").mkdir()
    (tmp_path / "broken.py").write_text("1 / 0")
    file = tmp_path / "functions.py"
    file.write_text(FUNCTIONS)
    place = file if "broken" not in words[0] else tmp_path / "own"
    assert main(["diagnose", words[0].format(place), *words[1:]]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert message in output.err
    assert output.err.count("\n") == 1


def test_an_objective_of_an_extension(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    shutil.copytree(ROOT / "config", tmp_path / "config")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text(OWN)
    config = tmp_path / "config/tiny.yaml"
    config.write_text(f"{config.read_text()}\nextensions: [own.py]\n")
    with restored():
        assert main(["diagnose", "twice"]) == 0
    assert "weights:      unbiased for 2 times Pass@1" in capsys.readouterr().out
