"""The reward function in verl itself, with the settings of the page.

tests/upstream/test_verl_recipe.py trains with them.
"""

import asyncio
import shlex
from typing import Any

import numpy as np
import torch
from hydra import compose, initialize_config_module

from tests.support import ROOT
from tests.support.attacks import boxed
from tests.support.pages import code_of

PAGE = ROOT / "docs" / "verify_while_training.md"
HANGS = boxed("10^{10^{10}}")


def of_page() -> list[str]:
    """The settings of the page's command."""
    command = code_of(PAGE, "verl", "bash").replace("\\\n", " ").replace("...", "")
    words = shlex.split(command)
    assert words[:3] == ["python", "-m", "verl.trainer.main_ppo"]
    return words[3:]


def test_rewards_of_the_reward_manager_have_reasons_and_none_hangs() -> None:
    """verl calls the function in threads of its event loop, for all responses at once."""
    from verl import DataProto
    from verl.trainer.ppo.reward import load_reward_manager

    texts = [HANGS, boxed("0.5"), boxed("8"), "It is 7."]
    reasons = ["timeout", "correct", "incorrect", "no answer"]

    class Tokenizer:
        def decode(self, ids: torch.Tensor, **_: Any) -> str:
            return texts[int(ids[0])]

    def row(number: int) -> DataProto:
        tensors = {"responses": torch.tensor([[number]]), "attention_mask": torch.ones(1, 2).long()}
        truth = [{"ground_truth": r"\frac{1}{2}"}]
        columns = {"data_source": ["sums"], "reward_model": truth, "extra_info": [{}]}
        arrays = {name: np.array(column, dtype=object) for name, column in columns.items()}
        return DataProto.from_dict(tensors=tensors, non_tensors=arrays)

    with initialize_config_module("verl.trainer.config", version_base=None):
        kwargs = "+reward.custom_reward_function.reward_kwargs"
        slow = [f"{kwargs}.verifier=math_verify", f"{kwargs}.time_limit=1.0"]
        config = compose("ppo_trainer", overrides=[*of_page(), *slow])

    async def rewards() -> list[dict[str, Any]]:
        manager = load_reward_manager(config, Tokenizer())
        return await asyncio.gather(*(manager.run_single(row(i)) for i in range(len(texts))))

    found = asyncio.run(rewards())
    assert [one["reward_score"] for one in found] == [0.0, 1.0, 0.0, 0.0]
    assert [one["reward_extra_info"]["reason"] for one in found] == reasons
