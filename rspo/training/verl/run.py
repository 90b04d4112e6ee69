"""One cell through verl: starts Ray, trains, and leaves what the local engine leaves.

This module is the driver. It imports verl only when the environment that verl reads at import is
as the cell's device needs it.
"""

import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rspo.errors import InputError
from rspo.experiment import Experiment, base_name
from rspo.files import (
    alone,
    fingerprint,
    sha256,
    whole,
    write_json_lines,
    write_provenance,
    write_text,
)
from rspo.rewards import NEED_JUDGE
from rspo.training.validation import log_origin
from rspo.training.verl.interface import require_version

if TYPE_CHECKING:
    from omegaconf import DictConfig

CONFIG_FILE = "verl.yaml"  # beside the policy: the whole config that it was trained with
_CPU = {
    "VERL_PLATFORM": "cpu",
    "VERL_USE_EXTERNAL_MODULES": "rspo.training.verl.cpu_platform",
    "OMP_NUM_THREADS": "1",  # more threads than ranks are slower, and change sums
    # Ray would start a process for each of its slots before anyone needs one.
    "RAY_prestart_worker_first_driver": "0",
    "RAY_enable_worker_prestart": "0",
    "TQ_NUM_THREADS": "1",  # of TransferQueue, which else warns at every call
}


def config_text(experiment: Experiment, name: str) -> str:
    """The whole verl config of a cell as YAML, checked by verl; needs no GPU and starts no Ray.

    Raises: InputError for anything that verl would refuse.
    """
    return _as_text(_config(experiment, name))


def train(experiment: Experiment, name: str) -> None:
    """Train one cell: its policy folder, training.jsonl with one line a step, and verl.yaml.

    A killed run goes on from its last checkpoint.

    Raises: InputError for missing or bad inputs, when another process trains the same cell, when
        a server fails to answer, and when the gradient is no longer finite.
    """
    cell = experiment.cell(name)
    base, data = experiment.existing_policy(base_name(cell.model)), experiment.problems("train")
    _require_a_judge(experiment)
    with alone(experiment.folder(name)):
        config = _config(experiment, name)
        write_text(experiment.folder(name) / CONFIG_FILE, _as_text(config))
        origin = {
            "settings": experiment.settings("train", name),
            "base": {file.name: sha256(file) for file in sorted(base.glob("*.safetensors"))},
            "problems": sha256(data),
        }
        checkpoint = experiment.checkpoint(name)
        _start_anew_if_changed(checkpoint, origin)
        started = time.monotonic()
        with _ray_folder(config):
            _run(config)
        _collect(experiment, name, base)
        trainer = config.trainer
        devices = trainer.nnodes * trainer.n_gpus_per_node if trainer.device == "cuda" else 0
        gpu_seconds = devices * (time.monotonic() - started)
        write_provenance(experiment.policy(name), origin, [base, data], gpu_seconds)
        log_settings, log_inputs = log_origin(experiment, origin)
        write_provenance(
            experiment.training_log(name), log_settings, [base, data, *log_inputs], gpu_seconds
        )
        shutil.rmtree(checkpoint)


def _config(experiment: Experiment, name: str) -> "DictConfig":
    settings = experiment.config.verl
    if settings is not None and settings.device == "cpu":
        os.environ.update(_CPU)  # before verl is imported: it chooses its platform then
    require_version()
    from rspo.training.verl.settings import verl_config

    return verl_config(experiment, name)


def _as_text(config: "DictConfig") -> str:
    from omegaconf import OmegaConf

    text: str = OmegaConf.to_yaml(config)
    return text


def _require_a_judge(experiment: Experiment) -> None:
    """Raises: InputError if a judge model would have to start on a GPU that the policy has."""
    config = experiment.config
    on_gpus = config.verl is not None and config.verl.device == "cuda"
    judge = config.xverify if config.verifier in NEED_JUDGE else None
    if on_gpus and judge is not None and judge.url is None:
        raise InputError(
            f"verifier = {config.verifier!r} needs xverify.url in training, the address of a "
            "server on another GPU: the policy has all those of this job"
        )


def _start_anew_if_changed(checkpoint: Path, origin: dict[str, Any]) -> None:
    """Remove a checkpoint that was made with other settings or inputs."""
    note = checkpoint / "origin.json"
    if note.is_file() and json.loads(note.read_text()) != fingerprint(origin):
        print(f"{checkpoint} was made with other settings: starting anew")
        shutil.rmtree(checkpoint)
    write_text(note, json.dumps(fingerprint(origin)))


@contextmanager
def _ray_folder(config: "DictConfig") -> Iterator[None]:
    """A folder of its own for a Ray that this process starts; a cluster has one already."""
    if "RAY_ADDRESS" in os.environ:
        yield
        return
    folder = tempfile.mkdtemp(prefix="ray-")  # short: sockets in it have at most 107 characters
    config.ray_kwargs.ray_init._temp_dir = folder
    try:
        yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run(config: "DictConfig") -> None:
    """Everything that is left of the training; ends when the last checkpoint is written.

    Depends on verl/trainer/main_ppo.py (`run_ppo`).

    Raises: InputError as the trainer raises it, though in another process.
    """
    import ray
    from verl.trainer.main_ppo import run_ppo

    from rspo.training.verl.task import Task

    try:
        run_ppo(config, task_runner_class=ray.remote(num_cpus=1)(Task))
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, InputError):
            raise error.cause from None
        raise
    finally:
        ray.shutdown()


def _collect(experiment: Experiment, name: str, base: Path) -> None:
    """The policy and the records of the last checkpoint, where the local engine puts them."""
    from rspo.training.verl.trainer import RECORDS

    last = experiment.checkpoint(name) / f"global_step_{experiment.config.training.steps}"
    with whole(experiment.policy(name)) as partial:
        # All but the weights is the base policy's: verl would write a config of its own.
        shutil.copytree(
            base, partial, ignore=shutil.ignore_patterns(".snakemake*", "*.safetensors*")
        )
        for weights in (last / "actor" / "huggingface").glob("*.safetensors*"):
            shutil.copy(weights, partial)
    write_json_lines(experiment.training_log(name), json.loads((last / RECORDS).read_text()))
