"""One rank of verl's actor that makes the updates of the local engine; see test_update.py.

`python -m tests.support.verl_update FOLDER` with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT set;
rank 0 prints the distance between the two engines' parameters, as a fraction of the update.
"""

import copy
import dataclasses
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
import verl.utils.tensordict_utils as verl_tensors
from omegaconf import DictConfig, OmegaConf
from tensordict import TensorDict
from torch import Tensor
from verl.utils.config import omega_conf_to_dataclass
from verl.workers.utils.losses import ppo_loss

from rspo.config.experiment import Experiment, base_name
from rspo.objectives import compared, response_weights
from rspo.policies import qwen2
from rspo.policies.qwen2 import Qwen2
from rspo.policies.tokenizer import ChatTokenizer
from rspo.rewards import verify
from rspo.training.local import Trainer
from rspo.training.verl.advantages import response_advantages
from rspo.training.verl.dropping import kept_rows, update_settings
from rspo.training.verl.verl_config import verl_config
from rspo.training.verl.worker import PolicyWorker
from tests.support import tiny_world
from tests.support.random_policy import save_policy
from tests.support.rollouts import PROMPTS, N, RewardedRollout, make_model, make_rollout

CELL = "small--rspo-pass--k4--n8--s0"
MINI_BATCH = PROMPTS // 2
K = 2
# Adam's epsilon, about the size of the gradients. With the usual 1e-8, the first updates would not
# depend on the scale of the gradients, and would amplify rounding errors.
EPSILON = 1e-4
# Tokens per forward pass of verl: several passes per update, with different longest responses.
PASS_TOKENS = 128


@dataclass(frozen=True)
class Case:
    """A batch of PROMPTS prompts, and one update for each mini-batch of it.

    hopeless: prompts without a correct response.
    mini_batch: `training.mini_batch_prompts`.
    """

    objective: str
    drop: bool = True
    hopeless: tuple[int, ...] = ()
    aggregation: str = "seq-mean-token-sum-norm"
    mini_batch: int = MINI_BATCH


def cases() -> list[Case]:
    return [
        *(Case(objective, drop) for objective in compared() for drop in (True, False)),
        Case("rspo_pass_at_k", hopeless=tuple(range(MINI_BATCH, PROMPTS))),
        Case("rspo_pass_at_k", hopeless=tuple(range(PROMPTS))),
        Case("rspo_pass_at_k", aggregation="token-mean"),
        Case("rspo_pass_at_k", mini_batch=2 * PROMPTS),  # one update
    ]


def load_experiment(folder: Path, ranks: int, case: Case) -> Experiment:
    spec = {"model": "small", "objective": "rspo_pass_at_k", "k": 4, "n": N}
    return tiny_world.load(
        folder,
        training=tiny_world.OVERRIDES["training"]
        | {"prompts_per_step": PROMPTS, "mini_batch_prompts": case.mini_batch}
        | {"loss_aggregation": case.aggregation},
        grid={"main": {"suite": "standard", "cells": [spec]}},
        verl={
            "ranks_per_node": ranks,
            "overrides": {
                "actor_rollout_ref": {
                    "actor": {
                        "ppo_max_token_len_per_gpu": PASS_TOKENS,
                        "optim": {"override_optimizer_config": {"eps": EPSILON}},
                    }
                }
            },
        },
    )


def resolved_config(experiment: Experiment) -> DictConfig:
    config = verl_config(experiment, CELL)
    OmegaConf.resolve(config)
    return config


def rollout_of(case: Case, model: Qwen2) -> RewardedRollout:
    """Samples of the initial policy, without padding tokens.

    transformers has no gradient for the embedding of the padding token.
    """
    torch.manual_seed(1)
    rollout = make_rollout(model, case.objective, K)
    tokens = rollout.responses.tokens.masked_fill(rollout.responses.tokens == 0, 2)
    responses = dataclasses.replace(rollout.responses, tokens=tokens)
    rewards = rollout.rewards.clone()
    rewards[list(case.hopeless)] = 0.0
    weights = response_weights(rewards, case.objective, K).float()
    return RewardedRollout(rollout.prompts, responses, weights, rewards)


def local_updates(
    experiment: Experiment, model: Qwen2, rollout: RewardedRollout
) -> dict[str, Tensor]:
    """Weights after the local engine's updates, under transformers' names."""
    tokenizer = ChatTokenizer(experiment.policy(base_name("small")))
    cell, policy = experiment.cell(CELL), copy.deepcopy(model)
    trainer = Trainer(experiment.config, cell, policy, tokenizer, verify)
    trainer.optimizer.param_groups[0]["eps"] = EPSILON
    for part in torch.arange(PROMPTS).split(experiment.config.training.mini_batch_prompts):
        trainer.update(0, rollout, part)
    return qwen2.to_hub(policy)


