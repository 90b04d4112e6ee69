"""The verl engine: runs `driver.py` under a supervisor, and collects the policy or the error.

verl reads environment variables when it is imported. This module therefore sets them for the device
of the cell first, and imports verl within functions.
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
# The most time between two calls of `HangDetector.overdue` that counts as waiting. The calls are
# more frequent, but looking at the file may take seconds on a slow disk.
_MAX_SECONDS_BETWEEN_CHECKS = 30.0
DRIVER = "rspo.training.verl.driver"
CONFIG_FILE = "verl.yaml"  # in the cell's folder: verl's complete config
_CPU_ENVIRONMENT = {
    "VERL_PLATFORM": "cpu",
    "VERL_USE_EXTERNAL_MODULES": "rspo.training.verl.cpu_platform",
    "OMP_NUM_THREADS": "1",  # more threads are slower and change rounding
    "TQ_NUM_THREADS": "1",  # without it, TransferQueue warns at every call
}


def config_text(experiment: Experiment, name: str) -> str:
    """verl's complete config of a cell as YAML; see `verified_config`."""
    config = verified_config(experiment, name)
    from omegaconf import OmegaConf  # installed with verl, as `verified_config` has checked

    text: str = OmegaConf.to_yaml(config)
    return text


def train(experiment: Experiment, name: str, begin: Callable[[], None]) -> Trained:
    """Train the remaining steps of a cell, and write verl.yaml to the cell's folder.

    Args:
        begin: called when the inputs are verified; it keeps or removes the checkpoint.

    Raises: InputError, Stopped and LostProcess, as `_run` does.
    """
    if experiment.trains_on_gpus:
        require_visible_gpus()
    folder = experiment.files.folder(name)
    checkpoint = experiment.files.checkpoint(name)
    config = verified_config(experiment, name)
    model = config.actor_rollout_ref.model
    require_attention(model.override_config.attn_implementation)
    sampling = experiment.config.sampling
    tokenizer = ChatTokenizer(Path(model.path))
    _, too_long = read_prompts(experiment.files.problems("train"), tokenizer, sampling)
    notes = report_too_long(too_long, sampling, "left out of training")
    from omegaconf import OmegaConf  # installed with verl, as `verified_config` has checked

    begin()
    write_text(folder / CONFIG_FILE, OmegaConf.to_yaml(config))
    keep_the_last(checkpoint)
    started = time.monotonic()
    ranks = config.trainer.n_gpus_per_node
    steps = config.trainer.total_training_steps
    done = last_step(checkpoint)
    if done:
        print(f"{name} resumes from step {done} of {steps}", flush=True)
    if done < steps:
        require_ranks(checkpoint, ranks, experiment.ranks_key(name))
        settings = experiment.config.verl
        assert settings is not None  # by the config's check
        _run(folder, checkpoint, settings)
    last = checkpoint / f"global_step_{steps}"
    gpus = ranks if experiment.trains_on_gpus else 0
    gpu_seconds = (time.monotonic() - started) * gpus
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

    Before it imports verl, it sets the variables that verl and Ray read, for this process and all
    processes that it starts.
    """
    # SLURM sets a variable of every GPU vendor; verl rejects more than one.
    os.environ.pop("ROCR_VISIBLE_DEVICES", None)
    set_environment()
    if not experiment.trains_on_gpus:
        os.environ.pop("CUDA_VISIBLE_DEVICES", None)
        os.environ.update(_CPU_ENVIRONMENT)
    require_version()
    from rspo.training.verl.verl_config import verl_config

    return verl_config(experiment, name)


class HangDetector:
    """Tells when a step takes so long that a process of the training must hang.

    The driver reports each step in a file. The process of `rspo train` watches the file, because a
    call that hangs may stop all threads of the driver, its watchdogs included.
    """

    def __init__(self, checkpoint: Path, settings: VerlSettings) -> None:
        self.file = checkpoint / PROGRESS_FILE
        self.limit = settings.hang_seconds
        self.has_reported = False
        self.last_report = self._time_of_report()
        self.last_check = time.monotonic()
        self.waited = 0.0  # seconds since the last report

    def _time_of_report(self) -> int:
        """When the file was last written, in nanoseconds; 0 if there is no file."""
        return self.file.stat().st_mtime_ns if self.file.exists() else 0

    def overdue(self) -> str | None:
        """Return a message if a step takes too long, else None. Call it every few seconds."""
        now = time.monotonic()
        report = self._time_of_report()
        # More time between two calls means that SLURM has suspended the job; it does not count.
        self.waited += min(now - self.last_check, _MAX_SECONDS_BETWEEN_CHECKS)
        self.last_check = now
        if report != self.last_report:
            self.last_report = report
            self.has_reported = True
            self.waited = 0.0
        # The first step includes the start of Ray and the servers, so it may take twice as long.
        limit = self.limit if self.has_reported else 2 * self.limit
        if self.waited < limit:
            return None
        return f"no step for {self.waited:.0f} s: a process hangs, or raise verl.hang_seconds"


def _run(cell: Path, checkpoint: Path, settings: VerlSettings) -> None:
    """Train until the last checkpoint is written.

    Raises: InputError and Stopped as the driver does; LostProcess if a process died or hangs, or
        for any other error of the driver.
    """
    key = cluster.key_of(cell)
    folder = cluster.folder_of(cell)
    clean_up(key, folder)  # after a run whose supervisor was killed
    outcome = checkpoint / OUTCOME_FILE
    outcome.unlink(missing_ok=True)
    command = [sys.executable, "-m", DRIVER, str(cell / CONFIG_FILE), str(folder)]
    try:
        with supervised(command, key, folder) as process:
            hang = _wait(process, HangDetector(checkpoint, settings))
    finally:
        print(file=sys.stderr)  # verl's progress bar does not end its line
    kind = LostProcess.__name__
    message = f"verl's driver exited with status {process.returncode} and no message"
    if hang is not None:
        message = hang
    elif outcome.exists():
        result = json.loads(outcome.read_text())
        kind = result["kind"]
        message = result["words"]
    if kind == TRAINED:
        return
    with suppress(OSError):  # a process that could not be killed may still write there
        keep_the_last(checkpoint)  # an incomplete checkpoint may have filled the disk
    step = last_step(checkpoint)
    if kind == Stopped.__name__:
        raise Stopped(step)
    if kind == InputError.__name__:
        raise InputError(message)
    raise LostProcess(f"{cell.name}: {message}; the same command resumes from step {step}")


def _wait(process: "subprocess.Popen[bytes]", detector: HangDetector) -> str | None:
    """Wait until the driver ends or hangs, and forward a request to stop.

    Returns: a message if the driver hangs; None if it has ended.
    """
    is_forwarded = False
    while process.poll() is None:
        hang = detector.overdue()
        if hang is not None:
            return hang
        with suppress(subprocess.TimeoutExpired):
            process.wait(_SECONDS_BETWEEN_POLLS)
        if is_requested() and not is_forwarded:
            is_forwarded = True
            process.send_signal(REQUEST)
    return None
