"""Verifiers and rewards of the user, which extensions add with `register`."""

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rspo.config.names import REWARDS, VERIFIER_VERSIONS, VERIFIERS

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

# Words of lower-case letters and digits, separated by single . _ or -. Names are parts of folder
# names, where "--" separates the parts.
_NAME = re.compile(r"[a-z0-9]+([._-][a-z0-9]+)*")


@dataclass(frozen=True)
class Verifier:
    """A way to decide whether a response is correct.

    name: the name in configs.
    function: takes the full text of a response and the accepted forms of the answer, and returns
        whether the response is correct. It runs in the process that scores or trains, without a
        time limit.
    version: raise it when a verdict changes, so that Snakemake scores again.
    """

    name: str
    function: Callable[[str, tuple[str, ...]], bool]
    version: int = 1


@dataclass(frozen=True)
class VerifiedResponses:
    """The m responses whose rewards a `Reward` computes.

    texts: the text of each response, without the end token.
    correct: (m,) whether the verifier accepted each response.
    tokens: (m,) the length of each response, in tokens.
    max_tokens: the maximum length of a response, in tokens.
    """

    texts: list[str]
    correct: "NDArray[np.bool_]"
    tokens: "NDArray[np.int64]"
    max_tokens: int


@dataclass(frozen=True)
class Reward:
    """A way to compute the rewards of responses.

    name: the name in configs, and in the names of cells.
    function: takes m responses and returns their rewards, (m,), which must be finite. The reward of
        a response must not depend on the other responses.
    version: raise it when a reward changes, so that Snakemake trains its cells again.
    """

    name: str
    function: "Callable[[VerifiedResponses], ArrayLike]"
    version: int = 1


# What the extensions of the config have registered, by name.
OWN_VERIFIERS: dict[str, Verifier] = {}
OWN_REWARDS: dict[str, Reward] = {}


def register(item: Verifier | Reward) -> None:
    """Make a verifier or a reward known to configs, by its name.

    Raises: ValueError if the name is taken or cannot be part of a folder's name, and if the
        function cannot be called with the arguments that it will get.
    """
    kind = type(item).__name__.lower()
    arguments: tuple[str, ...]
    if isinstance(item, Verifier):
        arguments = ("response", "answers")
        taken = verifier_names()
    else:
        arguments = ("responses",)
        taken = reward_names()
    # `bind` tests the number and the kinds of the arguments without calling the function.
    try:
        inspect.signature(item.function).bind(*arguments)
    except TypeError as error:
        text = f"{kind} {item.name!r}: it is called with ({', '.join(arguments)}): {error}"
        raise ValueError(text) from error
    except ValueError:  # a function written in C may not say what its arguments are
        pass
    if not _NAME.fullmatch(item.name):
        raise ValueError(
            f"{kind} {item.name!r}: allowed: lower-case letters and digits, separated by . _ or -"
        )
    if item.name in taken:
        raise ValueError(f"{kind} {item.name!r} exists already; choose another name")
    if isinstance(item, Verifier):
        OWN_VERIFIERS[item.name] = item
        VERIFIER_VERSIONS[item.name] = item.version
    else:
        OWN_REWARDS[item.name] = item


def verifier_names() -> tuple[str, ...]:
    """The names that the config key `verifier` may have."""
    return VERIFIERS + tuple(OWN_VERIFIERS)


def reward_names() -> tuple[str, ...]:
    """The names that the key `reward` of a cell may have."""
    return REWARDS + tuple(OWN_REWARDS)
