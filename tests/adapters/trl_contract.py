"""The adapter for TRL against TRL itself; tests/adapters/test_trl.py runs this where TRL is."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import trl

from examples.trl_bandit import correct, questions, small_model, tokenizer_of_words
from rspo.adapters.trl import RSPOTrainer
from rspo.adapters.trl_reward import accuracy_reward
from rspo.core.errors import InputError
from rspo.objectives import OBJECTIVES, policy_loss, response_weights

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


def test_accuracy_reward_logs_why_each_response_is_wrong(tmp_path: Path) -> None:
    problems = questions(PROMPTS).add_column("solution", ["7"] * PROMPTS)
    trainer = trainer_of(tmp_path, "rspo_pass_at_k", reward_funcs=accuracy_reward)
    trainer.train_dataset = problems
    trainer.model.train()
    trainer._generate_and_score_completions(next(iter(trainer.get_train_dataloader())))
    assert set(trainer._logs["extra"]["verdict"]) == {"no answer"}
    assert set(trainer._logs["rewards"]["accuracy_reward"]) == {0.0}
