"""`accuracy_reward` and `compute_score`, called as TRL and verl call them but without either."""

from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
import pytest

from rspo.adapters.trl_reward import accuracy_reward
from rspo.adapters.verl_reward import compute_score
from rspo.core.errors import InputError
from tests.support.attacks import boxed

HANGS = boxed("10^{10^{10}}")
SOLUTION = "Half of it is left:\n$x = 2x - \\frac{1}{2}$, so $x$ is $\\boxed{\\frac{1}{2}}$."


def said(content: object) -> list[dict[str, object]]:
    return [
        {"role": "assistant", "content": None, "tool_calls": []},
        {"role": "tool", "content": boxed("7")},
        {"role": "assistant", "content": content},
    ]


@pytest.mark.parametrize("verifier", ["rules", "math_verify"])
def test_completions_are_texts_or_conversations(verifier: str) -> None:
    half = [boxed("0.5"), said(boxed("1/2")), said([{"type": "text", "text": boxed(r"\frac12")}])]
    others = [boxed("7"), said(None), "It is 0.5."]
    columns: dict[str, list[str]] = {}
    rewards = accuracy_reward(
        completions=half + others,
        solution=[SOLUTION] * 6,
        log_extra=columns.__setitem__,
        verifier=verifier,
        prompts=["?"] * 6,
        completion_ids=[[1]] * 6,
        trainer_state=None,
    )
    assert rewards == [1.0] * 3 + [0.0] * 3
    assert columns == {"verdict": ["correct"] * 3 + ["incorrect"] + ["no answer"] * 2}


def test_a_response_that_hangs_math_verify_has_the_reason_timeout() -> None:
    columns: dict[str, list[str]] = {}
    reward = partial(accuracy_reward, verifier="math_verify", time_limit=1.0)
    assert reward([HANGS, boxed("0.5")], [7, 0.5], columns.__setitem__) == [0.0, 1.0]
    assert columns["verdict"] == ["timeout", "correct"]
    score: dict[str, Any] = compute_score("d", HANGS, "7", verifier="math_verify", time_limit=1.0)
    assert score == {"score": 0.0, "acc": 0.0, "reason": "timeout"}


@pytest.mark.parametrize(
    "truth", ["8", 8, 8.0, ["7", "8"], np.array(["7", "8"], dtype=object)], ids=repr
)
def test_ground_truths_are_texts_numbers_or_lists_of_them(truth: Any) -> None:
    found = compute_score("data", boxed("8.0"), truth, {"index": 3}, reward_router_address=None)
    assert found == {"score": 1.0, "acc": 1.0, "reason": "correct"}


def test_a_missing_answer_is_an_error() -> None:
    with pytest.raises(InputError, match="answer 0 is None"):
        accuracy_reward([boxed("8")], [None])  # type: ignore[list-item]
    with pytest.raises(InputError, match="answer 0 is None"):
        compute_score("data", boxed("8"), None)  # type: ignore[arg-type]


def test_a_misspelled_option_is_an_error() -> None:
    with pytest.raises(TypeError, match="verifer"):
        compute_score("data", boxed("8"), "8", verifer="exact")  # type: ignore[call-arg]


def test_both_functions_read_the_places_that_are_chosen() -> None:
    texts = ["Answer: 7", "#### 7", boxed("7")]
    for extract, rewards in (("box", [0, 0, 1]), ("box,hashes", [0, 1, 1]), ("hashes", [0, 1, 0])):
        assert accuracy_reward(texts, ["7"] * 3, extract=extract) == rewards
        scores = [compute_score("data", text, "7", extract=extract)["score"] for text in texts]
        assert scores == rewards


def test_the_former_places_of_both_functions_still_have_them() -> None:
    """A config of verl names its module as pkg://rspo.rewards.verl."""
    assert import_module("rspo.rewards.trl").accuracy_reward is accuracy_reward
    assert import_module("rspo.rewards.verl").compute_score is compute_score
