"""Verification of a batch of responses, most of it while the servers sample the others.

verl can compute rewards in its reward-loop workers, response by response. Here the trainer verifies
the responses itself, which gives the stored verdicts of a judge model one writer, and the first
failure of a judge one error that ends the training.

Depends on verl/trainer/ppo/v1/replay_buffer.py (keys and tags of prompts and responses).
"""

import time
from collections.abc import Sequence
from uuid import uuid4

import numpy as np
import transfer_queue
from numpy.typing import NDArray
from transfer_queue import KVBatchMeta
from verl.trainer.ppo.v1.agent_loop_tq import AgentLoopManagerTQ
from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer
from verl.utils import tensordict_utils
from verl.utils.dataset.rl_dataset import collate_fn

from rspo.policies.tokenizer import ChatTokenizer
from rspo.rewards.configured import Verify
from rspo.training.prompts import Prompts
from rspo.training.records import verify_tokens
from rspo.training.verl.batches import fields, response_tokens, sort_by_prompt

# Between checks for sampled responses; verl's own 2 seconds are a tenth of a short step.
POLL_SECONDS = 0.2
PARTITION = "val"  # of the queue, for responses of validation
_ENDED = ("finished", "failure")  # tags of prompts with all their responses


class Verification:
    """Verifies the responses in a partition of verl's queue."""

    def __init__(
        self,
        partition: str,
        prompts: Prompts,
        rows: Sequence[int],
        tokenizer: ChatTokenizer,
        verify: Verify,
    ) -> None:
        """`rows` has the row in `prompts` of every `index` in the queue."""
        self.partition, self.prompts, self.rows = partition, prompts, rows
        self.tokenizer, self.verify = tokenizer, verify
        self.correct: dict[str, bool] = {}  # by the response's key

    def until_sampled(self, count: int) -> None:
        """Wait until all responses to `count` prompts are sampled; meanwhile, verify the others."""
        while True:
            tags = transfer_queue.kv_list(self.partition).get(self.partition, {})
            ended = {
                key
                for key, tag in tags.items()
                if tag.get("is_prompt", False) is True and tag["status"] in _ENDED
            }
            if len(ended) >= count:
                return
            sampled = {key for key in tags.keys() - ended if key.split("_")[0] in ended}
            if new := sorted(sampled - self.correct.keys()):
                self._verify(new)
            else:
                time.sleep(POLL_SECONDS)

    def of(self, batch: KVBatchMeta) -> NDArray[np.bool_]:
        """Whether each response of a batch is correct, in order; verifies the remaining ones."""
        if remaining := [key for key in batch.keys if key not in self.correct]:
            self._verify(remaining)
        return np.array([self.correct[key] for key in batch.keys])

    def _verify(self, keys: list[str]) -> None:
        batch = KVBatchMeta(keys=keys, tags=[{}] * len(keys), partition_id=self.partition)
        data = fields(batch, "responses", "index")
        rows = [self.rows[int(index)] for index in data["index"]]
        correct = verify_tokens(
            response_tokens(data), rows, self.prompts, self.tokenizer, self.verify
        )
        self.correct |= zip(keys, correct.tolist(), strict=True)


def held_out_responses(
    agents: AgentLoopManagerTQ,
    responses: ReplayBuffer,
    verification: Verification,
    samples: int,
    step: int,
) -> tuple[NDArray[np.bool_], list[list[int]]]:
    """Sample and verify `samples` responses to every prompt of `verification`, in their order.

    Args:
        responses: the buffer that receives the agent loop's responses.
        verification: of the held-out prompts, in the partition `PARTITION`.
        step: number of completed training steps.

    Returns: whether each response is correct, and its token ids.

    Raises: LostProcess if the servers did not answer all requests.
    """
    held_out = verification.prompts
    rows = collate_fn(
        [
            {"raw_prompt": tokens, "index": row, "name": f"validation-{row}"}
            for row, tokens in enumerate(held_out.tokens)
        ]
    )
    rows["uid"] = np.array([str(uuid4()) for _ in held_out.tokens], dtype=object)
    requests = tensordict_utils.get_tensordict(rows)
    tensordict_utils.assign_non_tensor_data(requests, "global_steps", step)
    tensordict_utils.assign_non_tensor_data(requests, "validate", True)
    tag = {"is_prompt": True, "status": "pending", "global_steps": step}
    transfer_queue.kv_batch_put(
        keys=list(requests["uid"]),
        partition_id=PARTITION,
        tags=[dict(tag) for _ in held_out.tokens],
    )
    agents.generate_sequences(requests)
    verification.until_sampled(len(requests))
    batch, _ = responses.sample(global_steps=step, partition_id=PARTITION, batch_size=len(requests))
    expected = len(held_out.tokens) * samples
    sort_by_prompt(batch, expected, f"the validation after step {step}")
    correct, tokens = verification.of(batch), response_tokens(fields(batch, "responses"))
    transfer_queue.kv_clear(keys=batch.keys, partition_id=PARTITION)
    return correct, tokens
