"""Verifies verl's config of all cells in a process of its own, without a GPU and without Ray.

    python -m rspo.training.verl.config_check < EXPERIMENT

verl reads environment variables when it is imported, which must not reach the calling process.
"""

import json
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from rspo.config.experiment import Experiment
from rspo.config.schema import Config, Shape
from rspo.core.errors import InputError
from rspo.core.gpus import GPUS
from rspo.training.verl.section import experiment_of, section_of

if TYPE_CHECKING:
    from omegaconf import DictConfig


@dataclass
class Memory:
    """Bytes on one GPU, by phase and by what they are for; tokens and FLOPs of a pass."""

    phases: dict[str, dict[str, float]]
    tokens: int
    flops: float


@dataclass
class ConfigCheck:
    """problems: why cells cannot be trained with the installed packages, a line each.

    attention: the implementations of attention that the cells select.
    memory: of the models with a `shape`, if they train on GPUs.
    """

    problems: list[str] = field(default_factory=list)
    attention: list[str] = field(default_factory=list)
    memory: dict[str, Memory] = field(default_factory=dict)


def check_configs(experiment: Experiment) -> ConfigCheck:
    """Verify the config of every cell; takes half a minute."""
    words, section = [sys.executable, "-m", __name__], section_of(experiment, cell="")
    done = subprocess.run(words, input=json.dumps(section), capture_output=True, text=True)
    if done.returncode:
        last = (done.stderr.strip() or "no message").splitlines()[-1]
        return ConfigCheck([f"verl's config could not be verified: {last}"])
    found = json.loads(done.stdout.splitlines()[-1])
    found["memory"] = {model: Memory(**memory) for model, memory in found["memory"].items()}
    return ConfigCheck(**found)


def main() -> None:
    from rspo.training.verl.interface import require_attention
    from rspo.training.verl.run import verified_config

    experiment = experiment_of(json.load(sys.stdin))
    # What verl verifies depends on nothing else of a cell.
    cells = {(cell.model, cell.n): name for name, cell in experiment.cells.items()}
    check = ConfigCheck()
    for (model, _), name in cells.items():
        try:
            config = verified_config(experiment, name)
            attention = config.actor_rollout_ref.model.override_config.attn_implementation
            check.attention.append(attention)
            shape = experiment.config.models[model].shape
            if experiment.trains_on_gpus and shape is not None and model not in check.memory:
                check.memory[model] = _memory(experiment.config, shape, config)
                _require_fit(experiment.config, model, check.memory[model])
            require_attention(attention)
        except InputError as error:
            check.problems.append(str(error))
    check.problems = list(dict.fromkeys(check.problems))
    print(json.dumps(asdict(check)))


def _memory(own: Config, shape: Shape, config: "DictConfig") -> Memory:
    from rspo.training.verl.memory import memory_of

    assert own.verl is not None  # it trains with verl
    gpu, judge = GPUS[own.verl.gpu].memory, 0.0
    if own.xverify is not None and own.starts_judge(own.verifier):
        judge = own.xverify.training_gpu_memory * gpu
    return memory_of(shape.model_dump(), config, gpu, judge)


def _require_fit(own: Config, model: str, memory: Memory) -> None:
    """Raises: InputError if the GPU has less memory."""
    needed = {phase: sum(kinds.values()) for phase, kinds in memory.phases.items()}
    phase, name = max(needed, key=lambda one: needed[one]), own.verl.gpu if own.verl else ""
    if needed[phase] > GPUS[name].memory:
        raise InputError(
            f"{model}: {phase} needs {needed[phase] / 1e9:.1f} GB of each GPU with passes of "
            f"{memory.tokens:,} tokens, by estimate (`rspo plan --memory`), and verl.gpu = {name} "
            f"has {GPUS[name].memory / 1e9:.0f}: lower actor_rollout_ref.actor."
            "ppo_max_token_len_per_gpu or actor_rollout_ref.rollout.gpu_memory_utilization"
        )


if __name__ == "__main__":
    main()
