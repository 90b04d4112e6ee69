"""A world small enough for tests: two-second base models and cells of a few steps."""

import shutil
from pathlib import Path
from typing import Any

from rspo.config.experiment import Experiment
from tests.support import ROOT

# Laid over config/tiny.yaml: everything the same but the sizes.
OVERRIDES: dict[str, Any] = {
    "models": {
        "small": {"scratch": {"examples": 500, "batch": 16, "steps": 40}},
        "medium": {"scratch": {"examples": 500, "batch": 16, "steps": 40}},
    },
    "training": {
        "steps": 6,
        "prompts_per_step": 10,
        "mini_batch_prompts": 5,
        "checkpoint_every": 2,
    },
    "data": {
        "train": {"generated": {"problems": 12}},
        "suites": {
            "standard": {
                family: {"generated": {"problems": 6}}
                for family in ("linear", "multiply", "countdown", "divide", "sequence")
            },
            "contamination_free": {
                name: {"generated": {"problems": 6}} for name in ("linear_larger", "divide_larger")
            },
        },
    },
    "evaluation": {"samples": 8, "block": 8, "k": [1, 2, 4], "resamples": 50},
}


def load(root: Path, **more: Any) -> Experiment:
    """The small experiment with its results below `root`."""
    if not (root / "config").exists():
        shutil.copytree(ROOT / "config", root / "config")
    return Experiment.load("tiny", OVERRIDES | more, root=root)
