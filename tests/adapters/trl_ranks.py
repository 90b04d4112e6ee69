"""Run by torchrun on two ranks: groups that lie on both get the weights of whole groups.

An evaluation counts each prompt once, although the last batch is filled with repeated rows.
"""

import sys
from pathlib import Path

import numpy as np
import torch.distributed as dist

from examples.trl_bandit import questions
from rspo.adapters.trl_pass_at_k import PassAtKCallback
from rspo.objectives import response_weights
from tests.adapters.trl_contract import N, trainer_of
from tests.adapters.trl_pass_at_k_contract import trainer_of as pass_at_k_trainer_of

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

    problems = questions(3).add_column("value", [0.0, 0.0, 1.0])

    def value_of(completions: list[str], value: list[float], **_: object) -> list[float]:
        return value

    evaluating = pass_at_k_trainer_of(
        folder,
        [value_of],
        eval_dataset=problems,
        per_device_eval_batch_size=2 * N,
        per_device_train_batch_size=ROWS,
    )
    evaluating.add_callback(PassAtKCallback(evaluating, ks=[2], correct="value_of"))
    np.testing.assert_allclose(evaluating.evaluate()["eval_pass@2"], 1 / 3)

    dist.destroy_process_group()
