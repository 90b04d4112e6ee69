"""Verifies a batch of responses, most of them while the servers still sample.

verl can compute rewards in its reward-loop workers, response by response. Here the trainer verifies
the responses itself. The stored verdicts of a judge model therefore have one writer, and the first
failure of a judge ends the training with one error.

A response is verified as soon as it is there, even if the servers still sample others to its
prompt: a prompt whose longest response takes until the end of the step would otherwise keep all of
its responses until then, while the GPUs are idle.

Depends on verl/trainer/ppo/v1/agent_loop_tq.py (keys and tags of prompts and responses),
transfer_queue/interface.py (`kv_batch_put` writes the tags of a response after its columns) and
verl/workers/rollout/llm_server.py (requests to the servers).
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import transfer_queue
from numpy.typing import NDArray
from transfer_queue import KVBatchMeta
from verl.workers.rollout.llm_server import LLMServerClient
from verl.workers.rollout.replica import TokenOutput

from rspo.policies.tokenizer import ChatTokenizer
from rspo.rewards.configured import Verify
from rspo.training.prompts import Prompts
from rspo.training.rewards import verify_tokens
from rspo.training.verl.batches import fields, response_tokens

# Time between two checks for new responses. verl's default, 2 seconds, is a tenth of a short step.
POLL_SECONDS = 0.2
_PARTITION = "train"  # the part of verl's queue that has the step's prompts and responses
_ENDED_STATUSES = ("finished", "failure")  # the status of a prompt whose requests have all ended
_SAMPLED_STATUS = "success"  # the status of a response whose columns are in the queue


class Verification:
    """Verifies the responses of a training step in verl's queue."""

    def __init__(
        self, prompts: Prompts, rows: Sequence[int], tokenizer: ChatTokenizer, verify: Verify
    ) -> None:
        """Verify responses to `prompts`.

        Args:
            rows: `rows[index]` is the row in `prompts` of the queue's prompt with this `index`.
        """
        self.prompts = prompts
        self.rows = rows
        self.tokenizer = tokenizer
        self.verify = verify
        self.correct: dict[str, bool] = {}  # by the response's key

    def until_sampled(self, count: int) -> None:
        """Wait until all responses to `count` prompts are sampled.

        Meanwhile, verify the responses that are there. The responses that arrive during a
        verification are the next batch.
        """
        while True:
            tags = transfer_queue.kv_list(_PARTITION).get(_PARTITION, {})
            if _count_of_ended_prompts(tags) >= count:
                return
            unverified = sorted(_sampled_responses(tags) - self.correct.keys())
            if unverified:
                self._verify(unverified)
            else:
                time.sleep(POLL_SECONDS)

    def correct_of(self, batch: KVBatchMeta) -> NDArray[np.bool_]:
        """Whether each response of a batch is correct, in order; verifies the remaining ones."""
        remaining = [key for key in batch.keys if key not in self.correct]
        if remaining:
            self._verify(remaining)
        return np.array([self.correct[key] for key in batch.keys])

    def _verify(self, keys: list[str]) -> None:
        """Verify the responses with these keys and store their verdicts in `correct`."""
        batch = KVBatchMeta(keys=keys, tags=[{}] * len(keys), partition_id=_PARTITION)
        data = fields(batch, "responses", "index")
        rows = [self.rows[int(index)] for index in data["index"]]
        correct = verify_tokens(
            response_tokens(data), rows, self.prompts, self.tokenizer, self.verify
        )
        self.correct |= zip(keys, correct.tolist(), strict=True)


def _count_of_ended_prompts(tags: Mapping[str, Mapping[str, Any]]) -> int:
    """The number of prompts whose requests have all ended, given the tags in verl's queue."""
    count = 0
    for tag in tags.values():
        if tag.get("is_prompt", False) is True and tag["status"] in _ENDED_STATUSES:
            count += 1
    return count


def _sampled_responses(tags: Mapping[str, Mapping[str, Any]]) -> set[str]:
    """The keys of the responses whose columns can be read, given the tags in verl's queue.

    A response that the queue is still writing has a key, but no tags.
    """
    return {key for key, tag in tags.items() if tag.get("status") == _SAMPLED_STATUS}


def sample_held_out(
    client: LLMServerClient,
    prompts: Sequence[list[int]],
    samples: int,
    step: int,
    sampling: dict[str, float],
) -> list[list[int]]:
    """Sample `samples` responses to every prompt (token ids), in their order.

    Args:
        step: number of completed training steps.
        sampling: parameters of the requests.

    Returns: the token ids of each response.

    Raises: any error of a server that does not answer; the driver then looks for a lost process.
    """

    async def responses() -> list[TokenOutput]:
        """Send all requests at once; the client distributes them among the servers."""
        requests = []
        for row, tokens in enumerate(prompts):
            for number in range(samples):
                # As in `PromptLoop`, the server on CPUs seeds its random numbers with the name.
                name = f"{step}-validation-{row}-{number}"
                request = client.generate(
                    request_id=name, prompt_ids=tokens, sampling_params=dict(sampling)
                )
                requests.append(request)
        return await asyncio.gather(*requests)

    return [list(output.token_ids) for output in asyncio.run(responses())]
