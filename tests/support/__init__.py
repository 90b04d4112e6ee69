"""What several tests need; no test imports another test."""

import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def copy_config(folder: Path) -> None:
    """Copy config/, and the templates that it names for the pages of studies."""
    shutil.copytree(ROOT / "config", folder / "config", dirs_exist_ok=True)
    templates = folder / "docs" / "studies"
    templates.mkdir(parents=True, exist_ok=True)
    for file in (ROOT / "docs" / "studies").glob("*.jinja"):
        shutil.copy(file, templates)
