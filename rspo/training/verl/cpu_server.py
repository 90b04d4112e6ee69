"""A rollout server on a CPU: answers verl's requests with the key-value-cache sampler.

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
from rspo.policies import qwen2
from rspo.policies.sampler import Responses, sample
from rspo.policies.tokenizer import ChatTokenizer

# Requests arrive one by one. A batch is complete when none has arrived for this long.
SECONDS_OF_QUIET = 0.05
# Measured with the tiny models: in products of a multiple of this, no row depends on the others.
ROWS = 32


@dataclass
class Output:
    """The fields of verl's `TokenOutput`."""

    token_ids: list[int]
    log_probs: list[float]
    stop_reason: str
    extra_fields: dict[str, Any] = field(default_factory=dict)
    num_preempted: int | None = None
    routed_experts: None = None


@dataclass(frozen=True)
class Request:
    """A request for one response. Its name seeds the random numbers."""

    name: str
    prompt: tuple[int, ...]
    temperature: float
    result: "asyncio.Future[Output]"


class Server:
    """Answers requests in batches. Everything but the sampling runs in one thread.

    A response depends only on its request and the weights, and not on its batch. So it is the same
    from any server and at any time.
    """

    def __init__(self, policy: Path, max_tokens: int, seed: int) -> None:
        torch.set_num_threads(1)
        tokenizer = ChatTokenizer(policy)
        self.model = qwen2.load(policy)
        self.max_tokens, self.end, self.pad = max_tokens, tokenizer.end, tokenizer.pad
        self.seed = seed
        self.steps = 0  # training steps of the weights
        self.waiting: list[Request] = []
        self.work: asyncio.Task[None] | None = None

    async def generate(
        self, request_id: str, prompt_ids: list[int], sampling_params: dict[str, Any], **_: Any
    ) -> Output:
        """One response, its tokens' log-probabilities, and the training steps of the weights."""
        result: asyncio.Future[Output] = asyncio.get_running_loop().create_future()
        temperature = sampling_params["temperature"]
        self.waiting.append(Request(request_id, tuple(prompt_ids), temperature, result))
        if self.work is None or self.work.done():
            self.work = asyncio.create_task(self._answer_waiting())
        return await result

    async def _answer_waiting(self) -> None:
        while self.waiting:
            seen = 0
            while len(self.waiting) > seen:
                seen = len(self.waiting)
                await asyncio.sleep(SECONDS_OF_QUIET)
            arrived, self.waiting = self.waiting, []
            # The sampler needs prompts of one length, and one temperature.
            alike: dict[tuple[int, float], list[Request]] = {}
            for request in arrived:
                alike.setdefault((len(request.prompt), request.temperature), []).append(request)
            for batch in alike.values():
                await self._answer(batch)

    async def _answer(self, batch: list[Request]) -> None:
        try:
            responses = await asyncio.to_thread(self._sample, batch)
        except Exception as error:  # passed on to the clients
            for request in batch:
                if not request.result.done():
                    request.result.set_exception(error)
            return
        for row, request in enumerate(batch):
            if request.result.done():  # cancelled
                continue
            length = int(responses.lengths[row])
            output = Output(
                token_ids=responses.tokens[row, :length].tolist(),
                log_probs=responses.log_probs[row, :length].tolist(),
                stop_reason="completed",
                extra_fields={"global_steps": self.steps},
            )
            request.result.set_result(output)

    def _sample(self, batch: list[Request]) -> Responses:
        rows = batch + batch[:1] * (-len(batch) % ROWS)  # padded with copies
        return sample(
            self.model,
            [request.prompt for request in rows],
            1,
            max_tokens=self.max_tokens,
            end=self.end,
            pad=self.pad,
            generator=[generator_of(self.seed, "verl", request.name) for request in rows],
            temperature=batch[0].temperature,
            multiple=ROWS,
        )

    async def set_weights(self, weights: dict[str, Tensor], steps: int) -> None:
        """Use the weights after `steps` training steps, under the names of transformers."""
        qwen2.load_hub_weights(self.model, weights)
        self.steps = steps

    async def sleep(self) -> None:
        """Called between sampling and training; a CPU has nothing to release."""

    async def wake_up(self) -> None:
        """The counterpart of `sleep`."""
