"""What a step's responses were worth, and the line of training.jsonl that says so."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from rspo.config.experiment import Cell
from rspo.config.schema import Config
from rspo.evaluation.estimators import pass_at_k
from rspo.policies.tokenizer import ChatTokenizer
from rspo.rewards import length_discounted
from rspo.rewards.configured import Verify
from rspo.training.prompts import Prompts


@dataclass(frozen=True)
class Scored:
    """What one step's responses were worth, and how they ended; (prompts, n) each."""

    lengths: Tensor
    finished: Tensor
    correct: Tensor
    rewards: Tensor
    weights: Tensor


def judge(
    responses: Sequence[Sequence[int]],
    rows: Sequence[int],
    prompts: Prompts,
    tokenizer: ChatTokenizer,
    verify: Verify,
) -> NDArray[np.bool_]:
    """Which responses are correct.

    Args:
        responses: tokens, the end token included where there is one.
        rows: the prompt that each answers, a row of `prompts`.
    """
    texts = [text.removesuffix(tokenizer.end_text) for text in tokenizer.decode(responses)]
    answers = [prompts.answers[row] for row in rows]
    questions = [prompts.questions[row] for row in rows]
    return np.array([verdict.correct for verdict in verify(texts, answers, questions=questions)])


def rewards_of(
    correct: NDArray[np.bool_], lengths: list[int], cell: Cell, config: Config
) -> NDArray[np.float64]:
    """Rewards of a cell's responses, given which are correct and their lengths in tokens."""
    if cell.reward == "length":
        limit, discount = config.sampling.max_response_tokens, config.rewards.length_discount
        return length_discounted(correct, lengths, limit, discount)
    return correct.astype(np.float64)


def record_of(
    step: int,
    scored: Scored,
    entropy: float,
    updates: list[dict[str, float]],
    seconds: dict[str, float],
) -> dict[str, Any]:
    """The line of training.jsonl for a step, counted from 0; everything is counted before dropping.

    Args:
        entropy: mean over the step's tokens, nats.
        updates: what is logged of each update; the line has their means.
        seconds: by phase, "sample" among them.
    """
    n, tokens = scored.weights.shape[1], int(scored.lengths.sum())
    counts = scored.correct.sum(dim=1).numpy()
    return {
        "step": step + 1,
        "reward": scored.rewards.mean().item(),
        "correct": scored.correct.double().mean().item(),
        **{
            f"pass_at_{k}": float(np.mean(pass_at_k(n, counts, k)))
            for k in (2**power for power in range(n.bit_length()))
        },
        "entropy": entropy,
        "response_tokens": tokens / scored.lengths.numel(),
        "finished": scored.finished.float().mean().item(),
        "zero_weight": (scored.weights == 0).float().mean().item(),
        **{key: float(np.mean([update[key] for update in updates])) for key in updates[0]},
        "seconds": {phase: round(value, 4) for phase, value in seconds.items()},
        "tokens_per_second": round(tokens / seconds["sample"]),
    }
