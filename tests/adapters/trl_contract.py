"""The adapter for TRL against TRL itself; tests/adapters/test_trl.py runs this where TRL is."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import trl

from examples.trl_bandit import correct, questions, small_model, tokenizer_of_words
from rspo.adapters import trl as adapter
from rspo.adapters import versions
from rspo.adapters.trl import RSPOTrainer
from rspo.adapters.trl_reward import accuracy_reward
from rspo.core.errors import InputError
from rspo.objectives import OBJECTIVES, policy_loss, response_weights
from rspo.objectives.objective import KRule, Objective

PROMPTS, N, TOKENS = 6, 4, 3


def score(completions: list[str], answer: list[str], **_: object) -> list[float]:
    """Continuous and negative rewards, with ties."""
    rights = correct(completions, answer)
    return [right + 0.3 * len(text) - 1 for right, text in zip(rights, completions, strict=True)]


def trainer_of(folder: Path, objective: str, k: int | None = 2, **changed: Any) -> RSPOTrainer:
    settings = {
        "loss_type": "dr_grpo",
        "scale_rewards": "none",
        "num_generations": N,
        "per_device_train_batch_size": PROMPTS * N,
        "gradient_accumulation_steps": 1,
        "max_completion_length": TOKENS,
        "bf16": False,
        "use_cpu": True,
        "gradient_checkpointing": False,
        "report_to": "none",
    }
    reward = correct if objective in OBJECTIVES and OBJECTIVES[objective].binary else score
    tokenizer = tokenizer_of_words()
    return RSPOTrainer(
        model=small_model(tokenizer),
        reward_funcs=changed.pop("reward_funcs", reward),
        processing_class=tokenizer,
        train_dataset=questions(PROMPTS),
        objective=objective,
        k=k,
        args=trl.GRPOConfig(output_dir=str(folder), **(settings | changed)),
    )


def gradient(trainer: RSPOTrainer) -> torch.Tensor:
    parameters = [p for p in trainer.model.parameters() if p.requires_grad]
    return torch.cat([p.grad.flatten() for p in parameters]).double()


def log_probs_of(model: Any, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    """log pi of each response token, (P n, tokens), without any code of TRL."""
    ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], dim=1)
    mask = torch.cat([batch["prompt_mask"], batch["completion_mask"]], dim=1)
    logits = model(input_ids=ids, attention_mask=mask).logits[:, :-1].log_softmax(-1)
    tokens = logits.gather(-1, ids[:, 1:, None])[..., 0]
    return tokens[:, -batch["completion_ids"].shape[1] :]


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_the_gradient_is_that_of_policy_loss(tmp_path: Path, objective: str, parts: int) -> None:
    """On responses that TRL sampled, whole or in two parts whose gradients TRL accumulates."""
    size = PROMPTS * N // parts
    trainer = trainer_of(
        tmp_path, objective, per_device_train_batch_size=size, gradient_accumulation_steps=parts
    )
    trainer.model.train()
    trainer.current_gradient_accumulation_steps = parts  # Trainer sets it before the first batch
    rows = next(iter(trainer.get_train_dataloader()))
    batch = trainer._generate_and_score_completions(rows)

    answers = [row["answer"] for row in rows]
    texts = trainer.processing_class.batch_decode(batch["completion_ids"], skip_special_tokens=True)
    rewards = np.array(trainer.reward_funcs[0](texts, answers)).reshape(PROMPTS, N)
    assert rewards.std() > 0
    shape = (PROMPTS, N, -1)
    loss = policy_loss(
        log_probs_of(trainer.model, batch).view(shape),
        batch["completion_mask"].view(shape),
        response_weights(rewards, objective, 2),
        max_tokens=TOKENS,
    )
    loss.backward()
    expected = gradient(trainer)

    trainer.model.zero_grad()
    order = torch.randperm(PROMPTS * N)  # TRL shuffles responses before it splits a batch
    for part in order.chunk(parts):
        rows_of_part = {
            name: value[part] if torch.is_tensor(value) and value.ndim else value
            for name, value in batch.items()
        }
        trainer.compute_loss(trainer.model, rows_of_part).backward()
    assert expected.norm() > 0
    assert (gradient(trainer) - expected).norm() <= 1e-5 * expected.norm()
    logged = torch.tensor(list(trainer._logs["advantages"]))
    torch.testing.assert_close(logged, batch["advantages"])


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"loss_type": "dapo"}, "loss_type='dapo' of GRPOConfig; allowed: 'dr_grpo'"),
        ({"scale_rewards": "group"}, "scale_rewards='group' of GRPOConfig; allowed: 'none'"),
        ({"beta": 0.04}, "beta=0.04 of GRPOConfig; allowed: 0.0"),
        ({"use_liger_kernel": True}, "use_liger_kernel=True of GRPOConfig; allowed: False"),
        ({"num_generations": 2, "k": 3}, "k=3, num_generations=2: .* cannot use k = 3 with n = 2"),
        ({"k": None}, "k=None, num_generations=4: rspo_pass_at_k needs a k"),
        ({"objective": "pass_at_k"}, "unknown objective 'pass_at_k'; did you mean rspo_pass_at_k"),
    ],
)
def test_a_wrong_setting_is_one_line(tmp_path: Path, changed: dict[str, Any], message: str) -> None:
    arguments = {"objective": "rspo_pass_at_k", "k": 2} | changed
    with pytest.raises(InputError, match=message) as error:
        trainer_of(tmp_path, **arguments)
    assert "\n" not in str(error.value)


def test_a_response_without_a_reward_is_an_error(tmp_path: Path) -> None:
    def none(completions: list[str], **_: object) -> list[None]:
        return [None] * len(completions)

    trainer = trainer_of(tmp_path, "rspo_max_at_k", reward_funcs=none)
    trainer.model.train()
    with pytest.raises(InputError, match="reward_funcs: rewards must be finite, got nan at index"):
        trainer._generate_and_score_completions(next(iter(trainer.get_train_dataloader())))


def half(completions: list[str], **_: object) -> list[float]:
    return [0.5 * (i % 2) for i in range(len(completions))]


def one_or_two(completions: list[str], **_: object) -> list[float]:
    return [1.0 + i % 2 for i in range(len(completions))]


def first_batch(trainer: RSPOTrainer) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The rows of the first batch, and the batch that the trainer makes of them."""
    trainer.model.train()
    rows = next(iter(trainer.get_train_dataloader()))
    return rows, trainer._generate_and_score_completions(rows)