def as_verl_batch(rollout: RewardedRollout, advantages: Tensor, rows: list[int]) -> TensorDict:
    """Some responses as input of verl's actor: nested tensors."""
    log_probs = [rollout.responses.log_probs[row, : rollout.responses.lengths[row]] for row in rows]
    prompts = [rollout.prompts[row // N] for row in rows]
    responses = [rollout.responses.tokens[row, : rollout.responses.lengths[row]] for row in rows]
    sequences = [torch.cat(pair) for pair in zip(prompts, responses, strict=True)]
    fields = {
        "prompts": prompts,
        "responses": responses,
        "input_ids": sequences,
        "position_ids": [torch.arange(len(tokens)) for tokens in sequences],
        "response_mask": [torch.ones_like(tokens) for tokens in responses],
        "loss_mask": [torch.ones_like(tokens) for tokens in responses],
        "old_log_probs": log_probs,
        "advantages": [
            torch.full((len(tokens),), float(advantages[row]))
            for row, tokens in zip(rows, responses, strict=True)
        ],
    }
    nested = {
        name: torch.nested.as_nested_tensor(values, layout=torch.jagged)
        for name, values in fields.items()
    }
    return TensorDict(nested, batch_size=len(rows))


def verl_updates(
    worker: PolicyWorker, experiment: Experiment, rollout: RewardedRollout, case: Case
) -> dict[str, Tensor]:
    """Weights after verl's updates, from the worker's initial weights."""
    worker.actor.reset()
    config = resolved_config(experiment)
    actor = omega_conf_to_dataclass(config.actor_rollout_ref.actor)
    worker.actor.set_loss_fn(partial(ppo_loss, config=actor))
    ranks, rank = worker.world_size, worker.rank
    advantages = response_advantages(rollout.rewards, case.objective, K).flatten()
    lengths = rollout.responses.lengths
    aggregation = config.actor_rollout_ref.actor.loss_agg_mode
    mini_batch = experiment.config.training.prompts_per_update * N
    for first in range(0, PROMPTS * N, mini_batch):
        part = slice(first, first + mini_batch)
        rows = list(range(mini_batch))
        if case.drop:
            rows = kept_rows(advantages[part], lengths[part], ranks, aggregation)
        settings = update_settings(config.actor_rollout_ref, mini_batch, len(rows))
        size = len(rows) // ranks
        own = [first + row for row in rows[rank * size : (rank + 1) * size]]
        batch = as_verl_batch(rollout, advantages, own)
        verl_tensors.assign_non_tensor(batch, **settings)
        worker.update_actor(batch)
    parameters, _ = worker.actor.engine.get_per_tensor_param()
    return {name: tensor.detach().clone() for name, tensor in parameters}


def distance(
    actual: dict[str, Tensor], expected: dict[str, Tensor], start: dict[str, Tensor]
) -> float:
    """Norm of the difference as a fraction of the norm of the update; 0 without an update."""
    assert expected.keys() <= actual.keys()
    apart = sum(float((actual[name] - expected[name]).double().square().sum()) for name in expected)
    moved = sum(float((expected[name] - start[name]).double().square().sum()) for name in expected)
    return (apart / moved) ** 0.5 if moved or apart else 0.0


def distances(folder: Path, ranks: int) -> Iterator[tuple[str, float]]:
    torch.set_num_threads(1)
    model = make_model()
    experiment = load_experiment(folder, ranks, cases()[0])
    policy = experiment.policy(base_name("small"))
    torch.distributed.init_process_group("gloo")
    worker = PolicyWorker(resolved_config(experiment).actor_rollout_ref, role="actor")
    if worker.rank == 0:
        save_policy(model, policy)
    torch.distributed.barrier()
    worker.init_model()
    start = qwen2.to_hub(model)
    for case in cases():
        experiment = load_experiment(folder, ranks, case)
        rollout = rollout_of(case, model)
        expected = local_updates(experiment, model, rollout)
        actual = verl_updates(worker, experiment, rollout, case)
        yield str(case), distance(actual, expected, start)
    worker.save_checkpoint(str(folder / "checkpoint"), None, 1, max_ckpt_to_keep=1)


if __name__ == "__main__":
    import os

    ranks = int(os.environ["WORLD_SIZE"])
    result = dict(distances(Path(sys.argv[1]), ranks))
    if os.environ["RANK"] == "0":
        print("RESULT", json.dumps(result))
    torch.distributed.destroy_process_group()
