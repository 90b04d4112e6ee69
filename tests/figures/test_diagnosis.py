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
