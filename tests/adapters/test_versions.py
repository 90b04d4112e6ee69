"""A trainer that is missing, or lacks what the adapters use, is one line."""

import subprocess
import sys
from pathlib import Path

import pytest

PACKAGES = {
    "trl": {"trl/__init__.py": '__version__ = "0.1"\n'},
    "verl_estimators": {
        "verl/__init__.py": '__version__ = "0.1"\n',
        "verl/trainer/__init__.py": "",
        "verl/trainer/ppo/__init__.py": "",
        "verl/trainer/ppo/core_algos.py": "",
    },
}
MESSAGES = {
    "trl": "trl 0.1 has no GRPOConfig; rspo was tested with 1.0.0",
    "verl_estimators": "verl 0.1 has no function register_adv_est in verl.trainer.ppo.core_algos; "
    "rspo was tested with verl 0.7.1",
}


def error_of_import(adapter: str, folder: Path) -> str:
    code = f"import sys; sys.path.insert(0, {str(folder)!r}); import rspo.adapters.{adapter}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    return done.stderr.splitlines()[-1]


def test_a_missing_trl_is_one_line(tmp_path: Path) -> None:
    expected = "trl is not installed: `pip install trl==1.16.0`"
    assert error_of_import("trl", tmp_path).endswith(expected)
    (tmp_path / "torch.py").write_text("raise ModuleNotFoundError(name='torch')")
    expected = "torch is not installed: `pip install torch`"
    assert error_of_import("trl", tmp_path).endswith(expected)


@pytest.mark.parametrize("adapter", PACKAGES)
def test_a_version_without_the_interface_is_one_line(adapter: str, tmp_path: Path) -> None:
    for name, text in PACKAGES[adapter].items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    assert MESSAGES[adapter] in error_of_import(adapter, tmp_path)
