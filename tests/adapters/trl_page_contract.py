"""The program of docs/trainers.md for TRL, as the page has it; `make test-trainers` runs this.

The model of the page is in the folder of this name, and is a small one.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from examples.trl_bandit import questions, small_model, tokenizer_of_words
from rspo.objectives import response_weights
from tests.support import ROOT
from tests.support.pages import code_of

CODE = code_of(ROOT / "docs" / "trainers.md", "TRL")
MODEL = "Qwen/Qwen2.5-0.5B-Instruct"
N, K = 16, 4


def test_the_program_of_the_page_trains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = tokenizer_of_words()
    tokenizer.save_pretrained(tmp_path / MODEL)
    small_model(tokenizer).save_pretrained(tmp_path / MODEL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WANDB_MODE", "disabled")
    assert f'model="{MODEL}"' in CODE
    batch_size = "per_device_train_batch_size=16,"
    assert f"{batch_size}  # a multiple of n; on a CPU, also use_cpu=True" in CODE
    names: dict[str, Any] = {"problems": questions(2)}
    exec(CODE.replace(batch_size, f"{batch_size} use_cpu=True,"), names)

    trainer = names["trainer"]
    assert trainer.state.global_step == 2 * trainer.args.num_train_epochs
    assert trainer.state.log_history[0]["completions/max_length"] <= 1024
    rewards = np.array(list(trainer._logs["rewards"]["correct"])).reshape(-1, N)
    advantages = np.array(list(trainer._logs["advantages"])).reshape(-1, N)
    assert 0 < rewards.sum() < rewards.size
    expected = N * response_weights(rewards, "rspo_pass_at_k", K)
    np.testing.assert_allclose(advantages, expected, atol=1e-5)
