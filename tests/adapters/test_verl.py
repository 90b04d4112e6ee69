"""The reward function and the validation metrics in verl itself, with the settings of the page.

tests/integrations/test_verl_recipe.py trains with them.
"""

import asyncio
import json
import os
import shlex
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch
from hydra import compose, initialize_config_module

from tests.support import ROOT, subsets
from tests.support.attacks import boxed
from tests.support.pages import code_of

PAGE = ROOT / "docs" / "verify_while_training.md"
MODULES = "VERL_USE_EXTERNAL_MODULES"
HANGS = boxed("10^{10^{10}}")


def of_page() -> tuple[str, list[str]]:
    """The module and the settings of the page's command."""
    command = code_of(PAGE, "verl", "bash").replace("\\\n", " ").replace("...", "")
    variable, *words = shlex.split(command)
    name, _, module = variable.partition("=")
    assert name == MODULES
    assert words[:3] == ["python", "-m", "verl.trainer.main_ppo"]
    return module, words[3:]


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
        config = compose("ppo_trainer", overrides=[*of_page()[1], *slow])

    async def rewards() -> list[dict[str, Any]]:
        manager = load_reward_manager(config, Tokenizer())
        return await asyncio.gather(*(manager.run_single(row(i)) for i in range(len(texts))))

    found = asyncio.run(rewards())
    assert [one["reward_score"] for one in found] == [0.0, 1.0, 0.0, 0.0]
    assert [one["reward_extra_info"]["reason"] for one in found] == reasons


# Two data sources; the third prompt of the second has lost a response.
VALUES = {"a": [[0, 1, 0, 0], [1, 1, 0, 1]], "b": [[0, 0, 0, 1], [0, 0, 0, 0], [1, 0, 1]]}
METRICS = """
import json, sys
from verl.trainer.ppo.v1.trainer_base import PPOTrainer
rows, expected = json.load(sys.stdin)
sources, uids, acc = zip(*rows)
infos = {"reward": [value - 0.5 for value in acc], "acc": list(acc), "reason": ["?"] * len(acc)}
counts = {tuple(prompt): count for prompt, count in expected}
metrics = PPOTrainer._val_metrics_update(None, sources, uids, infos, [], expected_acc_counts=counts)
print(json.dumps({name: float(value) for name, value in metrics.items()}))
"""


@pytest.fixture(scope="module")
def metrics() -> dict[str, float]:
    """Of verl's trainer, in a process that starts as the page says."""
    prompts = [
        (source, f"{source}{number}", group)
        for source, groups in VALUES.items()
        for number, group in enumerate(groups)
    ]
    rows = [(source, uid, value) for source, uid, group in prompts for value in group]
    expected = [((source, uid), 4) for source, uid, _ in prompts]
    done = subprocess.run(
        [sys.executable, "-c", METRICS],
        input=json.dumps([rows, expected]),
        # Without what verl's config check of another test has set in this process.
        env={key: value for key, value in os.environ.items() if key != "VERL_PLATFORM"}
        | {MODULES: of_page()[0]},
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result


@pytest.mark.parametrize("source", VALUES)
@pytest.mark.parametrize("k", [2, 4])
def test_validation_metrics_have_pass_at_k_with_errors(
    metrics: dict[str, float], source: str, k: int
) -> None:
    whole = [group + [0] * (4 - len(group)) for group in VALUES[source]]
    expected = subsets.mean_with_errors(whole, k)
    parts = ("mean", "error", "within") if 2 * k <= 4 else ("mean", "error")
    keys = [f"val-aux/{source}/acc/pass@{k}/{part}" for part in parts]
    assert [metrics[key] for key in keys] == pytest.approx(expected[: len(parts)])


def test_max_at_k_of_the_reward_leaves_lost_responses_out(metrics: dict[str, float]) -> None:
    given = [[value - 0.5 for value in group] for group in VALUES["b"]]
    expected = np.mean([subsets.mean_with_errors([group] * 2, 3)[0] for group in given])
    assert metrics["val-aux/b/reward/max@3/mean"] == pytest.approx(expected)
    assert metrics["val-core/a/acc/mean@4"] == 0.5  # verl's own are there
