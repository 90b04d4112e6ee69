"""Run by torchrun on two ranks: groups that lie on both get the weights of whole groups."""

import sys
from pathlib import Path

import numpy as np
import torch.distributed as dist

from rspo.objectives import response_weights
from tests.adapters.trl_contract import N, trainer_of

ROWS = 6  # of each rank, so that the second group of four is split

if __name__ == "__main__":
    folder = Path(sys.argv.pop())
    trainer = trainer_of(folder, "rspo_max_at_k", per_device_train_batch_size=ROWS)
    trainer.model.train()
    rows = next(iter(trainer.get_train_dataloader()))
    batch = trainer._generate_and_score_completions(rows)
    texts = trainer.processing_class.batch_decode(batch["completion_ids"], skip_special_tokens=True)
    rewards = trainer.reward_funcs[0](texts, [row["answer"] for row in rows])
    of_ranks: list[list[float]] = [[], []]
    dist.all_gather_object(of_ranks, rewards)
    groups = np.array(of_ranks).reshape(-1, N)
    expected = N * response_weights(groups, "rspo_max_at_k", 2).reshape(2, ROWS)[dist.get_rank()]
    assert groups.std(axis=1).min() > 0
    np.testing.assert_allclose(batch["advantages"].numpy(), expected, atol=1e-5)

    dist.destroy_process_group()
