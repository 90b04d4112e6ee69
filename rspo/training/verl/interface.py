"""The supported version of verl, and checks of the installed packages.

Importing this module does not import verl.
"""

import importlib.util

from rspo.core.errors import InputError

SUPPORTED_VERSION = "0.9.1"
FLASH_ATTN = "flash_attention_2"  # attn_implementation that needs the package flash-attn


def require_version() -> None:
    """Raises: InputError unless the supported version of verl is installed."""
    try:
        import verl
    except ImportError as error:
        raise InputError(
            f"engine: verl needs the package verl=={SUPPORTED_VERSION} ({error}); "
            "`make setup-verl` installs it, `make setup-gpu` on a machine with GPUs"
        ) from None
    if verl.__version__ != SUPPORTED_VERSION:
        raise InputError(
            f"found verl {verl.__version__}; rspo supports verl {SUPPORTED_VERSION}, because it "
            "overrides parts of verl that differ in other versions"
        )


def require_attention(implementation: str) -> None:
    """Raises: InputError if the config selects flash-attn and it is not installed.

    transformers would raise such an error too, but only in the workers, after Ray and the servers
    have started.
    """
    if implementation == FLASH_ATTN and importlib.util.find_spec("flash_attn") is None:
        raise InputError(
            "actor_rollout_ref.model.override_config.attn_implementation is flash_attention_2, and "
            "flash-attn is not installed: run `make setup-gpu`, which compiles it, or set the key, "
            "under verl.overrides, to sdpa (slow for packed sequences) or flex_attention, and the "
            "tokens of a pass to at most 8192 (actor_rollout_ref.actor.ppo_max_token_len_per_gpu)"
        )
