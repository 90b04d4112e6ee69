"""Per-step metrics: rewards of a step's responses, and the step's line of training.jsonl."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rspo.config.schema import Config, Optimizer, Rewards
from rspo.core.seeds import generator_of
from rspo.estimators import pass_at_k
from rspo.policies.sampler import Responses
from rspo.policies.tokenizer import ChatTokenizer
from rspo.rewards.configured import Verify, rewards_of
from rspo.training.prompts import Prompts

Record = dict[str, Any]  # one line of training.jsonl


@dataclass(frozen=True)
class Trained:
    """The result of an engine.

    records: the lines of training.jsonl, one per step.
    save: writes the trained weights into a folder with the base policy's other files.
    files: further files of the cell, to get the policy's provenance.
    gpu_seconds: used by this process; ignored in a SLURM job, which knows its GPUs.
    notes: for the provenance, such as which problems were left out.
    """

    records: Sequence[Record]
    save: Callable[[Path], None]
    files: Sequence[Path] = ()
    gpu_seconds: float = 0.0
    notes: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Scored:
    """One step's responses: lengths, rewards and weights; (prompts, n) each.

    lengths: in tokens, the end token included.
    finished: whether the response ended with the end token.
    """

    lengths: Tensor
    finished: Tensor
    correct: Tensor
    rewards: Tensor
    weights: Tensor

    @classmethod
    def of(cls, lengths: Any, finished: Any, correct: Any, rewards: Any, weights: Any) -> "Scored":
        """From lists, arrays or tensors; `weights` is (prompts, n), the others have its size."""
        columns = (lengths, finished, correct, rewards)
        lengths, finished, correct, rewards = (
            torch.as_tensor(column).view(weights.shape) for column in columns
        )
        return cls(lengths, finished, correct, rewards, torch.as_tensor(weights).float())


class Stopwatch:
    """Seconds of each phase of a step, one after the other."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._started = time.perf_counter()

    def lap(self, phase: str) -> None:
        """Note the time since the end of the previous phase as this phase's."""
        now = time.perf_counter()
        self.seconds[phase], self._started = now - self._started, now


def tokens_of(responses: Responses) -> list[list[int]]:
    """The tokens of each response, without padding."""
    lengths = responses.lengths.tolist()
    return [ids[:length] for ids, length in zip(responses.tokens.tolist(), lengths, strict=True)]


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
        rows: of each response, the row of its prompt in `prompts`.

    Returns: (len(responses),) whether each response is correct.
    """
    texts = texts_of(responses, tokenizer)
    pairs = list(zip(rows, texts, strict=True))
    distinct = list(dict.fromkeys(pairs))  # a policy repeats itself
    answers = [prompts.answers[row] for row, _ in distinct]
    questions = [prompts.questions[row] for row, _ in distinct]
    verdicts = verify([text for _, text in distinct], answers, questions=questions)
    correct = {pair: verdict.correct for pair, verdict in zip(distinct, verdicts, strict=True)}
    return np.array([correct[pair] for pair in pairs])


def with_wrong_verdicts(
    correct: NDArray[np.bool_], settings: Rewards, *seed: str | int
) -> NDArray[np.bool_]:
    """Verdicts of a verifier that errs at the config's rates, independently for each response."""
    if not settings.false_accepts and not settings.false_rejects:
        return correct
    draws = torch.rand(len(correct), generator=generator_of("wrong verdicts", *seed))
    rates = np.where(correct, settings.false_rejects, settings.false_accepts)
    return correct ^ (draws.numpy() < rates)


def texts_of(responses: Sequence[Sequence[int]], tokenizer: ChatTokenizer) -> list[str]:
    """The text of each response, without the end token."""
    return tokenizer.decode([tokenizer.without_end(response) for response in responses])


def named_rewards(
    name: str,
    correct: NDArray[np.bool_],
    responses: Sequence[Sequence[int]],
    tokenizer: ChatTokenizer,
    config: Config,
) -> NDArray[np.float64]:
    """Rewards (responses,) by the name of a reward; the responses are as in `verify_tokens`."""
    lengths = [len(tokens) for tokens in responses]
    return rewards_of(config, name, correct, lengths, lambda: texts_of(responses, tokenizer))


def record_of(
    step: int,
    scored: Scored,
    entropy: float,
    updates: list[dict[str, float]],
    seconds: dict[str, float],
    optimizer: Optimizer,
) -> Record:
    """The line of training.jsonl for one step. It counts all responses, dropped ones included.

    Args:
        step: counted from 0; the line counts from 1.
        entropy: mean over the step's tokens, in nats.
        updates: metrics of each update; the line has their means, and the fraction of updates
            whose gradient was clipped.
        seconds: by phase; "sample" is required.
    """
    n, tokens = scored.weights.shape[1], int(scored.lengths.sum())
    limit = optimizer.gradient_clip or float("inf")
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
        "gradient_clipped": float(np.mean([update["gradient_norm"] > limit for update in updates])),
        "seconds": {phase: round(value, 4) for phase, value in seconds.items()},
        "tokens_per_second": round(tokens / seconds["sample"]),
    }