@pytest.mark.parametrize(("function", "got"), [(half, "got 0.5"), (one_or_two, "got 2.0")])
def test_other_rewards_than_0_and_1_are_an_error_of_pass_at_k(
    tmp_path: Path, function: Any, got: str
) -> None:
    trainer = trainer_of(tmp_path, "rspo_pass_at_k", reward_funcs=function)
    with pytest.raises(InputError, match=f"rewards of rspo_pass_at_k must be 0 or 1, {got}"):
        first_batch(trainer)


@pytest.mark.parametrize("objective", ["rspo_pass_at_k", "rspo_max_at_k", "grpo"])
def test_objectives_of_differences_need_only_what_trl_supports(
    tmp_path: Path, objective: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(RSPOTrainer, "_calculate_rewards")  # as if TRL had no such method
    trainer = trainer_of(tmp_path, objective)
    rows, batch = first_batch(trainer)
    answers = [row["answer"] for row in rows]
    texts = trainer.processing_class.batch_decode(batch["completion_ids"], skip_special_tokens=True)
    rewards = np.array(trainer.reward_funcs[0](texts, answers)).reshape(PROMPTS, N)
    assert rewards.std() > 0
    expected = N * response_weights(rewards, objective, 2)
    found = batch["advantages"].view(PROMPTS, N)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-4, atol=1e-5)


def test_an_objective_of_rewards_is_one_line_where_they_are_not_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(RSPOTrainer, "_calculate_rewards")
    trainer = trainer_of(tmp_path, "policy_gradient")
    with pytest.raises(InputError, match="has no _calculate_rewards, which policy_gradient needs"):
        first_batch(trainer)


