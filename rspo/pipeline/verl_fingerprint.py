"""The verl settings that are part of a policy's fingerprint.

Operational settings are not part of it. They decide speed and placement, so a user may change them
at any time without training again. They can still change rounding and how vLLM batches requests,
but these also differ between two runs with the same settings.
"""

from collections.abc import Mapping
from typing import Any

from rspo.config.merge import merge
from rspo.config.schema import VerlSettings

# The keys and sections that are operational, at any level of verl's config.
OPERATIONAL = frozenset(
    {
        # Tokens and responses per forward pass. They do not change the loss, a sum over passes.
        "ppo_max_token_len_per_gpu",
        "log_prob_max_token_len_per_gpu",
        "max_num_batched_tokens",
        "max_num_seqs",
        "enable_chunked_prefill",
        "enable_prefix_caching",
        # Use of memory: keep, offload or recompute.
        "gpu_memory_utilization",
        "free_cache_engine",
        "param_offload",
        "optimizer_offload",
        "enable_gradient_checkpointing",
        "enable_activation_offload",
        "entropy_from_logits_with_chunking",
        "entropy_from_logits_chunk_size",
        "entropy_checkpointing",
        "reshard_after_forward",
        "forward_prefetch",
        # Kernels and compilers for the same computation.
        "attn_implementation",
        "use_remove_padding",
        "use_torch_compile",
        "use_liger",
        "use_fused_kernels",
        "enforce_eager",
        # Distribution of the work. (Not fsdp_size, which decides the shards of a checkpoint.)
        "tensor_model_parallel_size",
        "ulysses_sequence_parallel_size",
        "num_workers",
        "update_weights_bucket_megabytes",
        "transfer_queue",
        # Placement and timeouts.
        "ray_kwargs",
        "nccl_timeout",
        # Logging and profiling.
        "logger",
        "project_name",
        "experiment_name",
        "disable_log_stats",
        "profiler",
        "global_profiler",
    }
)


def policy_settings(verl: VerlSettings, of_model: Mapping[str, Any]) -> dict[str, Any]:
    """The device, which decides the precision, and the overrides that are not operational.

    Args:
        of_model: the model's own overrides, which `verl.overrides` may replace.
    """
    own = _without_operational(merge(of_model, verl.overrides))
    return {"device": verl.device, "overrides": own}


def _without_operational(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings without operational keys and without empty sections."""
    kept = {}
    for key, value in settings.items():
        inner = _without_operational(value) if isinstance(value, Mapping) else value
        if key not in OPERATIONAL and inner != {}:
            kept[key] = inner
    return kept
