"""Verification of a batch of responses, most of it while the servers sample the others.

verl can compute rewards in its reward-loop workers, response by response. Here the trainer verifies
the responses itself, which gives the stored verdicts of a judge model one writer, and the first
failure of a judge one error that ends the training.

Depends on verl/trainer/ppo/v1/replay_buffer.py (keys and tags of prompts and responses).
"""

import time
from collections.abc import Sequence

import numpy as np
import transfer_queue
from numpy.typing import NDArray
from transfer_queue import KVBatchMeta

from rspo.policies.tokenizer import ChatTokenizer
from rspo.rewards.configured import Verify
from rspo.training.prompts import Prompts
from rspo.training.records import verify_tokens
from rspo.training.verl.batches import fields, response_tokens

# Between checks for sampled responses; verl's own 2 seconds are a tenth of a short step.
POLL_SECONDS = 0.2
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
