"""integrations/verl-recipe: its estimator, its data and its script."""

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

from rspo.objectives import assert_unbiased
from rspo.policies import qwen2
from rspo.policies.qwen2 import ModelConfig, Qwen2
from rspo.policies.tokenizer import build_tokenizer, save_tokenizer
from tests.support import ROOT, exact

pytestmark = pytest.mark.ci
RECIPE = ROOT / "integrations" / "verl-recipe"
HUB_ID = "DigitalLearningGmbH/MATH-lighteval"
PROMPT, RESPONSE = 10, 18  # tokens


@pytest.fixture(scope="module")
def estimator() -> ModuleType:
    sys.path.insert(0, str(RECIPE))
    try:
        return importlib.import_module("rspo_advantage")
    finally:
        sys.path.remove(str(RECIPE))


def test_advantages_are_n_times_the_marginal_contributions(estimator: ModuleType) -> None:
    rng = np.random.default_rng(0)
    for n in range(1, 8):
        for rewards in (rng.integers(-2, 3, n) / 2, rng.integers(0, 2, n)):
            for k in range(1, n + 1):
                found = estimator.rspo_advantages(torch.tensor(rewards, dtype=torch.float64), k)
                expected = exact.marginal_contributions([Fraction(r) for r in rewards.tolist()], k)
                assert found.tolist() == pytest.approx([float(n * w) for w in expected])


def test_the_estimator_of_verl_is_an_unbiased_gradient_of_pass_at_k(estimator: ModuleType) -> None:
    from verl.trainer.ppo.core_algos import get_adv_estimator_fn

    def advantages(rewards: np.ndarray, k: int) -> np.ndarray:
        groups = rewards.reshape(-1, rewards.shape[-1])
        rows = torch.tensor(groups.reshape(-1, 1))
        found, _ = get_adv_estimator_fn("rspo")(
            token_level_rewards=torch.cat([0 * rows, rows], dim=1),
            response_mask=torch.ones(len(rows), 2, dtype=torch.float64),
            index=np.repeat(np.arange(len(groups)), groups.shape[1]),
            config={"rspo_k": k},
        )
        assert torch.equal(found[:, 0], found[:, 1])
        return found[:, 0].numpy().reshape(rewards.shape)

    for k in (1, 3, 8):
        assert_unbiased(advantages, k=k, n=8)


def write_mirror(mirror: Path) -> None:
    """Rows as those of the hub, with problems that the tiny model can read."""
    folder = mirror / HUB_ID
    folder.mkdir(parents=True)
    for split in ("train", "test"):
        rows = [
            {"problem": f"{i}+{i + 1}=", "solution": f"\\boxed{{{2 * i + 1}}}"} for i in range(8)
        ]
        rows.append({"problem": "1+1=", "solution": "no box"})
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / f"{split}.jsonl").write_text(text)


def prepare(mirror: Path, output: Path) -> str:
    command = [sys.executable, str(RECIPE / "prepare_data.py"), str(mirror), str(output)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_data_are_problems_whose_answers_verls_own_reward_accepts(tmp_path: Path) -> None:
    from verl.utils.reward_score import default_compute_score

    mirror = ROOT.parent / "shared" / "mirror"
    if not (mirror / HUB_ID).is_dir():
        write_mirror(mirror := tmp_path / "mirror")
    printed = prepare(mirror, tmp_path / "data")
    frame = pd.read_parquet(tmp_path / "data" / "train.parquet")
    assert f"train: {len(frame)} problems" in printed
    for row in frame.head(50).to_dict("records"):
        answer = row["reward_model"]["ground_truth"]
        for text, score in ((f"\\boxed{{{answer}}}", 1), ("\\boxed{no answer}", 0)):
            assert default_compute_score(row["data_source"], text, answer) == score


@pytest.mark.long
def test_the_script_trains_two_steps_on_a_cpu(tmp_path: Path) -> None:
    write_mirror(tmp_path / "mirror")
    prepare(tmp_path / "mirror", tmp_path / "data")
    policy = tmp_path / "policy"
    policy.mkdir()
    size = build_tokenizer().get_vocab_size()
    config = ModelConfig(size, 64, 2, 2, 2, 192, max_position_embeddings=PROMPT + RESPONSE)
    model = Qwen2(config)
    model.initialise(0.3, torch.Generator().manual_seed(0))
    save_tokenizer(policy, prompt_tokens=PROMPT, context=PROMPT + RESPONSE)
    qwen2.save(model, policy, {"eos_token_id": 1, "pad_token_id": 0})
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(Path(__file__).parent)]),
        "VERL_PLATFORM": "cpu",
        "VERL_USE_EXTERNAL_MODULES": "cpu_for_recipe",
        "OMP_NUM_THREADS": "1",
        "RESPONSE_LENGTH": str(RESPONSE),
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
    }
    actor, rollout = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
    overrides = [
        "algorithm.rspo_k=2",
        "data.train_batch_size=4",
        f"data.max_prompt_length={PROMPT}",
        "data.filter_overlong_prompts=false",
        "data.truncation=left",
        "data.dataloader_num_workers=0",
        f"actor_rollout_ref.model.path={policy}",
        "actor_rollout_ref.model.use_remove_padding=false",
        "actor_rollout_ref.model.enable_gradient_checkpointing=false",
        "+actor_rollout_ref.model.override_config.attn_implementation=sdpa",
        f"{actor}.strategy=fsdp2",
        f"{actor}.ppo_mini_batch_size=4",
        f"{actor}.fsdp_config.use_torch_compile=false",
        f"{actor}.fsdp_config.model_dtype=fp32",
        f"+{actor}.fsdp_config.mixed_precision={{param_dtype:fp32,reduce_dtype:fp32,buffer_dtype:fp32}}",
        f"{actor}.optim._target_=rspo.training.verl.optimizer.ScheduledOptimizerConfig",
        f"+{actor}.optim.schedule=constant",
        f"{rollout}.name=rspo_sampler",
        f"{rollout}.n=4",
        f"{rollout}.dtype=float32",
        f"{rollout}.tensor_model_parallel_size=1",
        f"{rollout}.free_cache_engine=false",
        f"{rollout}.agent.num_workers=1",
        "transfer_queue.backend.SimpleStorage.num_data_storage_units=1",
        "reward.num_workers=1",
        "trainer.device=cpu",
        "trainer.logger=[console]",
        "trainer.n_gpus_per_node=1",
        "trainer.total_training_steps=2",
        "trainer.val_before_train=false",
        "trainer.test_freq=-1",
        "trainer.save_freq=-1",
        f"trainer.default_local_dir={tmp_path / 'checkpoints'}",
        "+ray_kwargs.ray_init.num_gpus=1",
        "ray_kwargs.ray_init.num_cpus=16",
        "+ray_kwargs.ray_init.include_dashboard=false",
    ]
    command = ["bash", str(RECIPE / "run_rspo.sh"), str(tmp_path / "data"), *overrides]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, (done.stdout + done.stderr)[-5000:]
    assert set(re.findall(r"step:(\d+) ", done.stdout)) == {"1", "2"}
