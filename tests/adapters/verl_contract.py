"""The estimators in verl itself. test_verl_estimators.py runs this, and `make test-trainers`."""

import logging
from typing import Any

import numpy as np
import pytest
import torch
from hydra import compose, initialize_config_module
from verl import DataProto
from verl.trainer.ppo import core_algos, ray_trainer

from rspo.adapters import verl_check, verl_validation, versions
from rspo.adapters.verl_estimators import estimator_name, register_estimators
from rspo.core.errors import InputError
from rspo.objectives import OBJECTIVES, policy_loss, response_weights
from tests.support import subsets

PROMPTS, N, TOKENS, WORDS = 6, 4, 5, 7
K = 2
LONGEST = 11


@pytest.fixture(autouse=True)
def first_use() -> None:
    """Each test is the first use of each estimator in its process."""
    verl_check._checked.clear()
    versions._warn.cache_clear()


def config_of(*overrides: str) -> Any:
    with initialize_config_module("verl.trainer.config", version_base=None):
        return compose("ppo_trainer", overrides=list(overrides))


def advantages_of(config: Any, rewards: np.ndarray, order: torch.Tensor) -> torch.Tensor:
    """Advantages of tokens, (P n, tokens), in the order of the prompts; verl gets another order."""
    lengths = 1 + torch.arange(rewards.size) % TOKENS
    mask = (torch.arange(TOKENS) < lengths[:, None]).float()
    token_rewards = torch.zeros(rewards.size, TOKENS)
    token_rewards[torch.arange(rewards.size), lengths - 1] = torch.tensor(rewards.flatten()).float()
    uids = np.repeat([f"prompt {i}" for i in range(len(rewards))], N).astype(object)
    data = DataProto.from_dict(
        tensors={"token_level_rewards": token_rewards[order], "response_mask": mask[order]},
        non_tensors={"uid": uids[order.numpy()]},
    )
    name = config.algorithm.adv_estimator
    data = ray_trainer.compute_advantage(data, adv_estimator=name, config=config.algorithm)
    found = torch.zeros(rewards.size, TOKENS)
    found[order] = data.batch["advantages"]
    return found


def rewards_of(objective: str) -> np.ndarray:
    """Groups with every number of correct responses; negative rewards where they are allowed."""
    correct = (np.arange(PROMPTS) % (N + 1))[:, None] > np.arange(N)
    rewards = np.random.default_rng(0).permuted(correct, axis=1).astype(float)
    return rewards if OBJECTIVES[objective].binary else 0.3 * rewards - 1


def settings_of(objective: str, k: int = K) -> list[str]:
    return [f"algorithm.adv_estimator={estimator_name(objective)}", f"+algorithm.rspo_k={k}"]


@pytest.mark.parametrize("objective", [o for o in OBJECTIVES if not OBJECTIVES[o].ordered])
def test_the_gradient_is_that_of_policy_loss(objective: str) -> None:
    """Through verl's config, its advantages and its aggregation of the loss over tokens."""
    torch.manual_seed(0)
    rewards = rewards_of(objective)
    config = config_of(
        *settings_of(objective),
        "actor_rollout_ref.actor.loss_agg_mode=seq-mean-token-sum-norm",
        f"actor_rollout_ref.actor.loss_scale_factor={LONGEST}",
    )
    advantages = advantages_of(config, rewards, torch.randperm(PROMPTS * N))
    logits = torch.randn(PROMPTS * N, TOKENS, WORDS, dtype=torch.float64, requires_grad=True)
    log_probs = logits.log_softmax(-1)[..., 0]
    lengths = 1 + torch.arange(PROMPTS * N) % TOKENS
    mask = (torch.arange(TOKENS) < lengths[:, None]).double()
    actor = config.actor_rollout_ref.actor
    ratio = (log_probs - log_probs.detach()).exp()
    loss = core_algos.agg_loss(
        -advantages.double() * ratio,
        mask,
        actor.loss_agg_mode,
        loss_scale_factor=actor.loss_scale_factor,
    )
    (found,) = torch.autograd.grad(loss, logits, retain_graph=True)

    shape = (PROMPTS, N, TOKENS)
    weights = response_weights(rewards, objective, K)
    loss = policy_loss(log_probs.view(shape), mask.view(shape), weights, max_tokens=LONGEST)
    (expected,) = torch.autograd.grad(loss, logits)
    assert expected.norm() > 0
    assert (found - expected).norm() <= 1e-5 * expected.norm()


