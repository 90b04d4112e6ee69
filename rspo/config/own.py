"""Verifiers and rewards of the user, which a config can name once an extension has registered them.

They are here, below the packages that use them, because the schema must know their names.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rspo.config.names import REWARDS, VERIFIER_VERSIONS, VERIFIERS

_NAME = re.compile(r"[a-z0-9]+([._-][a-z0-9]+)*")  # names are parts of folder names


@dataclass(frozen=True)
class Verifier:
    """A way to decide whether a response is correct.

    name: in configs.
    function: the full text of a response, and the accepted forms of the answer -> whether the
        response is correct. It runs in the process that scores or trains, without a time limit.
    version: raise it when a verdict changes, so that Snakemake scores again.
    """

    name: str
    function: Callable[[str, tuple[str, ...]], bool]
    version: int = 1


@dataclass(frozen=True)
class VerifiedResponses:
    """Responses to compute rewards of, one an item.

    texts: without the end token.
    correct: whether the verifier accepted each.
    tokens: length of each, in tokens.
    max_tokens: the maximum length of a response.
    """

    texts: list[str]
    correct: NDArray[np.bool_]
    tokens: NDArray[np.int64]
    max_tokens: int


@dataclass(frozen=True)
class Reward:
    """A reward of responses.

    name: in configs, and in the names of cells.
    function: m responses -> their m rewards, finite. The reward of a response must not depend on
        the other responses.
    version: raise it when a reward changes, so that Snakemake trains its cells again.
    """

    name: str
    function: Callable[[VerifiedResponses], ArrayLike]
    version: int = 1


OWN_VERIFIERS: dict[str, Verifier] = {}
OWN_REWARDS: dict[str, Reward] = {}


def register(item: Verifier | Reward) -> None:
    """Make a verifier or a reward known to configs, by its name.

    Raises: ValueError for a name that cannot be part of a folder's name or is taken.
    """
    kind = type(item).__name__.lower()
    if not _NAME.fullmatch(item.name):
        raise ValueError(
            f"{kind} {item.name!r}: allowed: lower-case letters and digits, separated by . _ or -"
        )
    taken = verifier_names() if isinstance(item, Verifier) else reward_names()
    if item.name in taken:
        raise ValueError(f"{kind} {item.name!r} exists already; choose another name")
    if isinstance(item, Verifier):
        OWN_VERIFIERS[item.name] = item
        VERIFIER_VERSIONS[item.name] = item.version
    else:
        OWN_REWARDS[item.name] = item


def verifier_names() -> tuple[str, ...]:
    """The names that the config keys `verifier` and `agreement.against` may have."""
    return (*VERIFIERS, *OWN_VERIFIERS)


def reward_names() -> tuple[str, ...]:
    """The names that the key `reward` of a cell may have."""
    return (*REWARDS, *OWN_REWARDS)
