"""`rspo diagnose`: its table, its picture, objectives of extensions, and wrong arguments."""

import shutil
import sys
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


FUNCTIONS = """
from rspo.objectives import response_weights


def centred(rewards, k):
    weights = response_weights(rewards, "pkpo_s", k)
    return weights - weights.mean(axis=-1, keepdims=True)


constant = 3
"""


def test_a_function_of_a_module_is_checked_for_pass_at_k(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "functions_to_check.py").write_text(FUNCTIONS)
    check = ["diagnose", "functions_to_check:centred", "--n", "8", "--check", "pass_at_k"]
    assert main([*check, "--k", "4"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[4] == "k = 4   unbiased for 0.5 times Pass@4"
    monkeypatch.chdir("/")
    (tmp_path / "json.py").write_text(FUNCTIONS)  # a name that Python has, too
    check[1] = f"{tmp_path}/json.py:centred"
    assert main([*check, "--k", "8"]) == 1
    *_, last, verdict = capsys.readouterr().out.splitlines()
    assert last == "k = 8   maximizes nothing, F is 0"
    assert verdict == ("not unbiased for Pass@8 with n = 8; unbiased with k = 1, 2, 3, 4, 5, 6, 7")
    assert main(["diagnose", check[1], "--k", "4", "--n", "8"]) == 0
    for words, message in (
        (check, "--check needs --k"),
        (["diagnose", "functions_to_check:constant"], "functions_to_check:constant is no function"),
        (["diagnose", "functions_to_check:none"], "has no attribute 'none'"),
        (["diagnose", "no_such_module:centred"], "No module named 'no_such_module'"),
        ([*check[:1], "maxpo", "--k", "8", *check[2:]], "maxpo cannot use k = 8 with n = 8"),
    ):
        assert main(words) == 2
        error = capsys.readouterr().err
        assert message in error
        assert error.count("\n") == 1


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
