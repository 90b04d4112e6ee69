"""One cell through verl: starts what trains it, and leaves what the local engine leaves.

    this process      holds the cell, waits, says how it ended, collects the files
    `supervisor.py`   ends with this process, and all that follows with it
    `driver.py`       verl's trainer; starts Ray, which starts everything else

verl is imported only when the environment that it reads at import is as the cell's device needs it.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from rspo.config import fingerprints
from rspo.config.experiment import Experiment, base_name
from rspo.config.schema import VerlSettings
from rspo.core.errors import InputError, LostProcess
from rspo.core.files import atomic_write, sha256, write_json_lines, write_text
from rspo.core.locks import exclusive_lock
from rspo.core.provenance import write_provenance
from rspo.core.signals import REQUEST, Stopped, is_requested
from rspo.core.supervisor import clean_up, supervised
from rspo.rewards import NEED_JUDGE
from rspo.rewards.configured import verifier_inputs
from rspo.slurm.orphans import renew_records
from rspo.training.origin import is_made_with, remove_checkpoints, use_checkpoint_of
from rspo.training.progress import say_where_it_goes_on, usage_before
from rspo.training.validation import log_origin
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

SECONDS_BETWEEN_LOOKS = 0.5
CONFIG_FILE = "verl.yaml"  # beside the policy: the whole config that it was trained with
_CPU = {
    "VERL_PLATFORM": "cpu",
    "VERL_USE_EXTERNAL_MODULES": "rspo.training.verl.cpu_platform",
    "OMP_NUM_THREADS": "1",  # more threads than ranks are slower, and change sums
    "TQ_NUM_THREADS": "1",  # of TransferQueue, which else warns at every call
}


def config_text(experiment: Experiment, name: str) -> str:
    """The whole verl config of a cell as YAML, checked by verl; needs no GPU and starts no Ray.

    Raises: InputError for anything that verl would refuse.
    """
    return _as_text(_config(experiment, name))


def train(experiment: Experiment, name: str) -> None:
    """Train one cell: its policy folder, training.jsonl with one line a step, and verl.yaml.

    A killed run goes on from its last checkpoint. On several nodes (`cluster.py`) the first one
    trains, and the others return when it is done.

    Raises: InputError for missing or bad inputs, when another process trains the same cell, and
        when the gradient is no longer finite; LostProcess if a process died or a request got no
        answer; Stopped behind a checkpoint, on request.
    """
    cell = experiment.cell(name)
    base, data = experiment.existing_policy(base_name(cell.model)), experiment.problems("train")
    _require_a_judge(experiment)
    job_step = cluster.current_job_step(_settings(experiment).nodes, os.environ)
    _set_environment(experiment)
    if job_step.rank > 0:
        cluster.join(experiment.folder(name), experiment.checkpoint(name), job_step)
        return
    try:
        _train(experiment, name, base, data)
    except BaseException:
        cluster.dismiss(experiment.checkpoint(name), job_step)
        raise


def _train(experiment: Experiment, name: str, base: Path, data: Path) -> None:
    """`train`, on the first node."""
    with exclusive_lock(experiment.folder(name)):
        config = _config(experiment, name)
        require_attention(config.actor_rollout_ref.model.override_config.attn_implementation)
        write_text(experiment.folder(name) / CONFIG_FILE, _as_text(config))
        origin = {
            "settings": fingerprints.settings(experiment, "train", name),
            "base": {file.name: sha256(file) for file in sorted(base.glob("*.safetensors"))},
            "problems": sha256(data),
        }
        checkpoint, trainer = experiment.checkpoint(name), config.trainer
        keep_the_last(checkpoint)
        if not is_made_with(checkpoint, origin):
            # task.py's; another training's curve would go on in this one's.
            shutil.rmtree(checkpoint.with_name("tensorboard"), ignore_errors=True)
        use_checkpoint_of(checkpoint, origin, lambda folder: last_step(folder) > 0)
        earlier = usage_before(checkpoint)
        say_where_it_goes_on(name, last_step(checkpoint), trainer.total_training_steps)
        started = time.monotonic()
        # Other nodes wait for a cluster to join, whatever is left to do on it.
        if last_step(checkpoint) < trainer.total_training_steps or trainer.nnodes > 1:
            require_ranks(checkpoint, trainer.nnodes * trainer.n_gpus_per_node)
            _run(experiment.folder(name), checkpoint)
        _collect(experiment, name, base)
        devices = trainer.nnodes * trainer.n_gpus_per_node if trainer.device == "cuda" else 0
        inputs = [base, data, *verifier_inputs(experiment, experiment.config.verifier)]
        log_settings, log_inputs = log_origin(experiment, origin)
        gpu_seconds = devices * (time.monotonic() - started)
        for path, settings, used in (
            (experiment.policy(name), origin, inputs),
            (experiment.folder(name) / CONFIG_FILE, origin, inputs),
            (experiment.training_log(name), log_settings, [*inputs, *log_inputs]),
        ):
            write_provenance(path, settings, used, gpu_seconds=gpu_seconds, earlier=earlier)
        renew_records(experiment, name)
        remove_checkpoints(checkpoint)


def _settings(experiment: Experiment) -> VerlSettings:
    """Raises: InputError if the scale has none."""
    if experiment.config.verl is None:
        raise InputError(f"config/{experiment.scale}.yaml: engine = 'verl' needs the section verl")
    return experiment.config.verl


def _set_environment(experiment: Experiment) -> None:
    """What verl and Ray read from it, here and in all processes that follow."""
    # SLURM says which GPUs a job has in the words of every vendor; verl refuses two of them.
    os.environ.pop("ROCR_VISIBLE_DEVICES", None)
    if _settings(experiment).device == "cpu":
        os.environ.pop("CUDA_VISIBLE_DEVICES", None)
        os.environ.update(_CPU)


def _config(experiment: Experiment, name: str) -> "DictConfig":
    _set_environment(experiment)  # before verl is imported: it chooses its platform then
    require_version()
    from rspo.training.verl.verl_config import verl_config

    return verl_config(experiment, name)


def _as_text(config: "DictConfig") -> str:
    from omegaconf import OmegaConf

    text: str = OmegaConf.to_yaml(config)
    return text


def _require_a_judge(experiment: Experiment) -> None:
    """Raises: InputError if a judge model would have to start on a GPU that the policy has."""
    config = experiment.config
    judge = config.xverify if config.verifier in NEED_JUDGE else None
    if experiment.trains_on_gpus and judge is not None and judge.url is None:
        raise InputError(
            f"verifier = {config.verifier!r} needs xverify.url in training, the address of a "
            "server on another GPU: the policy has all those of this job"
        )


def _run(cell: Path, checkpoint: Path) -> None:
    """Everything that is left of the training; ends when the last checkpoint is written.

    Args:
        cell: the cell's folder, with verl's config in it.

    Raises: see `train`.
    """
    key, folder = cluster.key_of(cell, rank=0), cluster.folder_of(cell, rank=0)
    clean_up(key, folder)  # by a run whose supervisor was killed with it
    outcome = checkpoint / OUTCOME_FILE
    outcome.unlink(missing_ok=True)
    driver = (sys.executable, "-m", "rspo.training.verl.driver")
    try:
        with supervised([*driver, str(cell / CONFIG_FILE), str(folder)], key, folder) as process:
            handed_on = False
            while process.poll() is None:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(SECONDS_BETWEEN_LOOKS)
                if is_requested() and not handed_on:
                    handed_on = True
                    process.send_signal(REQUEST)
    finally:
        print(file=sys.stderr)  # verl's progress bar does not end its line, whoever ended it
    if outcome.exists():
        found = json.loads(outcome.read_text())
    else:
        words = f"verl's driver has ended with status {process.returncode} and no word"
        found = {"kind": LostProcess.__name__, "words": words}
    if found["kind"] != TRAINED:
        with suppress(OSError):  # on another node somebody may write still; the next run does it
            keep_the_last(checkpoint)  # half a one may be what has filled the disk
        _raise(found["kind"], found["words"], cell.name, last_step(checkpoint))


def _raise(kind: str, words: str, cell: str, step: int) -> NoReturn:
    """Raise here what the driver ended with."""
    if kind == Stopped.__name__:
        raise Stopped(step)
    if kind == InputError.__name__:
        raise InputError(words)
    there = f"step {step}" if step else "its start"
    raise LostProcess(f"{cell}: {words}; the same command goes on from {there}")


def _collect(experiment: Experiment, name: str, base: Path) -> None:
    """The policy and the records of the last checkpoint, where the local engine puts them."""
    last = experiment.checkpoint(name) / f"global_step_{experiment.config.training.steps}"
    with atomic_write(experiment.policy(name)) as partial:
        # All but the weights is the base policy's: verl would write a config of its own.
        shutil.copytree(
            base, partial, ignore=shutil.ignore_patterns(".snakemake*", "*.safetensors*")
        )
        for weights in (last / "actor" / "huggingface").glob("*.safetensors*"):
            shutil.copy(weights, partial)
    write_json_lines(experiment.training_log(name), json.loads((last / RECORDS_FILE).read_text()))
