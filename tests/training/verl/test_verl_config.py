"""verl's config of a cell, checked by verl, without GPU and Ray."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from omegaconf import OmegaConf
from ray.exceptions import RayTaskError

from rspo.adapters.verl_advantages import estimator_name
from rspo.cli import main
from rspo.config.merge import parse_overrides
from rspo.core.errors import InputError
from rspo.objectives import OBJECTIVES, KRule
from rspo.training.verl.driver import _reason
from rspo.training.verl.section import experiment_of
from rspo.training.verl.verl_config import verl_config
from tests.support import paper_scale, registries, rehearsal, tiny_world
from tests.support.paper_scale import CELL_1_5B, CELL_7B, nested

TINY_CELL = "small--rspo-pass--k4--n16--s0"

ACTOR = "actor_rollout_ref.actor"
MEMORY = "actor_rollout_ref.rollout.gpu_memory_utilization"


@pytest.mark.parametrize(
    ("arrays", "cells"),
    [([], 25), (["sizes"], 5), (["sizes", "without_gpus"], 3)],
    ids=["paper", "rehearsal of docs/slurm.md", "rehearsal without GPUs"],
)
def test_verl_accepts_every_cell(tmp_path: Path, arrays: list[str], cells: int) -> None:
    words = [word for array in arrays for word in rehearsal.overrides(array)]
    experiment = paper_scale.load(tmp_path, **parse_overrides(words))
    assert len(experiment.cells) == cells
    for name, cell in experiment.cells.items():
        config = verl_config(experiment.for_cell(name), name)
        assert config.algorithm.adv_estimator == estimator_name(cell.objective)
        if OBJECTIVES[cell.objective].k_rule is not KRule.NONE:
            assert config.algorithm.rspo_k == cell.k
        assert config.actor_rollout_ref.rollout.n == cell.n
        ranks = config.trainer.nnodes * config.trainer.n_gpus_per_node
        gpus = {"qwen2.5-math-1.5b": 4, "qwen2.5-math-7b": 8}
        assert ranks == (1 if "without_gpus" in arrays else gpus[cell.model])


def test_an_objective_of_the_user_reaches_verl_and_its_processes(tmp_path: Path) -> None:
    source = "from rspo.objectives import KRule, Objective, register\n"
    source += 'register(Objective("first", lambda rewards, k: rewards, KRule.AT_MOST_N))\n'
    (tmp_path / "first.py").write_text(source)
    cells = [{"model": "small", "objective": "first", "k": 2, "n": 4}]
    grid = {"main": {"suite": "standard", "seeds": 1, "cells": cells}}
    with registries.restored():
        experiment = tiny_world.load(tmp_path, extensions=["first.py"], grid=grid)
        config = verl_config(experiment, "small--first--k2--n4--s0")
        assert config.algorithm.adv_estimator == "rspo_first"
    with registries.restored():  # as in another process
        assert experiment_of(config.rspo).cells == experiment.cells
        assert "first" in OBJECTIVES


@pytest.mark.promise("It needs no value network (critic) and no KL penalty.")
def test_the_papers_settings_reach_verl(tmp_path: Path) -> None:
    config = verl_config(paper_scale.load(tmp_path), CELL_1_5B)
    actor = config.actor_rollout_ref.actor
    assert config.data.train_batch_size == 128
    assert actor.ppo_mini_batch_size == 16
    assert (actor.optim.lr, actor.optim.lr_warmup_steps_ratio) == (3e-6, 0.05)
    assert actor.optim.total_training_steps == 580 * 8
    assert not actor.use_kl_loss
    assert not config.algorithm.use_kl_in_reward
    assert actor.entropy_coeff == 0
    # PyTorch would compile the entropy for each length of a batch.
    assert actor.entropy_from_logits_with_chunking
    assert not actor.fsdp_config.use_torch_compile
    assert (actor.loss_agg_mode, actor.loss_scale_factor) == ("seq-mean-token-sum-norm", 3072)
    # The other reading of the paper: a mini-batch of 256 prompts, which is one update per step.
    other = paper_scale.load(tmp_path, **nested("training.mini_batch_prompts", 256))
    actor = verl_config(other, CELL_1_5B).actor_rollout_ref.actor
    assert (actor.ppo_mini_batch_size, actor.optim.total_training_steps) == (128, 580)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            nested("overrides.actor_rollout_ref.rollout.gpu_memory", 0.4),
            r"verl\.overrides: actor_rollout_ref\.rollout\.gpu_memory: verl's config rejects it",
        ),
        (
            nested(f"overrides.{ACTOR}.use_dynamic_bsz", False),
            "verl rejects the config of .*micro_batch_size",
        ),
        (nested(f"overrides.{MEMORY}", "high"), f"{MEMORY} = 'high'; allowed: a number$"),
        (nested(f"overrides.{ACTOR}.use_dynamic_bsz", "yes"), "'yes'; allowed: true or false$"),
        ({"ranks": 3}, "allowed: numbers of ranks that divide 80"),
    ],
)
def test_settings_that_verl_rejects_are_one_clear_error(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    experiment = tiny_world.load(tmp_path, engine="verl", verl=changes)
    with pytest.raises(InputError, match=message) as error:
        verl_config(experiment, TINY_CELL)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("key", "value", "instead"),
    [
        ("algorithm.adv_estimator", "grpo", "the cell's objective sets it"),
        ("algorithm.rollout_correction.rollout_is", "token", "through bypass_mode only"),
        (f"{ACTOR}.ppo_epochs", 2, "each mini-batch is one update"),
        ("actor_rollout_ref.rollout.temperature", 0.5, "this package sets it from its own config"),
    ],
)
def test_the_error_for_a_key_without_effect_says_what_to_set(
    tmp_path: Path, key: str, value: object, instead: str
) -> None:
    overrides = nested(key, value)
    experiment = tiny_world.load(tmp_path, engine="verl", verl={"overrides": overrides})
    with pytest.raises(InputError) as error:
        verl_config(experiment, TINY_CELL)
    assert str(error.value).startswith(f"verl.overrides: {key} would have no effect: ")
    assert instead in str(error.value)
    models = {"small": tiny_world.OVERRIDES["models"]["small"] | {"verl": overrides}}
    with pytest.raises(InputError, match=rf"^models\.small\.verl: {key} would have no effect"):
        verl_config(tiny_world.load(tmp_path, engine="verl", models=models), TINY_CELL)


BYPASS = "algorithm.rollout_correction.bypass_mode"  # the one key of its section with an effect


@pytest.mark.parametrize(
    ("changes", "key", "value"),
    [
        (nested(f"verl.overrides.{MEMORY}", 0.4), MEMORY, 0.4),
        (nested(f"verl.overrides.{BYPASS}", True), BYPASS, True),
        (nested("verl.overrides.trainer.logger", ["console"]), "trainer.logger", ["console"]),
        (nested("training.loss_aggregation", "token-mean"), f"{ACTOR}.loss_agg_mode", "token-mean"),
    ],
)
def test_a_setting_reaches_verl(
    tmp_path: Path, changes: dict[str, Any], key: str, value: object
) -> None:
    config = verl_config(tiny_world.load(tmp_path, engine="verl", **changes), TINY_CELL)
    assert OmegaConf.select(config, key) == value


def test_print_config_starts_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without problems, base policy, GPU or Ray."""
    import ray

    paper_scale.load(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert main(["train", CELL_7B, "--scale", "paper", "--print-config"]) == 0
    shown = yaml.safe_load(capsys.readouterr().out)
    assert shown["actor_rollout_ref"]["rollout"]["name"] == "vllm"
    assert not ray.is_initialized()
    assert [path.name for path in tmp_path.iterdir()] == ["config"]


def test_the_local_engine_has_no_verl_config(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tiny_world.load(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert main(["train", TINY_CELL, "--print-config"]) == 2
    assert "has engine = 'local'" in capsys.readouterr().err


def test_the_reason_is_the_input_error_of_another_process() -> None:
    error = RayTaskError("run", "a traceback", InputError("no")).as_instanceof_cause()
    reason = _reason(error)
    assert type(reason) is InputError
    assert str(reason) == "no"
