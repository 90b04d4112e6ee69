"""What of a config's verl settings decides a policy, as opposed to how fast it comes, or where.

What is left out here may be changed at any time: a checkpoint is gone on from and a finished cell
stays finished. It still may change how sums are rounded and, with vLLM, what is sampled in one
batch, as two runs with the same settings do.
"""

from collections.abc import Mapping
from typing import Any

from rspo.config.load import merge
from rspo.config.schema import VerlSettings

# Names of verl's keys and sections, wherever in its config they stand.
OPERATIONAL = frozenset(
    {
        # Tokens and responses that go through a model at a time; the loss is a sum over passes.
        "ppo_max_token_len_per_gpu",
        "log_prob_max_token_len_per_gpu",
        "max_num_batched_tokens",
        "max_num_seqs",
        "enable_chunked_prefill",
        "enable_prefix_caching",
        # What of the memory is used for what: kept, moved away, or computed a second time.
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
        # Kernels and compilers for the same formulas.
        "attn_implementation",
        "use_remove_padding",
        "use_torch_compile",
        "enforce_eager",
        # Who shares the work. (Not fsdp_size, by which a checkpoint is cut.)
        "tensor_model_parallel_size",
        "ulysses_sequence_parallel_size",
        "num_workers",
        "update_weights_bucket_megabytes",
        "transfer_queue",
        # Where it runs, and how long somebody waits for it.
        "ray_kwargs",
        "nccl_timeout",
        "ray_wait_register_center_timeout",
        # What is looked at.
        "logger",
        "project_name",
        "experiment_name",
        "disable_log_stats",
        "profiler",
        "global_profiler",
    }
)


def deciding(verl: VerlSettings, of_model: Mapping[str, Any]) -> dict[str, Any]:
    """The loss, the numbers' precision, by the device, and verl's own keys but the operational.

    Args:
        of_model: the model's key `verl`, over which the section's overrides are laid.
    """
    own = _without_operational(merge(of_model, verl.overrides))
    return {"device": verl.device, "loss_aggregation": verl.loss_aggregation, "overrides": own}


def _without_operational(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Sections of which nothing is left are left out too."""
    found = {}
    for key, value in settings.items():
        left = _without_operational(value) if isinstance(value, Mapping) else value
        if key not in OPERATIONAL and left != {}:
            found[key] = left
    return found
