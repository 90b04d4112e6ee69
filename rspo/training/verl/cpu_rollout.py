"""verl's rollout server on CPUs: the key-value-cache sampler in a Ray actor.

One replica a rank, in a process of its own, as vLLM's is. Depends on verl/workers/rollout/base.py
(`BaseRollout` and its registry), verl/workers/rollout/replica.py (`RolloutReplica` and its
registry) and verl/workers/rollout/llm_server.py (what a server is asked).
"""

import asyncio
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray
import torch
from torch import Tensor
from verl.workers.rollout.base import _ROLLOUT_REGISTRY, BaseRollout
from verl.workers.rollout.replica import RolloutReplica, RolloutReplicaRegistry, TokenOutput

from rspo.policies import qwen2
from rspo.policies.sampler import Responses, sample
from rspo.policies.tokenizer import ChatTokenizer
from rspo.seeds import generator_of
from rspo.training.verl.interface import require_parameters

NAME = "rspo_sampler"  # of actor_rollout_ref.rollout.name in cpu.yaml
# Requests come one by one; a batch is what has come until none follows for this long.
SECONDS_OF_QUIET = 0.05

require_parameters(BaseRollout.update_weights, "self", "weights", "wire_format", "kwargs")
require_parameters(RolloutReplica.launch_servers, "self")


@dataclass(frozen=True)
class Request:
    """One response to draw."""

    prompt: tuple[int, ...]
    temperature: float
    answer: "asyncio.Future[TokenOutput]"


class Server:
    """Answers requests in batches; everything but the sampling itself runs in one thread."""

    def __init__(self, policy: Path, max_tokens: int, seed: int, replica: int) -> None:
        torch.set_num_threads(1)
        tokenizer = ChatTokenizer(policy)
        self.model = qwen2.load(policy)
        self.max_tokens, self.end, self.pad = max_tokens, tokenizer.end, tokenizer.pad
        self.seed, self.replica = seed, replica
        self.steps = self.batches = 0  # weights' version; batches drawn since it came
        self.waiting: list[Request] = []
        self.work: asyncio.Task[None] | None = None

    async def generate(
        self, request_id: str, prompt_ids: list[int], sampling_params: dict[str, Any], **_: Any
    ) -> TokenOutput:
        """One response, its tokens' log-probabilities and the version of the weights."""
        answer: asyncio.Future[TokenOutput] = asyncio.get_running_loop().create_future()
        self.waiting.append(Request(tuple(prompt_ids), sampling_params["temperature"], answer))
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
            output = TokenOutput(
                token_ids=responses.tokens[row, :length].tolist(),
                log_probs=responses.log_probs[row, :length].tolist(),
                stop_reason="completed",
                extra_fields={"global_steps": self.steps},
            )
            request.answer.set_result(output)

    def _sample(self, batch: list[Request]) -> Responses:
        self.batches += 1
        return sample(
            self.model,
            [request.prompt for request in batch],
            1,
            max_tokens=self.max_tokens,
            end=self.end,
            pad=self.pad,
            generator=generator_of(self.seed, "verl", self.replica, self.steps, self.batches),
            temperature=batch[0].temperature,
        )

    async def set_weights(self, weights: dict[str, Tensor], steps: int) -> None:
        """Sample from other weights, those after `steps` training steps."""
        qwen2.load_hub_weights(self.model, weights)
        self.steps, self.batches = steps, 0

    async def sleep(self) -> None:
        """Nothing of a CPU is handed back between sampling and training."""

    async def wake_up(self) -> None:
        """See `sleep`."""


class ServerAdapter(BaseRollout):
    """The rank's side: hands the actor's weights to its server."""

    async def resume(self, tags: list[str]) -> None:
        """Nothing was released."""

    async def release(self) -> None:
        """See `Server.sleep`."""

    async def update_weights(
        self,
        weights: Generator[tuple[str, Tensor], None, None],
        wire_format: str = "named_tensors",
        **kwargs: Any,
    ) -> None:
        """Gather the weights, which every rank must take part in, and send them."""
        gathered = {name: tensor.detach().cpu().clone() for name, tensor in weights}
        server = ray.get_actor(server_name(torch.distributed.get_rank()))
        await server.set_weights.remote(gathered, kwargs["global_steps"])


class Replica(RolloutReplica):
    """The driver's side: starts the server."""

    async def launch_servers(self) -> None:
        server = ray.remote(Server).options(
            name=server_name(self.replica_rank), num_cpus=1, max_concurrency=self.max_concurrency
        )
        self._server_address = server_name(self.replica_rank)
        self._server_handle = server.remote(
            Path(self.model_config.path),
            self.config.response_length,
            self.config.seed,
            self.replica_rank,
        )
        self.servers = [self._server_handle]


def server_name(replica: int) -> str:
    """Name of a replica's actor in Ray."""
    return f"{NAME}_{replica}"


def register_rollout() -> None:
    """Let verl find both sides under the rollout's name."""
    _ROLLOUT_REGISTRY[(NAME, "async")] = f"{__name__}.ServerAdapter"
    RolloutReplicaRegistry.register(NAME, lambda: Replica)
