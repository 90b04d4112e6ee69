"""The estimators in the locked version of verl, found through two config keys."""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.adapters import own_environment
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


@pytest.mark.ci
def test_the_contract_with_verl() -> None:
    own_environment.run_tests(
        Path(sys.executable),
        "tests/adapters/verl_contract.py",
        VERL_USE_EXTERNAL_MODULES="rspo.adapters.verl_estimators,rspo.adapters.verl_validation",
    )
