"""Which verl this package is written for, and the check that this is the one that runs."""

import importlib.util
import inspect
from collections.abc import Callable
from typing import Any

from rspo.core.errors import InputError

SUPPORTED_VERSION = "0.9.1"


def require_version() -> None:
    """Raises: InputError unless the installed verl is the one that this package overrides."""
    try:
        import verl
    except ImportError as error:
        raise InputError(
            f"engine: verl needs the package verl=={SUPPORTED_VERSION} ({error}); "
            "`make setup-verl` installs it, `make setup-gpu` on a machine with GPUs"
        ) from None
    if verl.__version__ != SUPPORTED_VERSION:
        raise InputError(
            f"found verl {verl.__version__}; rspo supports verl {SUPPORTED_VERSION}: it overrides "
            "parts of verl that other versions may have moved"
        )


def require_attention(implementation: str) -> None:
    """Raises: InputError if a model is to use flash-attn where it is not installed.

    transformers would say so too, but in the workers, when Ray and the servers have started.
    """
    if implementation == "flash_attention_2" and importlib.util.find_spec("flash_attn") is None:
        raise InputError(
            "actor_rollout_ref.model.override_config.attn_implementation is flash_attention_2, and "
            "flash-attn is not installed: `make setup-gpu` compiles it; without it set the key, "
            "under verl.overrides, to sdpa (slow where many tokens are packed) or flex_attention"
        )


def require_words(function: Callable[..., Any], *words: str) -> None:
    """Raises: InputError unless the source of a function of verl still has these words in it.

    For what is set from outside, which a verl that no longer reads it would ignore.
    """
    source = inspect.getsource(function)
    for word in words:
        if word not in source:
            raise InputError(
                f"{function.__module__}.{function.__qualname__} of the installed verl has no "
                f"{word}; rspo supports verl {SUPPORTED_VERSION}, in which it has"
            )


def require_parameters(function: Callable[..., Any], *names: str) -> None:
    """Raises: InputError unless a function of verl still takes exactly these parameters."""
    found = tuple(inspect.signature(function).parameters)
    if found != names:
        raise InputError(
            f"{function.__module__}.{function.__qualname__} of the installed verl takes "
            f"({', '.join(found)}); rspo supports verl {SUPPORTED_VERSION}, in which it takes "
            f"({', '.join(names)})"
        )
