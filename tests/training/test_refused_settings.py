"""Settings of verl that would hide a fault, or need a package that is missing, are refused."""

from pathlib import Path
from typing import Any

import pytest
import torch

from rspo.cli import main
from rspo.config.merge import merge
from rspo.core.errors import InputError
from rspo.training import refused_settings
from rspo.training.refused_settings import BYPASS, LIGER, require_allowed_settings
from tests.support import paper_scale
from tests.support.paper_scale import CELL_1_5B, CELL_7B, nested


@pytest.mark.parametrize(
    ("origin", "key", "value", "message"),
    [
        ("verl.overrides", BYPASS, True, "True: the sampler's log-probabilities would replace"),
        ("models.qwen2.5-math-7b.verl", BYPASS, True, "allowed: false"),
        ("verl.overrides", BYPASS, "yes", "'yes': the sampler's"),
        ("verl.overrides", LIGER, True, "True: the package liger-kernel is not installed"),
    ],
)
def test_a_refused_setting_is_one_error(
    tmp_path: Path, origin: str, key: str, value: object, message: str
) -> None:
    # A part of `origin`, the model's name, has a dot, so `nested` cannot split it.
    layer = nested(key, value)
    changes: dict[str, Any] = {"verl": {"overrides": layer}}
    if origin.startswith("models."):
        changes = {"models": {"qwen2.5-math-7b": {"verl": layer}}}
    with pytest.raises(InputError) as caught:
        require_allowed_settings(paper_scale.load(tmp_path, **changes), CELL_7B)
    text = str(caught.value)
    assert text.startswith(f"{origin}: {key} = {value!r}: ")
    assert message in text
    assert text.endswith("allowed: false")


def test_other_settings_and_models_are_not_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    allowed = merge(nested(BYPASS, False), nested(LIGER, False))
    require_allowed_settings(paper_scale.load(tmp_path, verl={"overrides": allowed}), CELL_7B)
    changes = {"models": {"qwen2.5-math-7b": {"verl": nested(BYPASS, True)}}}
    require_allowed_settings(paper_scale.load(tmp_path, **changes), CELL_1_5B)
    monkeypatch.setattr(refused_settings, "find_spec", lambda name: name)
    changes = nested(f"verl.overrides.{LIGER}", True)
    require_allowed_settings(paper_scale.load(tmp_path, **changes), CELL_7B)


def test_rspo_train_refuses_it_at_its_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    paper_scale.load(tmp_path)
    monkeypatch.chdir(tmp_path)
    setting = f"verl.overrides.{BYPASS}=true"
    assert main(["train", CELL_7B, "--scale", "paper", "--set", setting, "--print-config"]) == 2
    assert f"verl.overrides: {BYPASS} = True: " in capsys.readouterr().err


# Vocabulary and width of each model of config/paper.yaml: `vocab_size` and `hidden_size` of its
# config.json. The embedding is the largest weight.
EMBEDDINGS = {"qwen2.5-math-1.5b": (151_936, 1536), "qwen2.5-math-7b": (152_064, 3584)}


@pytest.mark.parametrize("cell", [CELL_1_5B, CELL_7B])
def test_each_weight_fits_the_buffer_in_which_verl_sends_it(tmp_path: Path, cell: str) -> None:
    """In the servers' type, to which ranks cast weights before they gather and send them.

    verl sends a larger one in a way of its own (bucketed_weight_transfer.py).
    """
    from rspo.training.verl.verl_config import verl_config

    experiment = paper_scale.load(tmp_path)
    rollout = verl_config(experiment, cell).actor_rollout_ref.rollout
    dtype: torch.dtype = getattr(torch, rollout.dtype)
    tokens, width = EMBEDDINGS[experiment.cell(cell).model]
    assert set(EMBEDDINGS) == {one.model for one in experiment.every_cell.values()}
    buffer = rollout.checkpoint_engine.update_weights_bucket_megabytes * 2**20
    assert tokens * width * dtype.itemsize <= buffer
