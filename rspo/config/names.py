"""The names that a config may use for verifiers, rewards, chat templates and families of problems.

Higher layers implement them. Extensions add verifiers and rewards by `register`.
"""

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

VERIFIERS = ("exact", "rules", "math_verify", "xverify")
# Raise a version when a verdict changes: the fingerprint of scores contains it, so that Snakemake
# scores again.
VERIFIER_VERSIONS = {"exact": 1, "rules": 5, "math_verify": 3}
# How the judge xVerify is asked: its authors' settings, with those stated that a server may change.
JUDGE_SAMPLING = {
    **{"temperature": 0.1, "top_p": 0.7, "max_tokens": 2048},
    **{"top_k": -1, "repetition_penalty": 1.0},
}

REWARDS = ("binary", "length")
Metric = Literal["pass_at_k", "max_at_k", "pass_hat_k"]  # pass_hat_k: all k are correct

TemplateName = Literal["qwen_math", "none", "own"]

Family = Literal["linear", "multiply", "countdown", "divide", "sequence", "share", "unknown"]
# Raise it when a problem, its split or a worked example changes: the fingerprints of generated data
# and of models trained from scratch contain it. Revision 1 split by prompt, 2 splits by task.
GENERATOR_REVISION = 2
# Of the tokenizer of models that are trained from scratch.
ALPHABET = "0123456789+-*/=?,()%xABCDEFGH} "

# Of the files that are made from those of a published model: 2 has all end tokens.
HUB_MODEL_REVISION = 2
LARGER = "larger"  # a split with larger numbers than in any other split
BASE = "base"  # a policy before reinforcement learning
# What a study can tell about a training (`rspo.analysis.study_columns`).
StudyColumn = Literal[
    "late_entropy",
    "zero_weight",
    "ppo_clipped",
    "gradient_clipped",
    "finished",
    "cpu_seconds",
]
# Tables of a scale, whose names no study may have.
TABLES = ("cost", "claims")

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
    correct: "NDArray[np.bool_]"
    tokens: "NDArray[np.int64]"
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
    function: "Callable[[VerifiedResponses], ArrayLike]"
    version: int = 1


OWN_VERIFIERS: dict[str, Verifier] = {}
OWN_REWARDS: dict[str, Reward] = {}


def register(item: Verifier | Reward) -> None:
    """Make a verifier or a reward known to configs, by its name.

    Raises: ValueError for a name that cannot be part of a folder's name or is taken, and for a
        function that cannot be called with the arguments that it will get.
    """
    kind = type(item).__name__.lower()
    arguments = ("response", "answers") if isinstance(item, Verifier) else ("responses",)
    try:
        inspect.signature(item.function).bind(*arguments)
    except TypeError as error:
        text = f"{kind} {item.name!r}: it is called with ({', '.join(arguments)}): {error}"
        raise ValueError(text) from error
    except ValueError:  # a function written in C may not tell
        pass
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
    """The names that the config key `verifier` may have."""
    return (*VERIFIERS, *OWN_VERIFIERS)


def reward_names() -> tuple[str, ...]:
    """The names that the key `reward` of a cell may have."""
    return (*REWARDS, *OWN_REWARDS)
