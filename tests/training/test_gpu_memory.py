"""What is certain to run out of memory on GPUs is refused before anything starts."""

from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from rspo.cli import main
from rspo.config.experiment import Experiment
from rspo.config.merge import merge
from rspo.core.errors import InputError
from rspo.training.gpu_memory import actor_rollout_ref, require_gpu_memory
from tests.support import paper_scale, tiny_world
from tests.support.paper_scale import CELL_1_5B, CELL_7B, nested

TINY_CELL = "small--rspo-pass--k4--n16--s0"

ATTENTION = "actor_rollout_ref.model.override_config.attn_implementation"
MEMORY = "actor_rollout_ref.rollout.gpu_memory_utilization"
PASS = "actor_rollout_ref.actor.ppo_max_token_len_per_gpu"


@pytest.mark.parametrize("attention", ["sdpa", "flex_attention"])
def test_without_flash_attn_a_pass_has_at_most_8192_tokens(tmp_path: Path, attention: str) -> None:
    """Otherwise the first update on a GPU would run out of memory."""

    def load(tokens: int) -> Experiment:
        changes = nested(f"verl.overrides.{ATTENTION}", attention)
        passes = nested(f"verl.overrides.{PASS}", tokens)
        return paper_scale.load(tmp_path, **merge(changes, passes))

    require_gpu_memory(load(8192), CELL_1_5B)
    with pytest.raises(InputError, match=f"{PASS} = 8193: .* allowed: at most 8192") as caught:
        require_gpu_memory(load(8193), CELL_1_5B)
    assert f"attn_implementation = {attention}" in str(caught.value)


@pytest.mark.parametrize(
    ("most", "changes"),
    [
        (0.90, {"xverify": {"training_gpu_memory": 0.06}}),
        (0.96, {"xverify": {"training_gpu_memory": 0.06, "url": "http://judge:8000"}}),
        (0.96, {"xverify": {"training_gpu_memory": 0.06}, "verifier": "rules"}),
    ],
    ids=["judge on the GPU", "judge elsewhere", "no judge"],
)
def test_sampler_and_judge_must_leave_memory_of_a_gpu_to_the_actor(
    tmp_path: Path, most: float, changes: dict[str, Any]
) -> None:
    def load(policy: float) -> Experiment:
        return paper_scale.load(tmp_path, **nested(f"verl.overrides.{MEMORY}", policy), **changes)

    require_gpu_memory(load(most), CELL_7B)
    with pytest.raises(InputError, match=r"allowed: at most 0\.96 in total$") as caught:
        require_gpu_memory(load(most + 0.01), CELL_7B)
    assert f"gpu_memory_utilization = {most + 0.01:g}" in str(caught.value)
    assert ("and xverify.training_gpu_memory = 0.06" in str(caught.value)) == (most < 0.96)


def test_a_cpu_has_no_such_limits(tmp_path: Path) -> None:
    overrides = merge(nested(MEMORY, 0.99), nested(PASS, 32768))
    changes = {"device": "cpu", "ranks": 1, "overrides": overrides}
    require_gpu_memory(tiny_world.load(tmp_path, engine="verl", verl=changes), TINY_CELL)


def test_verl_gets_the_values_that_are_checked(tmp_path: Path) -> None:
    from rspo.training.verl.verl_config import verl_config

    overrides = merge(nested(MEMORY, 0.5), nested(PASS, 12288))
    experiment = paper_scale.load(tmp_path, **nested("verl.overrides", overrides))
    of_verl = verl_config(experiment, CELL_7B)
    section = {"actor_rollout_ref": actor_rollout_ref(experiment, CELL_7B)}
    for key in (ATTENTION, MEMORY, PASS):
        assert OmegaConf.select(of_verl, key) == OmegaConf.select(OmegaConf.create(section), key)


@pytest.mark.parametrize("option", [[], ["--print-config"]])
def test_rspo_train_refuses_it_at_its_start(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    option: list[str],
) -> None:
    paper_scale.load(tmp_path)
    monkeypatch.chdir(tmp_path)
    setting = f"verl.overrides.{MEMORY}=0.95"
    assert main(["train", CELL_7B, "--scale", "paper", "--set", setting, *option]) == 2
    assert "allowed: at most 0.96 in total" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        (MEMORY, "0.7", f"{MEMORY} = '0.7': expected a number"),
        (MEMORY, None, f"{MEMORY} = None: expected a number"),
        (MEMORY, True, f"{MEMORY} = True: expected a number"),
        (PASS, [1], f"{PASS} = [1]: expected a number"),
        (
            "actor_rollout_ref.model.override_config",
            None,
            "actor_rollout_ref.model.override_config = None: "
            "expected a section with attn_implementation",
        ),
        ("actor_rollout_ref", 3, "actor_rollout_ref = 3: expected a section with rollout"),
    ],
)
def test_a_value_of_another_type_is_one_error(
    tmp_path: Path, key: str, value: object, message: str
) -> None:
    experiment = paper_scale.load(tmp_path, **nested(f"verl.overrides.{key}", value))
    with pytest.raises(InputError) as error:
        require_gpu_memory(experiment, CELL_7B)
    assert str(error.value) == message


@pytest.mark.parametrize(
    "key", [MEMORY, PASS, ATTENTION, "actor_rollout_ref.model.override_config"]
)
def test_an_interpolation_is_left_to_verl(tmp_path: Path, key: str) -> None:
    changes = nested(f"verl.overrides.{key}", "${oc.env:VALUE}")
    require_gpu_memory(paper_scale.load(tmp_path, **changes), CELL_7B)
