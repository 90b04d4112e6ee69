"""The rollout servers' responses to held-out problems.

verl's own validation reads a data set of its own, rewards it response by response, and comes after
the checkpoint of its step. Here it comes before, so that no kill can lose it or repeat it.

Depends on verl/trainer/ppo/v1/trainer_base.py (`_validate`: how prompts are submitted),
verl/trainer/ppo/v1/agent_loop_tq.py and verl/trainer/ppo/v1/replay_buffer.py. The number of samples
and the temperature are `rollout.val_kwargs` of the config.
"""

from uuid import uuid4

import numpy as np
import transfer_queue
from verl.trainer.ppo.v1.agent_loop_tq import AgentLoopManagerTQ
from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer
from verl.utils import tensordict_utils
from verl.utils.dataset.rl_dataset import collate_fn

from rspo.training.prompts import Prompts
from rspo.training.verl.batches import fields, put_in_order, response_tokens
from rspo.training.verl.interface import require_parameters, require_version

require_version()
require_parameters(AgentLoopManagerTQ.generate_sequences, "self", "prompts")
require_parameters(ReplayBuffer.sample, "self", "global_steps", "partition_id", "batch_size")

PARTITION = "val"  # of the queue, where the agent loop puts what it is asked to validate


def held_out_responses(
    agents: AgentLoopManagerTQ, responses: ReplayBuffer, held_out: Prompts, samples: int, step: int
) -> tuple[list[list[int]], list[int]]:
    """Tokens of `samples` responses to every problem, and the problem that each answers.

    Args:
        responses: where the agent loop's responses are waited for.
        step: of the training, after which the policy stands.

    Raises: LostProcess if the servers did not answer all requests.
    """
    rows = collate_fn(
        [
            {"raw_prompt": tokens, "index": row, "name": f"validation-{row}"}
            for row, tokens in enumerate(held_out.tokens)
        ]
    )
    rows["uid"] = np.array([str(uuid4()) for _ in held_out.tokens], dtype=object)
    asked = tensordict_utils.get_tensordict(rows)
    tensordict_utils.assign_non_tensor_data(asked, "global_steps", step)
    tensordict_utils.assign_non_tensor_data(asked, "validate", True)
    tag = {"is_prompt": True, "status": "pending", "global_steps": step}
    transfer_queue.kv_batch_put(
        keys=list(asked["uid"]), partition_id=PARTITION, tags=[dict(tag) for _ in held_out.tokens]
    )
    agents.generate_sequences(asked)
    batch, _ = responses.sample(global_steps=step, partition_id=PARTITION, batch_size=len(asked))
    expected = len(held_out.tokens) * samples
    places = put_in_order(batch, expected, f"the validation after step {step}")
    tokens = response_tokens(fields(batch, "responses"))
    transfer_queue.kv_clear(keys=batch.keys, partition_id=PARTITION)
    return tokens, places
