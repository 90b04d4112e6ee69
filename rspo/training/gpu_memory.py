"""Refuses a config whose servers or forward passes cannot fit into the memory of a GPU.

The policy's server, the judge's server and a rank of the actor share each GPU of a training job.
This module does not import verl, so that every command can check the config at its start.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from rspo.config.experiment import Experiment
from rspo.config.merge import merge
from rspo.core.errors import InputError
from rspo.training.verl.interface import FLASH_ATTN  # does not import verl

DEFAULTS = Path(__file__).with_name("verl") / "cuda.yaml"
# The largest fraction of a GPU's memory that the servers of the policy and the judge may take. If
# less than 4 %, which is 3.2 of 80 GB, remains for the rest of a job, the job fails before it
# samples or after its first update: the CUDA contexts of both servers and the actor take 0.3 GB
# each, and the weights and Adam's moments of 1.5B parameters in float32 take 2.3 GB on each of 8
# GPUs and 4.6 GB on each of 4. Most jobs need far more, such as for activations.
MOST_MEMORY_OF_SERVERS = 0.96
# The tokens of two prompts with responses, if each fills the 4,096 tokens of the context of the
# paper's models.
MOST_TOKENS_WITHOUT_FLASH_ATTN = 8192


def require_gpu_memory(experiment: Experiment, cell: str) -> None:
    """Refuse the config of a cell that is certain to run out of memory on GPUs.

    Raises: InputError that names the keys, their values and the largest allowed ones.
    """
    experiment = experiment.for_cell(cell)  # with the changes of its variant
    if not experiment.trains_on_gpus:
        return
    section = actor_rollout_ref(experiment, cell)
    _require_memory_for_actor(experiment, section)
    _require_small_passes(section)


def actor_rollout_ref(experiment: Experiment, cell: str) -> dict[str, Any]:
    """The keys of verl's section `actor_rollout_ref` that a cell's config and cuda.yaml set."""
    verl = experiment.config.verl
    assert verl is not None  # because it trains on GPUs
    settings: dict[str, Any] = yaml.safe_load(DEFAULTS.read_text())
    for changes in (experiment.config.models[experiment.cell(cell).model].verl, verl.overrides):
        settings = merge(settings, changes)
    section: dict[str, Any] = settings["actor_rollout_ref"]
    return section


def _require_memory_for_actor(experiment: Experiment, section: Mapping[str, Any]) -> None:
    """Raises: InputError if the servers of the policy and the judge leave no memory for the actor.

    vLLM takes its fraction of the GPU's total memory in addition to its CUDA context, and does not
    start if less memory than this fraction is free (vllm/v1/worker/utils.py, `request_memory`).
    """
    config = experiment.config
    key = "actor_rollout_ref.rollout.gpu_memory_utilization"
    sampler = _value(section, key)
    if _is_left_to_verl(sampler):
        return
    fractions = {key: _number(key, sampler)}
    if config.xverify is not None and config.starts_judge:
        fractions["xverify.training_gpu_memory"] = config.xverify.training_gpu_memory
    total = round(sum(fractions.values()), 6)  # in binary floating point, 0.9 + 0.06 exceeds 0.96
    if total > MOST_MEMORY_OF_SERVERS:
        settings = " and ".join(f"{key} = {value:g}" for key, value in fractions.items())
        raise InputError(
            f"{settings}: the actor needs memory of the same GPU too; allowed: at most "
            f"{MOST_MEMORY_OF_SERVERS:g} in total"
        )


def _require_small_passes(section: Mapping[str, Any]) -> None:
    """Raises: InputError if a pass without flash-attn has too many tokens.

    Without the package flash-attn, verl keeps a log-softmax of all logits in float32 for the
    backward pass, 20 GB for 32,768 tokens (verl/utils/torch_functional.py, `logprobs_from_logits`).
    """
    key = "actor_rollout_ref.actor.ppo_max_token_len_per_gpu"
    attention = _value(section, "actor_rollout_ref.model.override_config.attn_implementation")
    value = _value(section, key)
    if _is_left_to_verl(attention) or _is_left_to_verl(value):
        return
    tokens = _number(key, value)
    if attention != FLASH_ATTN and tokens > MOST_TOKENS_WITHOUT_FLASH_ATTN:
        raise InputError(
            f"{key} = {tokens}: with "
            f"attn_implementation = {attention}, without flash-attn, the logits of a pass take "
            f"three times the memory; allowed: at most {MOST_TOKENS_WITHOUT_FLASH_ATTN}, or "
            f"attn_implementation: {FLASH_ATTN}"
        )


def _value(section: Any, key: str) -> Any:
    """The value of a key that begins with `actor_rollout_ref`; None if the section lacks it.

    If the value of a section above the key is an interpolation of OmegaConf, such as
    ${other.section}, this returns the interpolation.

    Raises: InputError if something else stands in place of a section.
    """
    names = key.split(".")
    value = section
    above = names[0]
    for name in names[1:]:
        if _is_left_to_verl(value):
            return value
        if not isinstance(value, Mapping):
            raise InputError(f"{above} = {value!r}: expected a section with {name}")
        value = value.get(name)
        above = f"{above}.{name}"
    return value


def _number(key: str, value: Any) -> float:
    """Return the value. Raises: InputError if it is not a number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(f"{key} = {value!r}: expected a number")
    return value


def _is_left_to_verl(value: Any) -> bool:
    """Whether a value is an interpolation of OmegaConf, which verl computes from other values."""
    return isinstance(value, str) and "${" in value