def test_two_prompts_have_the_advantages_of_the_formula() -> None:
    """2 of 4 correct: n (k/n) C(2,1)/C(3,1) = 4/3 for k = 2. 1 of 4: n (k/n) C(3,1)/C(3,1) = 2."""
    rewards = np.array([[1.0, 0, 1, 0], [0, 0, 0, 1]])
    order = torch.tensor([0, 4, 5, 1, 2, 6, 7, 3])
    found = advantages_of(config_of(*settings_of("rspo_pass_at_k")), rewards, order)
    torch.testing.assert_close(
        found[:, 0].view(2, 4), torch.tensor([[4 / 3, 0, 4 / 3, 0], [0, 0, 0, 2.0]])
    )


def test_hitchhiking_gives_the_part_of_a_correct_response_its_reward() -> None:
    """A group of 4 is split into 2 parts of k = 2; n (k/n) times the best reward of the part."""
    rewards = np.array([[0, 1.0, 0, 0]] * PROMPTS)
    order = torch.randperm(PROMPTS * N)
    found = advantages_of(config_of(*settings_of("hitchhiking")), rewards, order)[:, 0]
    groups = found.view(PROMPTS, N)
    assert (groups[:, 1] == 2).all()
    assert (groups.sort(dim=1).values == torch.tensor([0.0, 0, 2, 2])).all()


