"""Pass@k in the evaluations of TRL itself; test_trl.py and `make test-trainers` run this."""

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import trl

from examples.trl_bandit import questions, small_model, tokenizer_of_words
from rspo.adapters.trl_pass_at_k import PassAtKCallback
from rspo.core.errors import InputError
from tests.adapters.trl_contract import PROMPTS, N, score
from tests.support import subsets

EVALUATED = 5  # prompts, of which a batch has 4


def right(completions: list[str], **_: object) -> list[float]:
    return [float("red" in text) for text in completions]


def kept(function: Any, values: list[float]) -> Any:
    """The function, which also appends its rewards to a list, independently of the callback."""

    def keep(*args: Any, **kwargs: Any) -> list[float]:
        found: list[float] = function(*args, **kwargs)
        values.extend(found)
        return found

    keep.__name__ = function.__name__
    return keep


def trainer_of(folder: Path, functions: list[Any], **changed: Any) -> trl.GRPOTrainer:
    """A GRPOTrainer of TRL, without any class of rspo."""
    settings = {
        "num_generations": N,
        "per_device_train_batch_size": PROMPTS * N,
        "per_device_eval_batch_size": 4 * N,
        "gradient_accumulation_steps": 1,
        "max_completion_length": 3,
        "bf16": False,
        "use_cpu": True,
        "gradient_checkpointing": False,
        "report_to": "none",
    }
    tokenizer = tokenizer_of_words()
    return trl.GRPOTrainer(
        model=small_model(tokenizer),
        reward_funcs=functions,
        processing_class=tokenizer,
        train_dataset=questions(PROMPTS),
        eval_dataset=changed.pop("eval_dataset", questions(EVALUATED)),
        args=trl.GRPOConfig(output_dir=str(folder), **(settings | changed)),
    )


def test_an_evaluation_logs_estimates_of_all_prompts_with_errors(tmp_path: Path) -> None:
    of_right: list[float] = []
    of_score: list[float] = []
    functions = [kept(right, of_right), kept(score, of_score)]
    trainer = trainer_of(tmp_path, functions, reward_weights=[1.0, 0.5])
    trainer.add_callback(PassAtKCallback(trainer, [1, 2, 3], "right"))
    for _ in range(2):  # rewards of the first evaluation have no effect on the second
        of_right.clear()
        of_score.clear()
        metrics = trainer.evaluate()
        correct = np.array(of_right)[: EVALUATED * N]
        assert 0 < correct.mean() < 1
        total = correct + 0.5 * np.array(of_score)[: EVALUATED * N]
        for name, values in (("pass", correct), ("max", total)):
            for k in (1, 2, 3):
                expected = subsets.mean_with_errors(values.reshape(-1, N).tolist(), k)
                keys = [f"eval_{name}@{k}{end}" for end in ("", "_error", "_within")]
                if 2 * k > N:
                    assert keys.pop() not in metrics
                found = [metrics[key] for key in keys]
                assert found == pytest.approx(expected[: len(keys)], rel=1e-5, abs=1e-7)
                assert found == [trainer.state.log_history[-1][key] for key in keys]


def mean_reward(trainer: trl.GRPOTrainer) -> float:
    """TRL's own mean reward of the last evaluation, which old versions log and do not return."""
    rewards = [row["eval_reward"] for row in trainer.state.log_history if "eval_reward" in row]
    return float(rewards[-1])


def test_reward_functions_of_one_name_are_told_apart(tmp_path: Path) -> None:
    def of_value(value: float) -> Any:
        def reward(completions: list[str], **_: object) -> list[float]:
            return [value] * len(completions)

        return reward

    trainer = trainer_of(tmp_path, [of_value(1.0), of_value(10.0)])
    assert trainer.reward_func_names == ["reward", "reward"]
    with pytest.raises(
        InputError, match="correct='reward' is the name of several reward functions"
    ):
        PassAtKCallback(trainer, [1], "reward")
    trainer.add_callback(PassAtKCallback(trainer, [1]))
    assert trainer.evaluate()["eval_max@1"] == 11.0
    assert mean_reward(trainer) == 11.0


def test_an_evaluation_that_ended_with_an_error_is_not_counted(tmp_path: Path) -> None:
    fails = [True]
    rewards = iter([0.0, 1.0, 1.0])  # of the first batch, and of both batches of the second try

    def reward(completions: list[str], **_: object) -> list[float]:
        if fails and len(completions) < 4 * N:
            fails.clear()
            raise RuntimeError("stopped")
        return [next(rewards)] * len(completions)

    trainer = trainer_of(tmp_path, [reward])
    trainer.add_callback(PassAtKCallback(trainer, [1], "reward"))
    with pytest.raises(RuntimeError, match="stopped"):
        trainer.evaluate()
    assert trainer.evaluate()["eval_pass@1"] == 1.0


