"""`rspo gpu-check --device cpu` with SmolLM2-135M-Instruct from PyPI.

Ten minutes on two quiet cores.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from rspo.gpu_check.steps import STEPS
from tests.gpu_check.test_run import results
from tests.support import ROOT
from tests.training.verl.test_published_model import environment, write_smollm

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]


def test_every_step_passes_on_a_cpu(tmp_path: Path) -> None:
    (tmp_path / "config").symlink_to(ROOT / "config")
    write_smollm(tmp_path / "mirror")
    words = ["gpu-check", "--device", "cpu", "--mirror", "mirror", "--out", "table.md"]
    done = subprocess.run(
        [sys.executable, "-m", "rspo.cli", *words], cwd=tmp_path, env=environment()
    )
    table = tmp_path / "table.md"
    assert done.returncode == 0, table.read_text()
    outcomes = {name: result.partition(":")[0] for name, result in results(table).items()}
    assert outcomes.pop("flash-attn") == "not here"
    assert outcomes == {step.name: "pass" for step in STEPS if step.name != "flash-attn"}
    assert "random tiny judge, on a CPU" in table.read_text()
