"""Benchmarks run to their end; the others need a published model, a SLURM or several minutes."""

import shutil
from pathlib import Path

import pytest

from benchmarks import pretrained_cell
from tests.support import ROOT


@pytest.mark.ci
def test_the_phases_of_a_cell_are_measured(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "config", tmp_path / "config")
    tiny = pretrained_cell.SCALES[0]
    rows = list(pretrained_cell._rows(tiny, tmp_path))
    assert [row.what.split(" ")[1].rstrip(",") for row in rows] == [
        "sample",
        "update",
        "evaluation",
    ]
    for row in rows:
        speed, memory = row.measured.split(", ")
        assert int(speed.removesuffix(" tokens/s").replace(",", "")) > 1000
        assert 0.05 < float(memory.removesuffix(" GB")) < 2
