"""Pass@k Training: the advantages of its authors' code for verl."""

from collections.abc import Callable
from contextlib import redirect_stdout
from io import StringIO
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import passk_adv
import torch


def advantages(function: str, settings: dict[str, Any]) -> Callable[[Any, int], Any]:
    # The only square root of the module is that of the deviation sigma, by which it divides.
    numpy = np
    if not settings["divided"]:
        numpy = SimpleNamespace(array=np.array, where=np.where, sqrt=lambda _: 1.0)

    def computed(rewards: Any, k: int) -> Any:
        n = rewards.shape[-1]
        prompts = rewards.size // n
        # It prints the places of each group.
        with redirect_stdout(StringIO()), patch.object(passk_adv, "np", numpy):
            found, _ = passk_adv.compute_advantage(
                torch.tensor(rewards.reshape(-1, 1), dtype=torch.float32),
                torch.ones(prompts * n, 1),
                np.repeat(np.arange(prompts), n),
                k,
            )
        return found.numpy().reshape(rewards.shape)

    return computed
