"""A rollout server on a CPU: answers verl's requests with a model of transformers.

It runs in its own Ray actor and does not import verl, which would take 15 seconds. It still depends
on verl/workers/rollout/llm_server.py (methods of a server) and on
verl/workers/rollout/replica.py (fields of `TokenOutput`).
"""

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rspo.core.seeds import generator_of
from rspo.policies.responses import Drawn
from rspo.policies.tokenizer import ChatTokenizer
from rspo.policies.transformers_sampler import TransformersModel

SECONDS_OF_QUIET = 0.05  # in which other requests may arrive, to be answered together


@dataclass
class Output:
    """The fields of verl's `TokenOutput`."""

    token_ids: list[int]
    log_probs: list[float]
    extra_fields: dict[str, Any]
    stop_reason: str = "completed"
    num_preempted: int | None = None
    routed_experts: None = None


@dataclass
class Server:
    """Answers requests in batches. Everything but the sampling runs in one thread.

    A response depends only on its request and the weights, up to rounding, and not on its batch. So
    it is the same from any server and at any time.

    policy: folder of the model.
    max_tokens: of a response.
    temperature, top_p: of all requests.
    """

    policy: Path
    max_tokens: int
    temperature: float
    top_p: float
    seed: int
    steps: int = 0  # training steps of the weights
    waiting: dict[str, list[int]] = field(default_factory=dict)  # prompts by the request's name
    answers: dict[str, Drawn] = field(default_factory=dict)

    def __post_init__(self) -> None:
        torch.set_num_threads(1)
        self.sampler = TransformersModel(self.policy, ChatTokenizer(self.policy).ends)
        self.lock = asyncio.Lock()

    async def generate(self, request_id: str, prompt_ids: list[int], **_: Any) -> Output:
        """One response, its tokens' log-probabilities, and the training steps of the weights."""
        self.waiting[request_id] = prompt_ids
        await asyncio.sleep(SECONDS_OF_QUIET)
        async with self.lock:
            if request_id in self.waiting:
                requests, self.waiting = self.waiting, {}
                self.answers |= await asyncio.to_thread(self._sample, requests)
        drawn = self.answers.pop(request_id)
        return Output(drawn.tokens, drawn.log_probs, {"global_steps": self.steps})

    def _sample(self, requests: dict[str, list[int]]) -> dict[str, Drawn]:
        """Responses by the names of requests, which seed the random numbers."""
        drawn = self.sampler.sample(
            list(requests.values()),
            [generator_of(self.seed, "verl", name) for name in requests],
            max_tokens=self.max_tokens,
            temperature=self.temperature,
            top_p=self.top_p,
        )
        return dict(zip(requests, drawn, strict=True))

    async def set_weights(self, weights: dict[str, Tensor], steps: int) -> None:
        """Use the weights after `steps` training steps, under the names of transformers."""
        self.sampler.load_weights(weights)
        self.steps = steps

    async def sleep(self) -> None:
        """Called between sampling and training; a CPU has nothing to release."""

    async def wake_up(self) -> None:
        """The counterpart of `sleep`."""
