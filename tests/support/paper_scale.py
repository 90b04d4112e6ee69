"""config/paper.yaml in a folder of a test's own."""

import shutil
from pathlib import Path
from typing import Any

from rspo.config.experiment import Experiment
from tests.support import ROOT


def load(root: Path, **overrides: Any) -> Experiment:
    """The paper scale, its results below `root`."""
    if not (root / "config").exists():
        shutil.copytree(ROOT / "config", root / "config")
    return Experiment.load("paper", overrides, root=root)
