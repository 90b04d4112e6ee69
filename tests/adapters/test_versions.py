"""The adapter refuses other versions of TRL before it imports it."""

import subprocess
import sys
from pathlib import Path


def error_of_import(folder: Path) -> str:
    code = f"import sys; sys.path.insert(0, {str(folder)!r}); import rspo.adapters.trl"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    return done.stderr.splitlines()[-1]


def test_a_missing_trl_is_one_line(tmp_path: Path) -> None:
    expected = "trl is not installed: `pip install trl==1.16.0`"
    assert error_of_import(tmp_path).endswith(expected)


def test_another_version_is_one_line_even_if_it_lacks_everything(tmp_path: Path) -> None:
    (tmp_path / "trl").mkdir()
    (tmp_path / "trl" / "__init__.py").write_text("")
    information = tmp_path / "trl-0.1.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: trl\nVersion: 0.1\n")
    assert "found trl 0.1; rspo supports trl 1.16.0, because" in error_of_import(tmp_path)
