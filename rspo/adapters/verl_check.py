"""Checks of an installed verl: its interface, and one group with known rewards at the first use.

verl computes advantages in the process of its trainer only. There, the first call of an estimator
sends a group with known rewards through verl's own `compute_advantage`, and compares the advantages
with n times the weights of the group.
"""

from collections.abc import Mapping
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np
import torch

from rspo.adapters import versions
from rspo.core.errors import InputError
from rspo.objectives import OBJECTIVES, response_weights
from rspo.passk import Floats

# What verl must pass to an estimator.
ARGUMENTS = ("token_level_rewards", "response_mask", "index", "config")
TOKENS = 3  # the longest response of the known group
TOLERANCE = 1e-5  # relative to the largest advantage; verl keeps rewards in float32

_checked: set[str] = set()  # names of estimators


def version() -> str:
    """The installed version of verl. It may still be in the middle of its import."""
    return str(getattr(import_module("verl"), "__version__", "of an unknown version"))


def module_with(name: str, function: str) -> ModuleType:
    """A module of verl.

    Raises: InputError if verl has no such module, or if the module has no such function.
    """
    try:
        module = import_module(name)
    except ModuleNotFoundError as error:
        raise InputError(f"module {error.name} is missing; {_tested()}") from None
    if not hasattr(module, function):
        raise InputError(f"verl {version()} has no function {function} in {name}; {_tested()}")
    return module


def require_arguments(estimator: str, given: Mapping[str, Any]) -> None:
    """Raises: InputError unless verl passes to an estimator what it needs."""
    missing = [name for name in ARGUMENTS if given.get(name) is None]
    if missing:
        raise InputError(
            f"algorithm.adv_estimator={estimator}: verl {version()} calls it without "
            f"{', '.join(missing)}; {_tested()}"
        )


def check_once(objective: str, estimator: str, k: int, config: Mapping[str, Any]) -> None:
    """Check the advantages of a group with known rewards, at the first call of an estimator.

    Args:
        objective: a name in `OBJECTIVES`.
        estimator: its name in verl.
        k: the k of the training.
        config: verl's section `algorithm`.

    Raises: InputError if verl has no `compute_advantage` where its tested versions have it, or if
        an advantage is another.
    """
    if estimator in _checked:
        return
    versions.warn_unless_tested("verl", version(), versions.VERL)
    _checked.add(estimator)  # before the check, which calls the estimator through verl
    try:
        require_known_advantages(objective, estimator, k, config)
    except Exception:
        _checked.remove(estimator)  # the next call must not pass
        raise


def require_known_advantages(
    objective: str, estimator: str, k: int, config: Mapping[str, Any]
) -> None:
    """Check the advantages of a group with known rewards; see `check_once`."""
    rewards = known_rewards(objective, k)
    if rewards is None:  # the call for the real group says what is wrong with k
        return
    n = rewards.shape[-1]
    expected = n * response_weights(rewards, objective, k)
    found = _advantages_of_verl(rewards, estimator, config)
    if OBJECTIVES[objective].ordered:  # in a random order of the responses
        expected = np.sort(expected, axis=-1)
        found = np.sort(found, axis=-1)
    errors = abs(found - expected).max(axis=-1)  # of the two prompts
    if errors.max() > TOLERANCE * abs(expected).max():
        worst = errors.argmax()
        raise InputError(
            f"algorithm.adv_estimator={estimator}: verl {version()} gives the rewards "
            f"{rewards[worst].tolist()} the advantages {found[worst].tolist()}; expected: "
            f"{expected[worst].tolist()}; {_tested()}"
        )


def known_rewards(objective: str, k: int) -> Floats | None:
    """Rewards of two prompts, (2, n); None if the objective does not allow this k for any n.

    The first prompt has one response with the reward 1, and the second one has two.
    """
    chosen = OBJECTIVES[objective]
    if not isinstance(k, int) or k < 1:
        return None
    n = max(2 * k, 4)
    if not chosen.allows(k, n):
        return None
    rewards = np.zeros((2, n))
    rewards[0, 1] = 1
    rewards[1, 0] = 1
    if not chosen.ordered:  # the weights of one would depend on the random order
        rewards[1, 3] = 1
    return rewards


def _advantages_of_verl(rewards: Floats, estimator: str, config: Mapping[str, Any]) -> Floats:
    """Advantages of responses, (prompts, n), computed by verl from rewards of this shape.

    Responses of the prompts alternate and have different lengths. A response's reward is at its
    last token.

    Raises: InputError if tokens of a response have different advantages, or padding has one.
    """
    trainer = module_with("verl.trainer.ppo.ray_trainer", "compute_advantage")
    protocol = module_with("verl", "DataProto")
    prompts = rewards.shape[0]
    count = rewards.size
    lengths = 1 + torch.arange(count) % TOKENS
    mask = (torch.arange(TOKENS) < lengths[:, None]).float()
    token_rewards = torch.zeros(count, TOKENS)
    token_rewards[torch.arange(count), lengths - 1] = torch.from_numpy(rewards.T.flatten()).float()
    data = protocol.DataProto.from_dict(
        tensors={"token_level_rewards": token_rewards, "response_mask": mask},
        non_tensors={"uid": np.array([f"p{row % prompts}" for row in range(count)], dtype=object)},
    )
    data = trainer.compute_advantage(data, adv_estimator=estimator, config=config)
    tokens = data.batch["advantages"].double()
    advantages = tokens[:, 0]
    if not torch.allclose(tokens, advantages[:, None] * mask.double()):
        raise InputError(
            f"algorithm.adv_estimator={estimator}: verl {version()} gives the tokens of a response "
            f"different advantages; {_tested()}"
        )
    values: Floats = advantages.view(-1, prompts).T.numpy()
    return values


def _tested() -> str:
    return f"rspo was tested with verl {', '.join(versions.VERL)}"
