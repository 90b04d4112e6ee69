"""Responses of the rollout servers to held-out problems.

verl's own validation runs after the step's checkpoint. Here it runs before, so that a kill cannot
lose or repeat it.

Depends on verl/trainer/ppo/v1/trainer_base.py (`_validate` submits prompts in this way),
verl/trainer/ppo/v1/agent_loop_tq.py and verl/trainer/ppo/v1/replay_buffer.py. `rollout.val_kwargs`
of the config has the number of samples and the temperature.
"""

from uuid import uuid4

import numpy as np
import transfer_queue
from numpy.typing import NDArray
from verl.trainer.ppo.v1.agent_loop_tq import AgentLoopManagerTQ
from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer
from verl.utils import tensordict_utils
from verl.utils.dataset.rl_dataset import collate_fn

from rspo.training.verl.batches import fields, response_tokens, sort_by_prompt
from rspo.training.verl.verification import Verification

PARTITION = "val"  # of the queue, for responses of validation


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
