"""Verifies the responses of a training step, and computes their rewards."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rspo.config.schema import Config
from rspo.policies.sampler import Responses
from rspo.policies.tokenizer import ChatTokenizer
from rspo.rewards.configured import Verify, rewards_of
from rspo.training.prompts import Prompts


@dataclass(frozen=True)
class Scored:
    """The responses of one step. Each field is a tensor (prompts, n).

    lengths: in tokens, the end token included.
    finished: whether the response ended with the end token.
    correct: whether the verifier accepted the response.
    rewards: the rewards from which the weights are computed. With simulated errors of a verifier,
        they can contradict `correct`.
    weights: w_i of the objective, by which the response enters the gradient.
    """

    lengths: Tensor
    finished: Tensor
    correct: Tensor
    rewards: Tensor
    weights: Tensor

    @classmethod
    def from_columns(
        cls, lengths: Any, finished: Any, correct: Any, rewards: Any, weights: Any
    ) -> "Scored":
        """Convert lists, arrays or tensors to tensors of the shape (prompts, n).

        Args:
            weights: (prompts, n). The other columns have as many items, in any shape.
        """
        shape = weights.shape
        return cls(
            torch.as_tensor(lengths).view(shape),
            torch.as_tensor(finished).view(shape),
            torch.as_tensor(correct).view(shape),
            torch.as_tensor(rewards).view(shape),
            torch.as_tensor(weights).float(),
        )


def tokens_of(responses: Responses) -> list[list[int]]:
    """The tokens of each response, without padding."""
    lengths = responses.lengths.tolist()
    return [ids[:length] for ids, length in zip(responses.tokens.tolist(), lengths, strict=True)]


def texts_of(responses: Sequence[Sequence[int]], tokenizer: ChatTokenizer) -> list[str]:
    """The text of each response, without the end token."""
    return tokenizer.decode([tokenizer.without_end(response) for response in responses])


def verify_tokens(
    responses: Sequence[Sequence[int]],
    rows: Sequence[int],
    prompts: Prompts,
    tokenizer: ChatTokenizer,
    verify: Verify,
) -> NDArray[np.bool_]:
    """Verify responses.

    Args:
        responses: token ids, the end token included where there is one.
        rows: for each response, the row of its prompt in `prompts`.

    Returns: (len(responses),) whether each response is correct.
    """
    texts = texts_of(responses, tokenizer)
    pairs = list(zip(rows, texts, strict=True))
    # A policy repeats itself: verify equal responses to a prompt only once.
    distinct = list(dict.fromkeys(pairs))
    answers = [prompts.answers[row] for row, _ in distinct]
    questions = [prompts.questions[row] for row, _ in distinct]
    verdicts = verify([text for _, text in distinct], answers, questions=questions)
    correct = {pair: verdict.correct for pair, verdict in zip(distinct, verdicts, strict=True)}
    return np.array([correct[pair] for pair in pairs])


def named_rewards(
    name: str,
    correct: NDArray[np.bool_],
    responses: Sequence[Sequence[int]],
    tokenizer: ChatTokenizer,
    config: Config,
) -> NDArray[np.float64]:
    """Compute the reward with this name for each response: (responses,).

    Args:
        name: the name of a reward in the config, such as the reward of a cell.
        correct: (responses,) whether each response is correct.
        responses: token ids, as in `verify_tokens`.
    """
    lengths = [len(tokens) for tokens in responses]
    return rewards_of(config, name, correct, lengths, lambda: texts_of(responses, tokenizer))
