"""A rollout server on a CPU: answers verl's requests with a tiny model or a published one.

Tiny models are trained from scratch by this package. The server runs in its own Ray actor and does
not import verl, which would take 15 seconds. It still depends on
verl/workers/rollout/llm_server.py (methods of a server) and verl/workers/rollout/replica.py (fields
of `TokenOutput`).
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from rspo.core.errors import InputError
from rspo.core.seeds import generator_of
from rspo.policies import qwen2
from rspo.policies.responses import Drawn
from rspo.policies.sampler import sample
from rspo.policies.tokenizer import ChatTokenizer

if TYPE_CHECKING:
    from rspo.policies.transformers_sampler import TransformersModel

# Requests arrive one at a time. A batch is complete when no request has arrived for this long.
QUIET_SECONDS = 0.05
# Batches of tiny models are filled up to a multiple of this number of rows. Measured with these
# models: if a matrix has such a number of rows, no row of a product depends on the other rows, not
# even by rounding.
ROW_MULTIPLE = 32


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
    top_p: float
    result: "asyncio.Future[Output]"


class Server:
    """Answers requests in batches. Everything except the sampling runs in one thread.

    verl samples either for training or for validation, so all requests that wait have the same
    temperature and top-p. Prompts of tiny models have the same length.

    A response depends only on its request and the weights, so it is the same from any server and at
    any time. With a published model, it also depends on its batch, by rounding.

    Ray shows the name of this class in the titles of processes and in messages about lost
    processes. The server on GPUs has the same name (`vllm_rollout.py`).
    """

    def __init__(self, policy: Path, max_tokens: int, seed: int) -> None:
        torch.set_num_threads(1)
        self.policy = load_policy(policy)
        self.max_tokens = max_tokens
        self.seed = seed
        self.steps = 0  # number of training steps after which the weights were sent
        self.waiting: list[Request] = []
        self.work: asyncio.Task[None] | None = None

    async def generate(
        self, request_id: str, prompt_ids: list[int], sampling_params: dict[str, Any], **_: Any
    ) -> Output:
        """Sample one response, with the log-probability of each token.

        Args:
            request_id: seeds the random numbers of the response.

        Returns: the response. Its `extra_fields` have the number of training steps of the weights.
        """
        result: asyncio.Future[Output] = asyncio.get_running_loop().create_future()
        request = Request(
            name=request_id,
            prompt=tuple(prompt_ids),
            temperature=sampling_params["temperature"],
            top_p=sampling_params.get("top_p", 1.0),
            result=result,
        )
        self.waiting.append(request)
        if self.work is None or self.work.done():
            self.work = asyncio.create_task(self._answer_waiting())
        return await result

    async def _answer_waiting(self) -> None:
        """Answer the waiting requests, batch by batch, until none is left."""
        while self.waiting:
            # Wait until no request has arrived for QUIET_SECONDS.
            seen = 0
            while len(self.waiting) > seen:
                seen = len(self.waiting)
                await asyncio.sleep(QUIET_SECONDS)
            batch = self.waiting
            self.waiting = []
            await self._answer(batch)

    async def _answer(self, batch: list[Request]) -> None:
        """Sample the responses to a batch of requests, and set their results."""
        try:
            responses = await asyncio.to_thread(self._sample, batch)
        except Exception as error:  # `generate` raises it for each request
            for request in batch:
                if not request.result.done():
                    request.result.set_exception(error)
            return
        for drawn, request in zip(responses, batch, strict=True):
            if request.result.done():  # cancelled
                continue
            output = Output(
                token_ids=drawn.tokens,
                log_probs=drawn.log_probs,
                stop_reason="completed",
                extra_fields={"global_steps": self.steps},
            )
            request.result.set_result(output)

    def _sample(self, batch: list[Request]) -> list[Drawn]:
        """Sample one response to each request, in order. Runs in a thread."""
        return self.policy.sample(
            [request.prompt for request in batch],
            [generator_of(self.seed, "verl", request.name) for request in batch],
            max_tokens=self.max_tokens,
            temperature=batch[0].temperature,
            top_p=batch[0].top_p,
        )

    async def set_weights(self, weights: dict[str, Tensor], steps: int) -> None:
        """Load the weights after `steps` training steps; their names are those of transformers."""
        self.policy.load_weights(weights)
        self.steps = steps

    async def sleep(self) -> None:
        """Called between sampling and training; a CPU has nothing to release."""

    async def wake_up(self) -> None:
        """The counterpart of `sleep`."""


def load_policy(folder: Path) -> "TinyPolicy | TransformersModel":
    """Load the policy of a folder, which is a tiny model or a published one."""
    tokenizer = ChatTokenizer(folder)
    if tokenizer.is_tiny:
        return TinyPolicy(folder, tokenizer)
    # transformers takes seconds to import.
    from rspo.policies.transformers_sampler import TransformersModel

    return TransformersModel(folder, tokenizer.ends)


class TinyPolicy:
    """A tiny model, trained from scratch, with the sampler of the local engine."""

    def __init__(self, folder: Path, tokenizer: ChatTokenizer) -> None:
        self.model = qwen2.load(folder)
        self.end = tokenizer.end
        self.pad = tokenizer.pad

    def sample(
        self,
        prompts: Sequence[Sequence[int]],
        generators: Sequence[torch.Generator],
        *,
        max_tokens: int,
        temperature: float = 1.0,
        top_p: float = 1.0,
    ) -> list[Drawn]:
        """Sample one response to each prompt (token ids), each with its own generator."""
        if top_p != 1:
            raise InputError(f"top_p = {top_p}: models from scratch sample with top_p = 1 only")
        # Copies of the first request fill the batch up to a multiple of ROW_MULTIPLE. Their
        # responses end together with the first one, so they add no steps of sampling.
        copies = -len(prompts) % ROW_MULTIPLE
        drawn = sample(
            self.model,
            list(prompts) + [prompts[0]] * copies,
            1,
            max_tokens=max_tokens,
            end=self.end,
            pad=self.pad,
            generator=list(generators) + [generators[0].clone_state() for _ in range(copies)],
            temperature=temperature,
            multiple=ROW_MULTIPLE,
        )
        tokens = drawn.tokens.tolist()
        log_probs = drawn.log_probs.tolist()
        lengths = drawn.lengths.tolist()
        responses = []
        for row in range(len(prompts)):
            length = lengths[row]
            responses.append(Drawn(tokens[row][:length], log_probs[row][:length]))
        return responses

    def load_weights(self, weights: dict[str, Tensor]) -> None:
        """Replace the weights, which have the names of transformers."""
        qwen2.load_hub_weights(self.model, weights)