def test_rewards_of_0_and_1_are_seen_in_their_differences(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(RSPOTrainer, "_calculate_rewards")
    trainer = trainer_of(tmp_path, "rspo_pass_at_k", reward_funcs=half)
    with pytest.raises(InputError, match=r"must be 0 or 1, got two that differ by 0\.5"):
        first_batch(trainer)


def of_square_roots(rewards: np.ndarray, k: int) -> np.ndarray:
    """Weights that depend on differences of square roots; negative rewards are refused."""
    if (rewards < 0).any():
        raise ValueError(f"rewards must not be negative, got {rewards.min()}")
    roots = np.sqrt(rewards)
    return (roots - roots.mean(axis=-1, keepdims=True)) / rewards.shape[-1]


def of_positive_parts(rewards: np.ndarray, k: int) -> np.ndarray:
    """Weights that depend on differences of rewards, where no reward is negative."""
    parts = np.maximum(rewards, 0)
    return (parts - parts.mean(axis=-1, keepdims=True)) / rewards.shape[-1]


@pytest.mark.parametrize("function", [of_square_roots, of_positive_parts])
def test_weights_that_change_with_a_constant_are_made_of_the_rewards(
    tmp_path: Path, function: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(OBJECTIVES, "own", Objective("own", function, KRule.NONE))
    assert not adapter.depends_on_differences("own", None, N)
    trainer = trainer_of(tmp_path, "own", k=None, reward_funcs=one_or_two)
    _, batch = first_batch(trainer)
    rewards = np.tile([1.0, 2.0], (PROMPTS, N // 2))
    expected = N * function(rewards, 1)
    np.testing.assert_allclose(batch["advantages"].view(PROMPTS, N).numpy(), expected, atol=1e-6)


def test_negative_rewards_that_an_objective_refuses_are_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(OBJECTIVES, "own", Objective("own", of_square_roots, KRule.NONE))
    trainer = trainer_of(tmp_path, "own", k=None, reward_funcs=score)
    with pytest.raises(InputError, match=r"reward_funcs: .*rewards must not be negative, got -"):
        first_batch(trainer)


def test_which_objectives_depend_on_differences_only() -> None:
    """A constant c adds k c/n to PKPO's s, and k c/(n-1) to its baseline, which is another one."""
    without = {"policy_gradient", "hitchhiking", "pkpo_s", "pkpo_s_loo", "maxrl_uncentred"}
    assert not any(adapter.depends_on_differences(name, 2, N) for name in without)
    with_differences = {"rspo_pass_at_k", "rspo_max_at_k", "grpo", "maxpo"}
    assert all(adapter.depends_on_differences(name, 2, N) for name in with_differences)
    assert not adapter.depends_on_differences("rspo_max_at_k", 1, N)


@pytest.fixture
def doubled(monkeypatch: pytest.MonkeyPatch) -> None:
    """A TRL whose advantages are twice those of the tested versions."""
    original = trl.GRPOTrainer._generate_and_score_completions

    def scaled(self: Any, inputs: Any) -> dict[str, Any]:
        batch: dict[str, Any] = original(self, inputs)
        batch["advantages"] = 2 * batch["advantages"]
        return batch

    monkeypatch.setattr(trl.GRPOTrainer, "_generate_and_score_completions", scaled)


@pytest.mark.usefixtures("doubled")
def test_a_trl_with_other_advantages_is_one_line_that_names_them(tmp_path: Path) -> None:
    trainer = trainer_of(tmp_path, "rspo_max_at_k")
    message = r"trl 1\..* gives the advantages \[.*\] of the rewards \[.*\]; expected: \["
    with pytest.raises(InputError, match=message) as error:
        first_batch(trainer)
    assert "\n" not in str(error.value)


@pytest.mark.usefixtures("doubled")
def test_other_advantages_are_found_after_a_batch_of_equal_rewards(tmp_path: Path) -> None:
    """Equal rewards have the advantage 0 in every version."""
    factors = iter([0.0, 1.0])

    def reward(completions: list[str], **_: object) -> list[float]:
        factor = next(factors)
        return [factor * value for value in half(completions)]

    trainer = trainer_of(tmp_path, "rspo_max_at_k", reward_funcs=reward)
    rows, batch = first_batch(trainer)
    assert not batch["advantages"].any()
    with pytest.raises(InputError, match="gives the advantages"):
        trainer._generate_and_score_completions(rows)


@pytest.mark.parametrize("rewards", [[[0.0, 1e-5]], [[-3.0, 5.0]], [[1e5, 1e5 + 1]]])
def test_advantages_are_compared_up_to_rounding_of_the_rewards(rewards: list[list[float]]) -> None:
    given = torch.tensor(rewards)
    spread = given.max() - given.min()
    centred = torch.tensor([[-0.5, 0.5]]) * spread
    rounding = 1e-6 * given.abs().max()
    adapter.require_centred(centred + rounding, given)
    with pytest.raises(InputError, match="gives the advantages"):
        adapter.require_centred(centred + 1e3 * rounding, given)


def test_the_rounding_of_equal_rewards_is_no_other_advantage() -> None:
    adapter.require_centred(torch.full((2, 4), -7e-9), None)
    with pytest.raises(InputError, match="gives the advantages"):
        adapter.require_centred(torch.full((2, 4), -1e-3), None)


def test_only_another_version_than_the_tested_ones_gives_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer_of(tmp_path, "rspo_max_at_k")
    assert [line for line in caplog.messages if line.startswith("found trl")] == []
    monkeypatch.setattr(adapter, "VERSION", "1.99.0")
    versions._warn.cache_clear()
    for _ in range(2):
        trainer_of(tmp_path, "rspo_max_at_k")
    (message,) = [line for line in caplog.messages if line.startswith("found trl")]
    assert message.startswith("found trl 1.99.0; rspo was tested with 1.0.0, 1.10.0")


def test_a_training_of_three_steps_changes_the_policy(tmp_path: Path) -> None:
    trainer = trainer_of(
        tmp_path, "rspo_pass_at_k", max_steps=3, learning_rate=1e-2, save_strategy="no"
    )
    before = parameters_of(trainer)
    trainer.train()
    assert trainer.state.global_step == 3
    assert not torch.equal(before, parameters_of(trainer))


def parameters_of(trainer: RSPOTrainer) -> torch.Tensor:
    """All parameters of the policy, as a copy."""
    return torch.cat([p.detach().flatten() for p in trainer.model.parameters()]).clone()


def test_accuracy_reward_logs_why_each_response_is_wrong(tmp_path: Path) -> None:
    problems = questions(PROMPTS).add_column("solution", ["7"] * PROMPTS)
    trainer = trainer_of(tmp_path, "rspo_pass_at_k", reward_funcs=accuracy_reward)
    trainer.train_dataset = problems
    trainer.model.train()
    trainer._generate_and_score_completions(next(iter(trainer.get_train_dataloader())))
    assert set(trainer._logs["extra"]["verdict"]) == {"no answer"}
    assert set(trainer._logs["rewards"]["accuracy_reward"]) == {0.0}
