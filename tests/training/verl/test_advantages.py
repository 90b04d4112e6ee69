"""The objectives in any installation of verl: two config keys select one."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from rspo.core.errors import InputError
from rspo.objectives import OBJECTIVES, response_weights
from rspo.training.verl.advantages import estimator_name, token_advantages
from rspo.training.verl.interface import require_version
from tests.support import ROOT

# The steps of a user's verl from config keys to advantages, without any import of rspo.
VERL_SCRIPT = """
import json, sys
import numpy as np, torch
from hydra import compose, initialize_config_module
from verl import DataProto
from verl.trainer.ppo.v1.utils import compute_advantage_for_multi_trajectories

batches = json.load(sys.stdin)
results = []
for batch in batches:
    with initialize_config_module("verl.trainer.config", version_base=None):
        config = compose("ppo_trainer", overrides=batch["overrides"])
    rewards = torch.zeros(batch["mask_shape"])
    mask = torch.zeros(batch["mask_shape"])
    for row, (length, reward) in enumerate(zip(batch["lengths"], batch["rewards"])):
        mask[row, :length] = 1
        rewards[row, length - 1] = reward
    data = DataProto.from_dict(
        tensors={"token_level_rewards": rewards, "response_mask": mask},
        non_tensors={"uid": np.array(batch["uids"], dtype=object)},
    )
    data = compute_advantage_for_multi_trajectories(
        data,
        batch_keys=[f"{uid}_{row}_0" for row, uid in enumerate(batch["uids"])],
        adv_estimator=config.algorithm.adv_estimator,
        config=config.algorithm,
    )
    results.append(data.batch["advantages"].tolist())
print("RESULT", json.dumps(results))
"""


@pytest.fixture
def installed(tmp_path: Path) -> dict[str, str]:
    """Environment variables of a Python that has this checkout installed, with its entry points."""
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    ((name, target),) = project["entry-points"]["verl.plugins"].items()
    metadata = tmp_path / "rspo_checkout-0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: rspo-checkout\nVersion: 0\n")
    (metadata / "entry_points.txt").write_text(f"[verl.plugins]\n{name} = {target}\n")
    return os.environ | {"PYTHONPATH": os.pathsep.join((str(tmp_path), str(ROOT)))}


def through_verl(environment: dict[str, str], batches: list[dict[str, Any]]) -> list[Any]:
    done = subprocess.run(
        [sys.executable, "-c", VERL_SCRIPT],
        input=json.dumps(batches),
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    results = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    assert results, done.stderr[-3000:]
    advantages: list[Any] = json.loads(results[0].removeprefix("RESULT "))
    return advantages


@pytest.mark.ci
@pytest.mark.promise(
    "install this package and set `algorithm.adv_estimator=rspo_pass_at_k`, `+algorithm.rspo_k=4`"
)
def test_two_config_keys_are_enough(installed: dict[str, str]) -> None:
    """Two prompts with their responses interleaved, as after verl's balancing."""
    uids = ["a", "b", "b", "a", "a", "b", "b", "a"]
    common = {"uids": uids, "lengths": [1, 2, 3, 3, 2, 1, 1, 3], "mask_shape": [8, 3]}
    # Prompt a has 2 of 4 correct: (k/n) * C(2,1)/C(3,1) = 1/3 for k = 2, times n: 4/3.
    # Prompt b has 1 of 4 correct: (2/4) * C(3,1)/C(3,1), times n: 2.
    pass_at_2 = {
        "overrides": ["algorithm.adv_estimator=rspo_pass_at_k", "+algorithm.rspo_k=2"],
        "rewards": [1, 0, 1, 1, 0, 0, 0, 0],
    }
    # (R - mean) / std of 1, 1, 0, 0 and of 0, 1, 0, 0; the deviation with n - 1.
    grpo = {"overrides": ["algorithm.adv_estimator=rspo_grpo"], "rewards": pass_at_2["rewards"]}
    stock_grpo = grpo | {"overrides": ["algorithm.adv_estimator=grpo"]}
    actual, own_grpo, their_grpo = through_verl(
        installed, [common | pass_at_2, common | grpo, common | stock_grpo]
    )
    expected = np.zeros((8, 3))
    expected[0, :1] = expected[3, :3] = 4 / 3
    expected[2, :3] = 2
    np.testing.assert_allclose(actual, expected, rtol=1e-6)
    np.testing.assert_allclose(own_grpo, their_grpo, rtol=1e-5, atol=1e-6)


