"""A small experiment with a random Llama as its published model, for the local engine."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import yaml

from rspo.config.experiment import Experiment
from rspo.config.files import Files
from rspo.config.merge import merge
from rspo.datasets.prepare import prepare
from rspo.training.checkpoint import save_checkpoint
from rspo.training.pretraining import make_base_policy
from rspo.training.train import train
from tests.support import ROOT, llama_model

CELL = "llama--rspo-pass--k4--n8--s0"
MODEL = {
    "label": "Llama",
    "hub": {"id": "test/llama", "revision": "main", "template": "own"},
    "learning_rate": 1.0e-3,
}


def config() -> dict[str, Any]:
    """config/tiny.yaml with word problems, a published model and two cells of a few steps."""
    values = yaml.safe_load((ROOT / "config" / "tiny.yaml").read_text())
    del values["include"]  # the studies, which are those of other models
    families = ["share", "unknown"]
    values["models"] = {"llama": MODEL}
    values["data"] = {
        "train": {"generated": {"families": families, "split": "train", "problems": 20}},
        "validation": {"generated": {"families": families, "split": "validation", "problems": 4}},
        "suites": {
            "standard": {
                "share": {
                    "label": "share",
                    "generated": {"families": ["share"], "split": "test", "problems": 4},
                }
            }
        },
    }
    values["sampling"] |= {"max_prompt_tokens": 120, "max_response_tokens": 12}
    values["training"] |= {
        "steps": 5,
        "prompts_per_step": 4,
        "mini_batch_prompts": 2,
        "checkpoint_every": 2,
        # The responses of a random model are all wrong, so nothing else would change the policy.
        "entropy_bonus": 0.01,
    }
    values["evaluation"] |= {"samples": 8, "block": 8, "k": [1, 2, 4], "resamples": 50}
    cells = [
        {"model": "llama", "objective": "rspo_pass_at_k", "k": 4, "n": 8},
        {"model": "llama", "objective": "grpo", "n": 8},
    ]
    values["grid"] = {"main": {"suite": "standard", "cells": cells}}
    values["studies"] = {}
    values["variants"] = {}
    return values


def load(root: Path, **more: Any) -> Experiment:
    """The experiment with its config and its mirror below `root`; `more` changes the config."""
    (root / "config").mkdir()
    values = merge(config(), more)
    (root / "config" / "published.yaml").write_text(yaml.safe_dump(values, sort_keys=False))
    llama_model.write(root / "mirror" / "test" / "llama")
    return Experiment.load("published", root=root)


def load_prepared(root: Path, **more: Any) -> Experiment:
    """The experiment with its training problems and its base policy."""
    experiment = load(root, **more)
    prepare(experiment, "train")
    make_base_policy(experiment, "llama", root / "mirror")
    return experiment


def elsewhere(world: Experiment, folder: Path) -> Experiment:
    """The same experiment with the same base policy and problems, and its own cells."""
    (folder / "cells").mkdir(parents=True)
    for part in ("problems", "cells/llama--base"):
        (folder / part).symlink_to((world.files.results / part).resolve())
    return dataclasses.replace(world, files=Files(folder, world.files.reports))


class Killed(BaseException):
    """Ends a training as a kill would."""


def interrupt_after_a_checkpoint(experiment: Experiment) -> None:
    """Leave the files of a run that was killed right after its first checkpoint."""

    def save(*arguments: object) -> None:
        save_checkpoint(*arguments)
        raise Killed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rspo.training.local_engine.save_checkpoint", save)
        with pytest.raises(Killed):
            train(experiment, CELL)
    assert (experiment.files.checkpoint(CELL) / "state.pt").exists()