class Later:
    """A reward function that is an object with an `async def __call__`."""

    __name__ = "later"

    async def __call__(self, completions: list[str], **_: object) -> torch.Tensor:
        return torch.ones(len(completions))


async def later(completions: list[str], **_: object) -> list[float]:
    return [1.0] * len(completions)


def all_right(completions: list[str], **_: object) -> Any:
    yield from [1.0] * len(completions)


@pytest.mark.parametrize("function", [later, all_right])
def test_rewards_may_come_later_or_one_by_one(tmp_path: Path, function: Any) -> None:
    trainer = trainer_of(tmp_path, [function])
    trainer.add_callback(PassAtKCallback(trainer, [1], function.__name__))
    assert trainer.evaluate()["eval_pass@1"] == 1.0
    assert mean_reward(trainer) == 1.0


def test_an_object_may_be_a_reward_function_that_returns_a_tensor_later(tmp_path: Path) -> None:
    """Not all versions of TRL accept one, so only the callback calls it."""
    trainer = trainer_of(tmp_path, [right])
    trainer.reward_funcs = [Later()]
    trainer.reward_func_names = ["later"]
    PassAtKCallback(trainer, [1], "later")
    assert asyncio.run(trainer.reward_funcs[0](completions=["red", "blue"])) == [1.0, 1.0]


def test_training_between_evaluations_is_not_counted(tmp_path: Path) -> None:
    of_right: list[float] = []
    trainer = trainer_of(
        tmp_path,
        [kept(right, of_right)],
        max_steps=2,
        eval_strategy="steps",
        eval_steps=2,
        save_strategy="no",
    )
    trainer.add_callback(PassAtKCallback(trainer, [1], "right"))
    trainer.train()
    logged = [row["eval_pass@1"] for row in trainer.state.log_history if "eval_pass@1" in row]
    assert len(of_right) > 2 * PROMPTS * N
    evaluated = of_right[2 * PROMPTS * N :][: EVALUATED * N]
    assert logged == [pytest.approx(np.mean(evaluated))]


def test_prompts_without_a_reward_are_left_out_and_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def some(completions: list[str], answer: list[str], **_: object) -> list[float | None]:
        return [None if word == "red" else 1.0 for word in answer]

    trainer = trainer_of(tmp_path, [some, right], eval_dataset=questions(9))
    without = list(trainer.eval_dataset["answer"]).count("red")
    assert 0 < without < 9
    trainer.add_callback(PassAtKCallback(trainer, [1], "some"))
    metrics = trainer.evaluate()
    assert metrics["eval_pass@1"] == 1.0
    assert metrics["eval_pass_left_out"] == without
    assert metrics["eval_max_left_out"] == 0  # the other function has a reward for each
    lines = [line for line in caplog.messages if "prompts" in line]
    whole = 9 - without
    expected = f"pass@k is of {whole} of 9 prompts: the others have a response without a reward"
    assert lines == [expected]


def test_the_best_checkpoint_may_be_that_of_pass_at_k(tmp_path: Path) -> None:
    trainer = trainer_of(
        tmp_path,
        [right],
        max_steps=2,
        eval_strategy="steps",
        eval_steps=1,
        save_strategy="best",
        metric_for_best_model="pass@2",
    )
    trainer.add_callback(PassAtKCallback(trainer, [2], "right"))
    trainer.train()
    logged = [row["eval_pass@2"] for row in trainer.state.log_history if "eval_pass@2" in row]
    assert len(logged) == 2
    assert trainer.state.best_metric == max(logged)


@pytest.mark.parametrize(
    ("ks", "correct", "message"),
    [
        ([5], None, r"ks=\[5\]: .*k = 5 with n = 4"),
        ([1], "wrong", "correct='wrong' is no reward function: right, score"),
    ],
)
def test_a_wrong_argument_is_one_line(
    tmp_path: Path, ks: list[int], correct: str | None, message: str
) -> None:
    trainer = trainer_of(tmp_path, [right, score])
    with pytest.raises(InputError, match=message):
        PassAtKCallback(trainer, ks, correct)


def test_a_reward_model_is_refused(tmp_path: Path) -> None:
    trainer = trainer_of(tmp_path, [right])
    trainer.reward_funcs = [torch.nn.Linear(1, 1)]
    with pytest.raises(InputError, match="right is a model; PassAtKCallback keeps rewards of"):
        PassAtKCallback(trainer, [1])


def test_pass_at_k_of_other_rewards_than_0_and_1_is_an_error(tmp_path: Path) -> None:
    trainer = trainer_of(tmp_path, [score])
    trainer.add_callback(PassAtKCallback(trainer, [1], "score"))
    with pytest.raises(InputError, match="rewards of score must be 0 or 1"):
        trainer.evaluate()