def test_a_tested_version_gives_no_warning_and_another_one_gives_one(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = config_of(*settings_of("rspo_max_at_k"))
    rewards = rewards_of("rspo_max_at_k")
    order = torch.arange(PROMPTS * N)
    with caplog.at_level(logging.WARNING, "rspo"):
        advantages_of(config, rewards, order)
        assert caplog.messages == []
        monkeypatch.setattr("verl.__version__", "0.99.0")
        for objective in ("rspo_pass_at_k", "policy_gradient"):
            advantages_of(config_of(*settings_of(objective)), rewards_of(objective), order)
    (message,) = caplog.messages
    assert message.startswith("found verl 0.99.0; rspo was tested with 0.7.1")


def test_a_verl_that_changes_advantages_is_one_line_that_names_the_difference(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    original = ray_trainer.compute_advantage

    def centred(data: DataProto, **given: Any) -> DataProto:
        data = original(data, **given)
        data.batch["advantages"] -= data.batch["advantages"].mean() * data.batch["response_mask"]
        return data

    monkeypatch.setattr(ray_trainer, "compute_advantage", centred)
    config = config_of(*settings_of("rspo_pass_at_k"))
    message = r"gives the rewards \[0.0, 1.0, 0.0, 0.0\] the advantages .*; expected: \[0.0, 2.0, "
    for _ in range(2):  # the first error does not count as a check
        with pytest.raises(InputError, match=message) as error:
            advantages_of(config, rewards_of("rspo_pass_at_k"), torch.arange(PROMPTS * N))
        assert "\n" not in str(error.value)


def test_a_verl_without_prompts_or_without_the_registry_is_one_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    estimator = core_algos.get_adv_estimator_fn("rspo_pass_at_k")
    given = {"token_level_rewards": torch.zeros(2, 1), "response_mask": torch.ones(2, 1)}
    with pytest.raises(InputError, match=r"verl 0.* calls it without index; rspo was tested with"):
        estimator(**given, config={"rspo_k": 2}, uid=["a", "a"])
    monkeypatch.delattr(core_algos, "register_adv_est")
    with pytest.raises(InputError, match=r"verl 0.* has no function register_adv_est in verl\."):
        register_estimators()


# Two data sources, each with the values of `acc` of the responses to its prompts.
VALUES = {"a": [[0, 1, 0, 0], [1, 1, 0, 1]], "b": [[0, 0, 0, 1], [0, 0, 0, 0], [1, 0, 1, 1]]}


def metrics_of_trainer(values: dict[str, list[list[float]]]) -> dict[str, float]:
    """Of verl's trainer, which imported the function when it was imported itself."""
    sources = []
    uids = []
    acc = []
    for source, groups in values.items():
        for number, group in enumerate(groups):
            sources += [source] * len(group)
            uids += [f"{source}{number}"] * len(group)
            acc += group
    infos = {"reward": [value - 0.5 for value in acc], "acc": acc, "reason": ["?"] * len(acc)}
    trainer: Any = ray_trainer.RayPPOTrainer
    found: dict[str, float] = trainer._val_metrics_update(None, sources, uids, infos, [])
    return found


@pytest.mark.parametrize("source", VALUES)
@pytest.mark.parametrize("k", [1, 2, 4])
def test_validation_metrics_have_pass_at_k_and_max_at_k_with_errors(source: str, k: int) -> None:
    metrics = metrics_of_trainer(VALUES)
    expected = subsets.mean_with_errors(VALUES[source], k)
    parts = ("mean", "error", "within") if 2 * k <= 4 else ("mean", "error")
    found = [metrics[f"val-aux/{source}/acc/pass@{k}/{part}"] for part in parts]
    assert found == pytest.approx(expected[: len(parts)])
    assert metrics[f"val-aux/{source}/reward/max@{k}/mean"] == pytest.approx(expected[0] - 0.5)
    assert metrics["val-core/a/acc/mean@4"] == 0.5  # verl's own are there


def test_graded_values_have_no_pass_at_k() -> None:
    metrics = metrics_of_trainer({"a": [[0, 0.5, 1, 0], [0, 0, 0, 1]]})
    assert not any("pass@" in name for name in metrics)
    assert "val-aux/a/reward/max@2/mean" in metrics


def test_a_lost_response_counts_as_wrong_where_verl_says_how_many_there_should_be() -> None:
    rows = [("a", "a0", 1.0), ("a", "a0", None), ("a", "a1", 0.0), ("c", "c0", None)]
    counts = {("a", "a0"): 3, ("c", "c0"): 1}
    assert verl_validation.groups_of(rows, counts) == {"a": [[1.0, 0.0, 0.0], [0.0]]}


@pytest.mark.parametrize(("variable", "value"), [("reward", np.nan), ("acc", np.inf)])
def test_a_value_that_is_not_finite_is_one_line_that_names_its_response(
    variable: str, value: float
) -> None:
    sources = ["a", "a", "b", "b"]
    uids = ["a0", "a0", "b0", "b0"]
    infos = {"reward": [0.0, 1.0, 0.0, 1.0], "acc": [0.0, 1.0, 0.0, 1.0]}
    infos[variable][2] = value
    message = f"{variable} of response 2 is {value}, to prompt b0 of b; allowed: a finite number"
    trainer: Any = ray_trainer.RayPPOTrainer
    with pytest.raises(InputError, match=message):
        trainer._val_metrics_update(None, sources, uids, infos, [])


def test_a_verl_with_other_metrics_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def renamed(*_: Any) -> dict[str, Any]:
        return {"known": {"acc": {"avg@4": 0.5}}}

    monkeypatch.setattr(verl_validation, "_process", renamed)
    message = r"gives \{'avg@4': 0.5\} for two prompts with 1 and 3 of 4 .*; expected: mean@4 = 0.5"
    with pytest.raises(InputError, match=message):
        verl_validation.require_known_metrics()
