"""docs/upstream/verl-recipe: its estimator, its data and its script."""

import importlib
import json
import os
import re
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest
import torch
from omegaconf import DictConfig, OmegaConf

from rspo.objectives import assert_unbiased
from tests.adapters.test_verl import of_page as settings_of_page
from tests.support import ROOT, exact, hub_model

RECIPE = ROOT / "docs" / "upstream" / "verl-recipe"
HUB_ID = "DigitalLearningGmbH/MATH-lighteval"


@pytest.fixture(scope="module")
def recipe() -> ModuleType:
    sys.path.insert(0, str(RECIPE))
    try:
        return importlib.import_module("rspo_advantage")
    finally:
        sys.path.remove(str(RECIPE))


def test_advantages_are_n_times_the_marginal_contributions(recipe: ModuleType) -> None:
    rng = np.random.default_rng(0)
    for n in range(1, 8):
        for rewards in (rng.integers(-2, 3, n) / 2, rng.integers(0, 2, n)):
            for k in range(1, n + 1):
                found = recipe.rspo_advantages(torch.tensor(rewards, dtype=torch.float64), k)
                expected = exact.marginal_contributions([Fraction(r) for r in rewards.tolist()], k)
                assert found.tolist() == pytest.approx([float(n * w) for w in expected])


def test_the_estimator_of_verl_is_an_unbiased_gradient_of_pass_at_k(recipe: ModuleType) -> None:
    def advantages(rewards: np.ndarray, k: int) -> np.ndarray:
        groups = rewards.reshape(-1, rewards.shape[-1])
        rows = torch.tensor(groups.reshape(-1, 1))
        found, _ = recipe.compute_rspo_outcome_advantage(
            token_level_rewards=torch.cat([0 * rows, rows], dim=1),
            response_mask=torch.ones(len(rows), 2, dtype=torch.float64),
            index=np.repeat(np.arange(len(groups)), groups.shape[1]),
            config={"rspo_k": k},
        )
        assert torch.equal(found[:, 0], found[:, 1])
        return found[:, 0].numpy().reshape(rewards.shape)

    for k in (1, 3, 8):
        assert_unbiased(advantages, k=k, n=8)


def prepare(mirror: Path, output: Path) -> str:
    command = [sys.executable, str(RECIPE / "prepare_data.py"), str(mirror), str(output)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


@pytest.mark.ci
def test_data_are_problems_whose_answers_verls_own_reward_accepts(
    tmp_path: Path, shared: Path
) -> None:
    from verl.utils.reward_score import default_compute_score

    printed = prepare(shared / "mirror", tmp_path)
    frame = pd.read_parquet(tmp_path / "train.parquet")
    assert f"train: {len(frame)} problems" in printed
    for row in frame.head(50).to_dict("records"):
        answer = row["reward_model"]["ground_truth"]
        for text, score in ((f"\\boxed{{{answer}}}", 1), ("\\boxed{no answer}", 0)):
            assert default_compute_score(row["data_source"], text, answer) == score


def write_mirror(folder: Path) -> None:
    """Problems with the answers 1 and 2, one of which the model of the test draws."""
    (folder / HUB_ID).mkdir(parents=True)
    for split in ("train", "test"):
        rows = [
            {"problem": f"{i} % 2 + 1", "solution": f"\\boxed{{{i % 2 + 1}}}"} for i in range(8)
        ]
        rows.append({"problem": "1 + 1", "solution": "no box"})
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / HUB_ID / f"{split}.jsonl").write_text(text)


def words(config: DictConfig, prefix: str = "") -> list[str]:
    """The settings of a config as arguments of verl."""
    found = []
    for key, value in config.items():
        if isinstance(value, DictConfig):
            found += words(value, f"{prefix}{key}.")
        else:
            found.append(f"++{prefix}{key}={value}")
    return found


@pytest.mark.long
@pytest.mark.parametrize("with_page", [False, True], ids=["alone", "with our reward"])
def test_the_script_trains_two_steps_on_a_cpu(tmp_path: Path, with_page: bool) -> None:
    """With this package's actor and rollout, because verl's do not run without a GPU.

    Alone; and with the settings of docs/verify_while_training.md.
    """
    write_mirror(tmp_path / "mirror")
    assert "train: 8 problems" in prepare(tmp_path / "mirror", tmp_path / "data")
    policy = tmp_path / "policy"
    hub_model.write(policy, hub_model.ANSWER | {"{": ["1", "2"], "1": ["}"], "2": ["}"]})
    template = "{% for message in messages %}{{ message['content'] + '\\n' }}{% endfor %}"
    (policy / "chat_template.jinja").write_text(template)
    config = OmegaConf.load(ROOT / "rspo" / "training" / "verl" / "cpu.yaml")
    assert isinstance(config, DictConfig)
    settings = [
        *words(config),
        "algorithm.rspo_k=2",
        "data.train_batch_size=4",
        "data.max_prompt_length=200",
        "data.dataloader_num_workers=0",
        f"actor_rollout_ref.model.path={policy}",
        "actor_rollout_ref.actor.ppo_mini_batch_size=4",
        "actor_rollout_ref.actor.optim._target_=rspo.training.verl.optimizer.ScheduledOptimizerConfig",
        "+actor_rollout_ref.actor.optim.schedule=constant",
        "actor_rollout_ref.rollout.n=4",
        "++actor_rollout_ref.rollout.full_determinism=false",  # needs this package's agent loop
        "actor_rollout_ref.rollout.val_kwargs.temperature=1.0",  # our sampler has no greedy one
        "reward.num_workers=1",
        "trainer.device=cpu",
        "trainer.logger=[console]",
        "trainer.n_gpus_per_node=1",
        "trainer.total_training_steps=2",
        "trainer.test_freq=2",
        "trainer.save_freq=-1",
        f"trainer.default_local_dir={tmp_path / 'checkpoints'}",
        "+ray_kwargs.ray_init.num_gpus=1",
    ]
    if with_page:
        settings += [
            word for word in settings_of_page() if not word.startswith("+algorithm.rspo_k")
        ]
    done = subprocess.run(
        ["bash", str(RECIPE / "run_rspo.sh"), str(tmp_path / "data"), *settings],
        env=os.environ
        | {
            **{"PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])},
            **{"PYTHONPATH": str(ROOT), "VERL_PLATFORM": "cpu", "RESPONSE_LENGTH": "20"},
            **{"VERL_USE_EXTERNAL_MODULES": "tests.upstream.recipe_on_cpu"},
            **{"OMP_NUM_THREADS": "1", "TQ_NUM_THREADS": "1"},
        },
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    steps = dict(re.findall(r"\bstep:(\d+) - (.*)", done.stdout))
    assert steps.keys() >= {"1", "2"}
    for step in ("1", "2"):
        highest = re.search(r"critic/advantages/max:([\d.]+)", steps[step])
        assert highest is not None
        assert float(highest[1]) > 0
    metrics = dict(re.findall(r"val-core/\S+?/((?:acc|reward)/[^:\s]+):(\S+)", steps["2"]))
    assert ("acc/mean@16" in metrics) == with_page
