"""config/paper.yaml in a folder of a test's own."""

import shutil
from pathlib import Path
from typing import Any

from rspo.experiment import Experiment

ROOT = Path(__file__).resolve().parent.parent


def load(root: Path, **overrides: Any) -> Experiment:
    """The paper scale, its results below `root`."""
    if not (root / "config").exists():
        shutil.copytree(ROOT / "config", root / "config")
    return Experiment.load("paper", overrides, root=root)
