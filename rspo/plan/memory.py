"""`rspo plan --memory`: the memory of one GPU in training, estimated.

`rspo.plan.actor` simulates the actor. The sampler and the judge have their shares of the
config, and the rest is a margin.
"""

from collections.abc import Iterator
from contextlib import redirect_stderr
from io import StringIO
from typing import Any, NamedTuple

import pandas as pd

from rspo.config.experiment import Experiment
from rspo.core.errors import InputError
from rspo.core.gpus import GPUS

# What a sleeping server of vLLM keeps, such as CUDA graphs: 4.75 GiB in
# https://github.com/vllm-project/vllm/issues/17117, 0.8 GiB in
# https://github.com/NVIDIA-NeMo/RL/issues/223 (1B parameters).
SLEEPING = 5.1e9
# Assumed: CUDA contexts of actor, sampler and judge, buffers of NCCL and of other libraries.
CONTEXTS = 3e9
# Of the actor's memory, for fragmentation: 15 % on average over 8 models on A100s (GMLake,
# https://arxiv.org/abs/2401.08156).
FRAGMENTATION = 0.15
LAYERS = (2, 3)  # that are simulated: each layer adds the same


class Memory(NamedTuple):
    """Bytes on one GPU by phase of a step and by what they are for; tokens and FLOPs of a pass."""

    phases: dict[str, dict[str, float]]
    tokens: int
    flops: float

    @property
    def peak(self) -> tuple[float, str]:
        """The bytes of the phase that needs most, and its name."""
        return max((sum(kinds.values()), phase) for phase, kinds in self.phases.items())


def estimates(experiment: Experiment) -> dict[str, Memory]:
    """Of each model with a `shape`, if it trains on GPUs; takes half a minute.

    Raises: InputError if verl rejects the config.
    """
    from rspo.training.verl.run import verified_config

    own, found = experiment.config, dict[str, Memory]()
    if own.verl is None or not experiment.trains_on_gpus:
        return found
    gpu, judge = GPUS[own.verl.gpu].memory, 0.0
    if own.xverify is not None and own.starts_judge(own.verifier):
        judge = own.xverify.training_gpu_memory * gpu
    for model, cell in {cell.model: name for name, cell in experiment.cells.items()}.items():
        if (shape := own.models[model].shape) is not None:
            with redirect_stderr(StringIO()):  # verl prints that it has checked the config
                config = verified_config(experiment, cell)
            found[model] = estimate(shape.model_dump(), config, gpu, judge)
    return found


def estimate(architecture: dict[str, Any], config: Any, gpu: float, judge: float) -> Memory:
    """What a training takes of a GPU.

    Args:
        architecture: the entries of config.json that decide the model's size.
        config: verl's, of a cell.
        gpu, judge: memory of the GPU, and of the judge's server on it.
    """
    from rspo.plan.actor import shape_of_pass, simulate

    few, more = (simulate(architecture | {"num_hidden_layers": size}, config) for size in LAYERS)
    further = architecture["num_hidden_layers"] - LAYERS[0]
    all_layers = {key: few[key] + further * (more[key] - few[key]) for key in few}
    flops, phases = all_layers.pop(("update", "flops")), dict[str, dict[str, float]]()
    for (phase, kind), size in all_layers.items():
        phases.setdefault(phase, {})[kind] = size
    shard = phases["update"]["optimizer"] / 2  # Adam has two moments
    # For a step, it makes another tensor of this size on GPUs (torch.optim.AdamW, foreach). While
    # the sampler works, the actor keeps its weights and the moments.
    for phase, copies in ("optimizer step", 1), ("sampling", 0):
        sizes = (shard, copies * shard, 2 * shard, copies * shard, 0)
        phases[phase] = dict(zip(phases["update"], sizes, strict=True))
    rollout = config.actor_rollout_ref.rollout
    sampler = rollout.gpu_memory_utilization * gpu
    asleep = min(sampler, SLEEPING) if rollout.free_cache_engine else sampler
    for phase, kinds in phases.items():
        margin = CONTEXTS + FRAGMENTATION * sum(kinds.values())
        share = sampler if phase == "sampling" else asleep
        kinds |= {"sampler": share, "judge": judge, "margin": margin}
    return Memory(phases, shape_of_pass(config).numel(), flops)


def too_large(experiment: Experiment, found: dict[str, Memory]) -> Iterator[str]:
    """A line for each model that does not fit the GPU."""
    for model, memory in found.items():
        assert experiment.config.verl is not None  # by `estimates`
        (needed, phase), name = memory.peak, experiment.config.verl.gpu
        if needed > GPUS[name].memory:
            yield (
                f"{model}: {phase} needs {needed / 1e9:.1f} GB of each GPU with passes of "
                f"{memory.tokens:,} tokens, by estimate (`rspo plan --memory`), and verl.gpu = "
                f"{name} has {GPUS[name].memory / 1e9:.0f}: lower actor_rollout_ref.actor."
                "ppo_max_token_len_per_gpu or actor_rollout_ref.rollout.gpu_memory_utilization"
            )


def text(experiment: Experiment) -> str:
    """A row for each model and phase, in GB, and a line for each model that does not fit.

    Raises: InputError without a model on GPUs, and if verl rejects the config.
    """
    found, verl = estimates(experiment), experiment.config.verl
    if not found or verl is None:
        raise InputError("--memory: expected verl.device: cuda, and models.<name>.shape")
    lines = [
        f"GB on each of {verl.ranks} GPUs of {GPUS[verl.gpu].memory / 1e9:.0f} GB (verl.gpu = "
        f"{verl.gpu}); estimated, not measured"
    ]
    for model, memory in found.items():
        table = pd.DataFrame(memory.phases).T / 1e9
        table["all"] = table.sum(axis=1)
        lines += [
            f"{model}, passes of {memory.tokens:,} tokens and {memory.flops / 1e12:.0f} TFLOP",
            table.to_string(float_format="{:.1f}".format),
        ]
    return "\n".join([*lines, *too_large(experiment, found)])
