"""The verl engine: runs `driver.py` under a supervisor, and collects the policy or the error.

verl reads environment variables when it is imported. It is therefore imported only after they are
set for the device of the cell.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rspo.config.experiment import Experiment
from rspo.config.schema import VerlSettings
from rspo.core.environment import set_environment
from rspo.core.errors import InputError, LostProcess
from rspo.core.files import write_text
from rspo.core.gpus import require_visible_gpus
from rspo.core.signals import REQUEST, Stopped, is_requested
from rspo.core.supervisor import clean_up, supervised
from rspo.policies.prompt_limit import report_too_long
from rspo.policies.tokenizer import ChatTokenizer
from rspo.training.progress import PROGRESS_FILE
from rspo.training.prompts import read_prompts
from rspo.training.records import Trained
from rspo.training.verl import ray_cluster as cluster
from rspo.training.verl.checkpoints import (
    OUTCOME_FILE,
    RECORDS_FILE,
    keep_the_last,
    last_step,
    require_ranks,
)
from rspo.training.verl.driver import TRAINED
from rspo.training.verl.interface import require_attention, require_version

if TYPE_CHECKING:
    from omegaconf import DictConfig

_SECONDS_BETWEEN_POLLS = 0.5
_SECONDS_OF_A_LOOK = 30.0  # at most, at a file on a slow disk
DRIVER = "rspo.training.verl.driver"
CONFIG_FILE = "verl.yaml"  # in the cell's folder: verl's complete config
_CPU = {
    "VERL_PLATFORM": "cpu",
    "VERL_USE_EXTERNAL_MODULES": "rspo.training.verl.cpu_platform",
    "OMP_NUM_THREADS": "1",  # more threads are slower and change rounding
    "TQ_NUM_THREADS": "1",  # without it, TransferQueue warns at every call
}


def config_text(experiment: Experiment, name: str) -> str:
    """verl's complete config of a cell as YAML; see `verified_config`."""
    config = verified_config(experiment, name)
    from omegaconf import OmegaConf

    text: str = OmegaConf.to_yaml(config)
    return text


def train(experiment: Experiment, name: str, begin: Callable[[], None]) -> Trained:
    """Train the remaining steps of a cell. Besides a cell's other files it writes verl.yaml.

    Args:
        begin: called when the inputs are verified; chooses the checkpoint.

    Raises: what `_run` raises.
    """
    if experiment.trains_on_gpus:
        require_visible_gpus()
    folder, checkpoint = experiment.folder(name), experiment.checkpoint(name)
    config = verified_config(experiment, name)
    require_attention(config.actor_rollout_ref.model.override_config.attn_implementation)
    data, sampling = experiment.problems("train"), experiment.config.sampling
    tokenizer = ChatTokenizer(Path(config.actor_rollout_ref.model.path))
    _, too_long = read_prompts(data, tokenizer, sampling)
    notes = report_too_long(too_long, sampling, "left out of training")
    from omegaconf import OmegaConf

    begin()
    write_text(folder / CONFIG_FILE, OmegaConf.to_yaml(config))
    keep_the_last(checkpoint)
    started, ranks = time.monotonic(), config.trainer.n_gpus_per_node
    steps = config.trainer.total_training_steps
    if done := last_step(checkpoint):
        print(f"{name} resumes from step {done} of {steps}", flush=True)
    if done < steps:
        require_ranks(checkpoint, ranks)
        settings = experiment.config.verl
        assert settings is not None  # by the config's check
        _run(folder, checkpoint, settings)
    last = checkpoint / f"global_step_{steps}"
    gpu_seconds = (time.monotonic() - started) * (ranks if experiment.trains_on_gpus else 0)
    return Trained(
        records=json.loads((last / RECORDS_FILE).read_text()),
        save=partial(_copy_weights, last / "actor" / "huggingface"),
        files=[folder / CONFIG_FILE],
        gpu_seconds=gpu_seconds,
        notes=notes,
    )


def _copy_weights(source: Path, folder: Path) -> None:
    """Copy only the weights: verl writes a config.json that differs from the base policy's."""
    for file in source.glob("*.safetensors*"):
        shutil.copy(file, folder)


def verified_config(experiment: Experiment, name: str) -> "DictConfig":
    """verl's complete config of a cell, verified by verl. Needs no GPU and no Ray.

    It sets the variables that verl and Ray read, for this process and all that it starts, before
    verl is imported.
    """
    # SLURM sets a variable of every GPU vendor; verl rejects more than one.
    os.environ.pop("ROCR_VISIBLE_DEVICES", None)
    set_environment()
    if not experiment.trains_on_gpus:
        os.environ.pop("CUDA_VISIBLE_DEVICES", None)
        os.environ.update(_CPU)
    require_version()
    from rspo.training.verl.verl_config import verl_config

    return verl_config(experiment, name)


class HangDetector:
    """Tells when a step takes so long that a process must hang.

    The driver reports each step in a file. This process watches it, because a call that hangs may
    stop all threads of the driver.
    """

    def __init__(self, checkpoint: Path, settings: VerlSettings) -> None:
        self.file, self.limit = checkpoint / PROGRESS_FILE, settings.hang_seconds
        self.started = False  # the first step, with the start, may take twice as long
        self.reported, self.looked, self.waited = self._report(), time.monotonic(), 0.0

    def _report(self) -> int:
        return self.file.stat().st_mtime_ns if self.file.exists() else 0

    def overdue(self) -> str | None:
        """Message about a step that takes too long. Call it every few seconds."""
        now, reported = time.monotonic(), self._report()
        # The time while SLURM has suspended the job does not count.
        self.waited += min(now - self.looked, _SECONDS_OF_A_LOOK)
        self.looked = now
        if reported != self.reported:
            self.started, self.reported, self.waited = True, reported, 0.0
        if self.waited < self.limit * (1 if self.started else 2):
            return None
        return f"no step for {self.waited:.0f} s: a process hangs, or raise verl.hang_seconds"


def _run(cell: Path, checkpoint: Path, settings: VerlSettings) -> None:
    """Train until the last checkpoint is written; raises the driver's error, if any."""
    key, folder = cluster.key_of(cell), cluster.folder_of(cell)
    clean_up(key, folder)  # after a run whose supervisor was killed
    outcome = checkpoint / OUTCOME_FILE
    outcome.unlink(missing_ok=True)
    command = [sys.executable, "-m", DRIVER, str(cell / CONFIG_FILE), str(folder)]
    try:
        with supervised(command, key, folder) as process:
            forwarded, detector, hang = False, HangDetector(checkpoint, settings), None
            while process.poll() is None and (hang := detector.overdue()) is None:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(_SECONDS_BETWEEN_POLLS)
                if is_requested() and not forwarded:
                    forwarded = True
                    process.send_signal(REQUEST)
    finally:
        print(file=sys.stderr)  # verl's progress bar does not end its line
    words = hang or f"verl's driver exited with status {process.returncode} and no message"
    result = {"kind": LostProcess.__name__, "words": words}
    if hang is None and outcome.exists():
        result = json.loads(outcome.read_text())
    if result["kind"] != TRAINED:
        with suppress(OSError):  # a process that could not be killed may still write there
            keep_the_last(checkpoint)  # an incomplete one may have filled the disk
        kind, words, step = result["kind"], result["words"], last_step(checkpoint)
        if kind == Stopped.__name__:
            raise Stopped(step)
        if kind == InputError.__name__:
            raise InputError(words)
        raise LostProcess(f"{cell.name}: {words}; the same command resumes from step {step}")
