"""config/paper.yaml in a folder of a test's own."""

import shutil
from pathlib import Path
from typing import Any

from rspo.config.experiment import Experiment
from tests.support import ROOT

CELL_1_5B = "qwen2.5-math-1.5b--rspo-pass--k4--n32--s0"
CELL_7B = "qwen2.5-math-7b--policy-gradient--k1--n16--s0"


def load(root: Path, **overrides: Any) -> Experiment:
    """The paper scale, its results below `root`."""
    if not (root / "config").exists():
        shutil.copytree(ROOT / "config", root / "config")
    return Experiment.load("paper", overrides, root=root)


def nested(key: str, value: object) -> dict[str, Any]:
    """A dotted key as nested sections."""
    for part in reversed(key.split(".")):
        value = {part: value}
    assert isinstance(value, dict)
    return value
