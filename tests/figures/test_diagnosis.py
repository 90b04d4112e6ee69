"""`rspo diagnose`: its table, its picture, objectives of extensions, and wrong arguments."""

import shutil
from pathlib import Path

import pytest

from rspo.cli import main
from rspo.figures import style
from rspo.figures.exact import draw_diagnosis
from rspo.objectives.diagnose import diagnose
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
    assert lines[2].split() == ["centred:", *["not", "unbiased", "for", "any", "Pass@k"]]
    half = next(line.split() for line in lines if line.startswith("  0.50"))
    # F = 1 - (1-p)^2; F' = 2 (1-p); centred: 3/4 of it plus 1/4 of p.
    assert half[1:3] == ["0.7500", "1.0000"]
    assert half[5:7] == ["0.6875", "1.0000"]
    assert all(len(line) <= 100 for line in lines)


def test_the_picture_draws_the_numbers_of_the_diagnosis() -> None:
    diagnosis = diagnose("maxrl", n=8)
    with style.applied():
        value, slope, ratio = draw_diagnosis(diagnosis).axes
    for axes, quantity in ((value, "value"), (slope, "slope"), (ratio, "signal_to_noise")):
        forms = (diagnosis.weights, diagnosis.centred, diagnosis.standardized)
        for line, form in zip(axes.get_lines(), forms, strict=True):
            expected = getattr(form, quantity)
            assert line.get_ydata() == pytest.approx(expected, nan_ok=True)


def test_an_objective_of_an_extension(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Capture,
    caplog: pytest.LogCaptureFixture,
) -> None:
    shutil.copytree(ROOT / "config", tmp_path / "config")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text(OWN)
    config = tmp_path / "config/tiny.yaml"
    config.write_text(f"{config.read_text()}\nextensions: [own.py]\n")
    with restored():
        assert main(["diagnose", "twice", "--out", "twice.pdf"]) == 0
    assert (tmp_path / "twice.pdf").is_file()
    assert not caplog.records  # of fontTools
    assert "weights:      unbiased for 2 times Pass@1" in capsys.readouterr().out
