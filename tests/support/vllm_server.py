"""Responses of verl's vLLM server and of this package's, to the same requests, on a CPU.

`python -m tests.support.vllm_server FOLDER` samples from the model in FOLDER. It prints, for each
of the two servers, the token ids, the log-probabilities, and how many times the engine returned
something for a response.
"""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

os.environ.update(
    HF_HUB_OFFLINE="1", OMP_NUM_THREADS="1", TORCHDYNAMO_DISABLE="1", VLLM_LOGGING_LEVEL="ERROR"
)

from verl.workers.rollout.vllm_rollout.vllm_async_server import vLLMHttpServer
from vllm import AsyncEngineArgs
from vllm.v1.engine.async_llm import AsyncLLM

from rspo.training.verl.vllm_rollout import Server

CONTEXT, RESPONSES = 128, 8
PROMPTS = [[3, 4, 5], [7, 8, 9, 10, 11]]


class Config(SimpleNamespace):
    def get(self, name: str, default: Any) -> Any:
        return getattr(self, name, default)


class Counting:
    """The engine, which counts what it returns."""

    def __init__(self, engine: AsyncLLM) -> None:
        self.engine, self.returned = engine, 0

    async def generate(self, **request: Any) -> AsyncIterator[Any]:
        async for output in self.engine.generate(**request):
            self.returned += 1
            yield output


def server_of(kind: type[vLLMHttpServer], engine: Any) -> Any:
    """A server with an engine, without what its own start needs: Ray, a GPU and a socket."""
    server = object.__new__(kind)
    server.config = Config(
        max_model_len=CONTEXT,
        prompt_length=CONTEXT // 2,
        response_length=CONTEXT // 2,
        full_determinism=False,
        enable_rollout_routing_replay=False,
        mtp=None,
    )
    server.model_config = SimpleNamespace(processor=None, lora_rank=0, lora={})
    server.engine, server.global_steps, server.replica_rank = engine, 0, 0
    server._disaggregation_role, server._submission_paused, server._admitting = "null", False, 0
    return server


async def responses(kind: type[vLLMHttpServer], engine: AsyncLLM) -> dict[str, Any]:
    counting = Counting(engine)
    server = server_of(kind, counting)
    requests = [
        server.generate(
            request_id=f"{kind.__name__}-{number}-{seed}",
            prompt_ids=prompt,
            sampling_params={"temperature": 1.0, "top_p": 0.9, "logprobs": True, "seed": seed},
        )
        for number, prompt in enumerate(PROMPTS)
        for seed in range(RESPONSES)
    ]
    outputs = await asyncio.gather(*requests)
    assert server._admitting == 0  # verl waits for this before it sends new weights
    return {
        "tokens": [list(output.token_ids) for output in outputs],
        "log_probs": [output.log_probs for output in outputs],
        "reasons": [output.stop_reason for output in outputs],
        "returned": counting.returned,
    }


async def main(folder: str) -> None:
    arguments = AsyncEngineArgs(
        folder,
        dtype="float32",
        enforce_eager=True,
        max_model_len=CONTEXT,
        max_num_batched_tokens=CONTEXT * 16,
        enable_chunked_prefill=False,  # requests have seeds
        kv_cache_memory_bytes=2**28,
        logprobs_mode="processed_logprobs",
    )
    engine = AsyncLLM.from_engine_args(arguments)
    try:
        found = [await responses(kind, engine) for kind in (vLLMHttpServer, Server)]
        print(json.dumps(found))
    finally:
        engine.shutdown()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
