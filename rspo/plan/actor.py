"""The actor's memory on one GPU, and the FLOPs of a pass, estimated without a GPU.

PyTorch simulates one rank: a process group without other processes, and fake tensors, which have a
shape but no data. verl's own code runs: FSDP2 wrapping, loss and entropy. Two kernels of flash-attn
do not run on fake tensors. For attention, PyTorch's kernel for CPUs keeps the same tensors. The
cross-entropy keeps the logits and a float32 for each token, and writes the gradient over the logits
(flash_attn/ops/triton/cross_entropy.py).

Depends on verl/workers/engine/fsdp/transformer_impl.py (`_build_fsdp_module`, `forward_step`,
`prepare_model_outputs`) and on the functions of verl that it imports.
"""

import gc
from contextlib import nullcontext
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from omegaconf import DictConfig
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed._tools.fsdp2_mem_tracker import FSDPMemTracker
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoConfig, AutoModelForCausalLM
from verl.trainer.ppo.core_algos import get_policy_loss_fn
from verl.utils import torch_functional
from verl.utils.config import omega_conf_to_dataclass
from verl.utils.fsdp_utils import apply_fsdp2
from verl.utils.torch_dtypes import PrecisionType

from rspo.training.verl.interface import FLASH

# What memory is for, and FSDPMemTracker's names. Activations are all else, such as the inputs of
# layers that compute their activations again.
KINDS = {
    "parameters": ("SHARDED_PARAM", "UNSHARDED_PARAM", "ALL_GATHER"),
    "gradients": ("SHARDED_GRAD", "UNSHARDED_GRAD", "REDUCE_SCATTER"),
    "optimizer": ("OPT",),
    "activations": ("ACT", "TEMP", "INP", "BUFFER"),
}


def shape_of_pass(config: DictConfig) -> torch.Size:
    """The most responses in a pass if all have the maximum length, and tokens of each."""
    tokens = config.actor_rollout_ref.actor.ppo_max_token_len_per_gpu
    length = min(tokens, config.data.max_prompt_length + config.data.max_response_length)
    return torch.Size((tokens // length, length))


def simulate(architecture: dict[str, Any], config: DictConfig) -> dict[tuple[str, str], float]:
    """Bytes by phase of a step and kind, and the FLOPs of an update's pass of all layers.

    There are gradients of an earlier pass.

    Args:
        architecture: the entries of config.json that decide the model's size.
        config: verl's, of a cell.
    """
    section, shape = config.actor_rollout_ref, shape_of_pass(config)
    ranks, found = config.trainer.n_gpus_per_node, dict[tuple[str, str], float]()
    dist.init_process_group("fake", rank=0, world_size=ranks, store=FakeStore())
    try:
        mesh = init_device_mesh("cpu", (ranks,))
        with FakeTensorMode(shape_env=ShapeEnv()):  # verl's loss reads numbers
            model = _model(architecture, section, mesh)
            optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
            tokens = torch.zeros(shape, dtype=torch.long)
            with FlopCounterMode(display=False) as counter:
                _pass(model, section, tokens, updates=True)
            # Not tracked: for each tensor, DTensor makes a fake one of the size of all ranks.
            optimizer.step()
            gc.collect()  # what the counter keeps
            for phase in ("update", "log-probabilities"):
                with FSDPMemTracker(model, optimizer) as tracker:
                    logits = _pass(model, section, tokens, updates=phase == "update")
                optimizer.zero_grad()
                (peak,) = tracker.get_tracker_snapshot("peak").values()
                of = {str(name).rpartition(".")[2]: size for name, size in peak.items()}
                kinds = {kind: sum(of.get(one, 0) for one in KINDS[kind]) for kind in KINDS}
                logits = min(logits, kinds["activations"])
                kinds |= {"activations": kinds["activations"] - logits, "logits": logits}
                found |= {(phase, kind): size for kind, size in kinds.items()}
    finally:
        dist.destroy_process_group()
    # For half of all pairs of tokens: 2 products forward, 2 again, 5 backward.
    size = architecture["hidden_size"] * architecture["num_hidden_layers"]
    attention = 9 * shape.numel() * shape[1] * size
    return found | {("update", "flops"): counter.get_total_flops() + attention}


def _model(architecture: dict[str, Any], section: DictConfig, mesh: Any) -> Any:
    """The model as verl's engine wraps it."""
    engine, of = section.actor.fsdp_config, PrecisionType.to_dtype
    settings = AutoConfig.for_model(**architecture, attn_implementation="sdpa", use_cache=False)
    model = AutoModelForCausalLM.from_config(settings, dtype=of(engine.model_dtype))
    if section.model.enable_gradient_checkpointing:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    dtypes = engine.mixed_precision
    precision = MixedPrecisionPolicy(of(dtypes.param_dtype), of(dtypes.reduce_dtype))
    options = {"mesh": mesh, "mp_policy": precision, "offload_policy": None}
    apply_fsdp2(model, options | {"reshard_after_forward": engine.reshard_after_forward}, engine)
    return model.train()


def _pass(model: Any, section: DictConfig, tokens: Tensor, updates: bool) -> int:
    """verl's pass of an update over tokens (B, T), or of the log-probabilities before all updates.

    Returns: bytes of the logits.
    """
    engine, entropy = section.actor.fsdp_config, torch_functional.entropy_from_logits
    if engine.entropy_from_logits_with_chunking:
        chunk = engine.entropy_from_logits_chunk_size
        entropy = partial(torch_functional.entropy_from_logits_with_chunking, chunk_size=chunk)
    uses_flash = section.model.override_config.attn_implementation == FLASH
    log_probs_of = _FlashCrossEntropy.apply if uses_flash else torch_functional.logprobs_from_logits
    dtype = PrecisionType.to_dtype(engine.mixed_precision.param_dtype)
    autocast = nullcontext() if dtype == torch.float32 else torch.autocast("cpu", dtype)
    with torch.set_grad_enabled(updates), autocast:
        logits = output = model(input_ids=tokens).logits
        if section.rollout.temperature != 1:
            logits = output / torch.ones(())
        size = logits.nbytes
        if not updates:
            entropy(logits.flatten(0, 1))
        log_probs = log_probs_of(logits, tokens)
        del logits, output
        if updates:
            _loss(section, log_probs).backward()
    return size


def _loss(section: DictConfig, log_probs: Tensor) -> Tensor:
    """verl's, with sizes of the whole batch of 1, which only scale it."""
    settings = omega_conf_to_dataclass(section.actor)
    sizes = {"dp_size": 1, "batch_num_tokens": 1, "global_batch_size": 1}
    settings.global_batch_info.update(sizes)
    loss, _ = get_policy_loss_fn("vanilla")(
        old_log_prob=log_probs.detach(),
        log_prob=log_probs,
        advantages=torch.ones_like(log_probs),
        response_mask=torch.ones_like(log_probs, dtype=torch.bool),
        loss_agg_mode=section.actor.loss_agg_mode,
        config=settings,
    )
    return loss


class _FlashCrossEntropy(torch.autograd.Function):
    """The memory of flash-attn's cross-entropy, not its values."""

    @staticmethod
    def forward(context: Any, logits: Tensor, labels: Tensor) -> Tensor:
        losses, logsumexp = (torch.empty(labels.shape) for _ in range(2))
        context.save_for_backward(logits, logsumexp, labels)
        return losses

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return context.saved_tensors[0], None