def test_another_version_of_verl_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "verl", SimpleNamespace(__version__="0.10.0"))
    with pytest.raises(InputError, match=r"found verl 0\.10\.0; rspo supports verl 0\.9\.1"):
        require_version()


@pytest.mark.parametrize("objective", [o for o in OBJECTIVES if o != "hitchhiking"])
def test_advantages_are_n_times_the_weights(objective: str) -> None:
    rewards = torch.tensor([[1.0, 0, 0, 1], [0, 0, 1, 0], [0, 0, 0, 0]])
    mask = torch.ones(12, 2)
    token_rewards = torch.stack((torch.zeros(12), rewards.flatten()), dim=1)
    index = np.repeat(np.array(["a", "b", "c"], dtype=object), 4)
    advantages, returns = token_advantages(objective, token_rewards, mask, index, {"rspo_k": 3})
    weights = response_weights(rewards.double(), objective, 3)
    torch.testing.assert_close(advantages[:, 0].double(), 4 * weights.flatten())
    assert torch.equal(advantages[:, 0], advantages[:, 1])
    assert torch.equal(advantages, returns)


def test_a_split_into_groups_does_not_depend_on_the_order_of_the_batch() -> None:
    """In sorted order, both correct responses would be in one group."""
    uids = [f"prompt-{number}" for number in range(300)]
    index = np.repeat(np.array(uids, dtype=object), 4)
    rewards = torch.tensor([1.0, 1, 0, 0]).repeat(300)[:, None]
    advantages, _ = token_advantages(
        "hitchhiking", rewards, torch.ones(1200, 1), index, {"rspo_k": 2}
    )
    # Pass@2 of this prompt is 1 - C(2,2)/C(4,2) = 5/6; in sorted order the estimate is 1/2.
    estimate = advantages.view(300, 4).mean(dim=1) / 2
    assert float(estimate.mean()) == pytest.approx(5 / 6, abs=0.04)


def test_padding_of_the_batch_belongs_to_no_prompt() -> None:
    index = np.array(["a", "a", "a"], dtype=object)
    mask = torch.tensor([[1.0, 1], [1, 0], [0, 0]])
    rewards = torch.tensor([[0.0, 1], [0, 0], [0, 0]])
    advantages, _ = token_advantages("rspo_pass_at_k", rewards, mask, index, {"rspo_k": 2})
    assert advantages.tolist() == [[2, 2], [0, 0], [0, 0]]


@pytest.mark.parametrize(
    ("objective", "config", "rewards", "uids", "message"),
    [
        ("rspo_pass_at_k", {}, [1, 0], "aa", r"needs its k: set \+algorithm\.rspo_k"),
        ("hitchhiking", {}, [1, 0], "aa", "algorithm.adv_estimator=rspo_hitchhiking needs its k"),
        ("rspo_pass_at_k", {"rspo_k": 4}, [1, 0], "aa", "cannot use k = 4 with n = 2"),
        ("rspo_pass_at_k", {"rspo_k": "2"}, [1, 0], "aa", "k must be an integer, got '2'"),
        ("rspo_pass_at_k", {"rspo_k": 2}, [0.5, 0], "aa", "must be 0 or 1, got 0.5"),
        ("hitchhiking", {"rspo_k": 2}, [1, 0, 1], "aaa", "k divides n"),
        ("rspo_pass_at_k", {"rspo_k": 2}, [1, 0, 1], "aab", "have 1 and 2 responses"),
    ],
)
def test_bad_input_is_one_clear_error(
    objective: str, config: dict[str, Any], rewards: list[float], uids: str, message: str
) -> None:
    token_rewards = torch.tensor(rewards, dtype=torch.float32)[:, None]
    index = np.array(list(uids), dtype=object)
    with pytest.raises(InputError, match=message) as error:
        token_advantages(objective, token_rewards, torch.ones(len(uids), 1), index, config)
    assert "\n" not in str(error.value)
    assert estimator_name(objective) in str(error.value) or "responses; allowed" in str(error.value)
