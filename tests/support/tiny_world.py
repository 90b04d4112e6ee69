"""A small experiment for tests: base models in two seconds and cells of a few steps."""

import json
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from rspo.config.experiment import Experiment
from rspo.config.merge import merge
from rspo.datasets.prepare import prepare
from tests.support import ROOT

# Overrides of config/tiny.yaml, which change only sizes.
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
    "grid": {
        **{entry: {"seeds": 1} for entry in ("main", "contamination_free", "grpo")},
        "dropping": None,
    },
}


def write_config(root: Path, **more: Any) -> None:
    """Copy config/ below `root`, with the small settings and `more` in tiny.yaml."""
    shutil.copytree(ROOT / "config", root / "config")
    file = root / "config" / "tiny.yaml"
    values = merge(yaml.safe_load(file.read_text()), OVERRIDES | more)
    file.write_text(yaml.safe_dump(values, sort_keys=False))


def load(root: Path, **more: Any) -> Experiment:
    """The small experiment with its results below `root`.

    The first call for a folder writes `more` into its config; later ones override the config.
    """
    if not (root / "config").exists():
        write_config(root, **more)
    return Experiment.load("tiny", OVERRIDES | more, root=root)


def load_prepared(root: Path, **more: Any) -> Experiment:
    """The small experiment with its training problems and the base policy `small`."""
    from rspo.training.pretraining import make_base_policy  # here: it imports torch

    experiment = load(root, **more)
    prepare(experiment, "train")
    make_base_policy(experiment, "small")
    return experiment


def options(**more: Any) -> list[str]:
    """Command line options with the settings of `load(root, **more)`."""
    return sets(OVERRIDES | more)


def sets(values: Mapping[str, Any]) -> list[str]:
    return [f"--set={key}={json.dumps(value)}" for key, value in values.items()]


def command(*arguments: str, **more: Any) -> list[str]:
    """An `rspo` command with these changes; run it in the `root` of `load(root)`."""
    return [sys.executable, "-m", "rspo", *arguments, *sets(more)]
