"""verl's verification of all cells before any job is submitted; about half a minute."""

import os
from pathlib import Path

import pytest

from rspo.training.verl.config_check import check_configs
from tests.support import paper_scale

pytestmark = pytest.mark.long


def test_each_problem_of_the_cells_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By hand: 16 prompts with 4 responses are fewer than 128 GPUs, the smaller model's number."""
    environment = dict(os.environ)
    many = paper_scale.load(tmp_path, models={"qwen2.5-math-1.5b": {"gpus": 128}})
    without_flash, indivisible = sorted(check_configs(many).problems)
    assert "flash-attn is not installed" in without_flash
    assert indivisible.endswith("allowed: numbers of ranks that divide 64")
    assert dict(os.environ) == environment
    (tmp_path / "flash_attn.py").touch()
    about = tmp_path / "flash_attn-2.8.3.dist-info"  # transformers reads it
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: flash-attn\nVersion: 2.8.3\n")
    (about / "top_level.txt").write_text("flash_attn\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    check = check_configs(paper_scale.load(tmp_path))
    assert check.problems == []
    assert set(check.attention) == {"flash_attention_2"}
