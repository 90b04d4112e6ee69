"""What the tests share, and the cells that they train: those of a scale of this folder, shortened.

The scale is tests/gpu/config/smollm.yaml. Commands run in tests/gpu/, where `rspo` finds it.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from rspo.config.experiment import Experiment
from rspo.config.merge import merge

ROOT = Path(__file__).resolve().parent  # the folder that has config/smollm.yaml
CHECKOUT = ROOT.parents[1]  # the folder that has config/paper.yaml
SCALE = "smollm"
SUITE = "standard"
STEPS = 3
PROMPTS = 8
N = 8
K = 4
# The seeds of the trainings. Each is a cell of its own, so that none resumes another.
TRAINED = 0
JUDGED = 1
SENT = 2
KILLED = 3
_CELL = {"objective": "rspo_pass_at_k", "k": K, "n": N}
_OVERRIDES: dict[str, Any] = {
    "data": {"validation": {"generated": {"problems": 4}}},  # of each family
    "training": {
        "steps": STEPS,
        "prompts_per_step": PROMPTS,
        "mini_batch_prompts": PROMPTS,
        "checkpoint_every": 1,
        "validation": {"every": STEPS, "problems": 4, "samples": K},
    },
    "evaluation": {"samples": 8, "block": 8, "k": [1, 2, 4], "problems": 5, "resamples": 100},
}
# Of a GPU with 16 GB, this leaves 4 GB to a judge and 6 GB to the actor.
_POLICY_SERVERS = {"actor_rollout_ref": {"rollout": {"gpu_memory_utilization": 0.35}}}


STEPS_OF_KILLED = 4
TO_BE_KILLED = {
    "seeds": KILLED + 1,
    "training": {"steps": STEPS_OF_KILLED, "validation": {"every": None}},
}


@dataclass(frozen=True)
class Settings:
    """
    mirror: folder to use instead of the hub.
    folder: for results and logs.
    log: output of this test.
    ranks: of the steps at the paper's shapes, and of the all-reduce. The other trainings have one.
    """

    device: Literal["cuda", "cpu"]
    mirror: Path | None
    folder: Path
    log: Path
    ranks: int = 1

    @cached_property
    def model(self) -> str:
        """Name of the model in the config."""
        return next(iter(Experiment.load(SCALE, root=ROOT).config.models))

    def overrides(self, changes: dict[str, Any] | None = None) -> dict[str, Any]:
        """The config's overrides for all commands, with those of one test."""
        verl: dict[str, Any] = {"device": self.device, "ranks": 1}
        if self.device == "cuda":
            verl["overrides"] = _POLICY_SERVERS
        cells = [{"model": self.model} | _CELL]
        grid = {"main": {"suite": SUITE, "seeds": 1, "cells": cells}}
        return merge(_OVERRIDES | {"verl": verl, "grid": grid}, changes or {})

    def experiment(self, changes: dict[str, Any] | None = None) -> Experiment:
        return Experiment.load(SCALE, self.overrides(changes), ROOT, self.results)

    @property
    def results(self) -> Path:
        return self.folder / "results"

    def cell(self, seed: int) -> str:
        """Name of the cell with a seed; `changes` must have enough `seeds`."""
        return f"{self.model}--rspo-pass--k{K}--n{N}--s{seed}"

    def start(
        self, *words: str, changes: dict[str, Any] | None = None
    ) -> "subprocess.Popen[bytes]":
        """Start a command of rspo."""
        return _start(words, SCALE, self.overrides(changes), self.results, ROOT, os.environ)

    def rspo(self, *words: str, changes: dict[str, Any] | None = None) -> None:
        """Run a command of rspo. Raises: AssertionError with its last message."""
        self._require_success(self.start(*words, changes=changes), words)

    def rspo_offline(
        self, words: Sequence[str], scale: str, overrides: Mapping[str, Any], results: Path
    ) -> None:
        """Run a command of rspo with a scale of the checkout, without the Hugging Face hub.

        Raises: AssertionError with its last message.
        """
        environment = os.environ | {"HF_HUB_OFFLINE": "1"}
        process = _start(words, scale, overrides, results, CHECKOUT, environment)
        self._require_success(process, words)

    def _require_success(self, process: "subprocess.Popen[bytes]", words: Sequence[str]) -> None:
        status = process.wait()
        assert status == 0, f"`rspo {' '.join(words)}` exited with {status}: {self.last_message()}"

    def last_message(self) -> str:
        """The last line of `rspo` in the log, or else the last line."""
        text = self.log.read_text(errors="replace")
        lines = [line for line in text.splitlines() if line.strip()]
        own = [line.removeprefix("rspo: ") for line in lines if line.startswith("rspo: ")]
        return (own or lines or ["no output"])[-1]


def _start(
    words: Sequence[str],
    scale: str,
    overrides: Mapping[str, Any],
    results: Path,
    folder: Path,
    environment: Mapping[str, str],
) -> "subprocess.Popen[bytes]":
    """Start a command of rspo in a folder that has the config."""
    # -P: the modules of this folder must not hide others of the same name.
    command = [sys.executable, "-P", "-m", "rspo"]
    command += words
    command += [f"--set={key}={json.dumps(value)}" for key, value in overrides.items()]
    command += [f"--scale={scale}", f"--results={results}"]
    return subprocess.Popen(command, cwd=folder, env=dict(environment))
