"""A rollout server on a CPU: the key-value-cache sampler behind verl's requests.

Runs in a Ray actor of its own, and imports nothing of verl, which would take it 15 seconds.
Depends on verl/workers/rollout/llm_server.py and verl/workers/rollout/replica.py all the same:
what a server is asked, and what `TokenOutput` has.
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

# Requests come one by one; a batch is what has come until none follows for this long.
SECONDS_OF_QUIET = 0.05
# Found by trial, with matrices of the tiny models: from 13 rows on, no product of a row depended
# on the others.
LEAST_ROWS = 32


@dataclass
class Output:
    """What verl's client expects of a server: the fields of its `TokenOutput`."""

    token_ids: list[int]
    log_probs: list[float]
    stop_reason: str
    extra_fields: dict[str, Any] = field(default_factory=dict)
    num_preempted: int | None = None
    routed_experts: None = None


@dataclass(frozen=True)
class Request:
    """One response to draw; its name is where its random numbers come from."""

    name: str
    prompt: tuple[int, ...]
    temperature: float
    answer: "asyncio.Future[Output]"


class Server:
    """Answers requests in batches; everything but the sampling itself runs in one thread.

    A response depends on its request and the weights alone, not on what else is in its batch, so
    it does not matter which server is asked and when.
    """

    def __init__(self, policy: Path, max_tokens: int, seed: int) -> None:
        torch.set_num_threads(1)
        tokenizer = ChatTokenizer(policy)
        self.model = qwen2.load(policy)
        self.max_tokens, self.end, self.pad = max_tokens, tokenizer.end, tokenizer.pad
        self.seed = seed
        self.steps = 0  # weights' version
        self.waiting: list[Request] = []
        self.work: asyncio.Task[None] | None = None

    async def generate(
        self, request_id: str, prompt_ids: list[int], sampling_params: dict[str, Any], **_: Any
    ) -> Output:
        """One response, its tokens' log-probabilities and the version of the weights."""
        answer: asyncio.Future[Output] = asyncio.get_running_loop().create_future()
        temperature = sampling_params["temperature"]
        self.waiting.append(Request(request_id, tuple(prompt_ids), temperature, answer))
        if self.work is None or self.work.done():
            self.work = asyncio.create_task(self._answer_waiting())
        return await answer

    async def _answer_waiting(self) -> None:
        while self.waiting:
            seen = 0
            while len(self.waiting) > seen:
                seen = len(self.waiting)
                await asyncio.sleep(SECONDS_OF_QUIET)
            arrived, self.waiting = self.waiting, []
            # The sampler takes prompts of one length and one temperature at a time.
            alike: dict[tuple[int, float], list[Request]] = {}
            for request in arrived:
                alike.setdefault((len(request.prompt), request.temperature), []).append(request)
            for batch in alike.values():
                await self._answer(batch)

    async def _answer(self, batch: list[Request]) -> None:
        try:
            responses = await asyncio.to_thread(self._sample, batch)
        except Exception as error:  # whoever waits must hear of it
            for request in batch:
                request.answer.set_exception(error)
            return
        for row, request in enumerate(batch):
            length = int(responses.lengths[row])
            output = Output(
                token_ids=responses.tokens[row, :length].tolist(),
                log_probs=responses.log_probs[row, :length].tolist(),
                stop_reason="completed",
                extra_fields={"global_steps": self.steps},
            )
            request.answer.set_result(output)

    def _sample(self, batch: list[Request]) -> Responses:
        rows = batch + batch[:1] * (LEAST_ROWS - len(batch))  # copies, so that there are enough
        return sample(
            self.model,
            [request.prompt for request in rows],
            1,
            max_tokens=self.max_tokens,
            end=self.end,
            pad=self.pad,
            generator=[generator_of(self.seed, "verl", request.name) for request in rows],
            temperature=batch[0].temperature,
            least_rows=LEAST_ROWS,
        )

    async def set_weights(self, weights: dict[str, Tensor], steps: int) -> None:
        """Sample from other weights, those after `steps` training steps."""
        qwen2.load_hub_weights(self.model, weights)
        self.steps = steps

    async def sleep(self) -> None:
        """Nothing of a CPU is handed back between sampling and training."""

    async def wake_up(self) -> None:
        """See `sleep`."""
