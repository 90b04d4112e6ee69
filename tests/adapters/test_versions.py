"""Adapters refuse other versions of their trainer before they import it."""

import subprocess
import sys
from pathlib import Path

import pytest

SUPPORTED = {"trl": "1.16.0"}


def error_of_import(adapter: str, folder: Path) -> str:
    code = f"import sys; sys.path.insert(0, {str(folder)!r}); import rspo.adapters.{adapter}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    return done.stderr.splitlines()[-1]


@pytest.mark.parametrize("adapter", SUPPORTED)
def test_a_trainer_that_is_not_installed_is_one_line(adapter: str, tmp_path: Path) -> None:
    supported = SUPPORTED[adapter]
    expected = f"{adapter} is not installed: `pip install {adapter}=={supported}`"
    assert error_of_import(adapter, tmp_path).endswith(expected)


@pytest.mark.parametrize("adapter", SUPPORTED)
def test_another_version_is_one_line_even_if_it_lacks_everything(
    adapter: str, tmp_path: Path
) -> None:
    (tmp_path / adapter).mkdir()
    (tmp_path / adapter / "__init__.py").write_text("")
    information = tmp_path / f"{adapter}-0.1.dist-info"
    information.mkdir()
    metadata = f"Metadata-Version: 2.1\nName: {adapter}\nVersion: 0.1\n"
    (information / "METADATA").write_text(metadata)
    expected = f"found {adapter} 0.1; rspo supports {adapter} {SUPPORTED[adapter]}, because"
    assert expected in error_of_import(adapter, tmp_path)
