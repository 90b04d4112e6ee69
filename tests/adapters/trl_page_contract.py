"""The program of docs/trainers.md for TRL, as the page has it; `make test-trainers` runs this.

The model of the page is in the folder of this name. It is a small one of the family Llama, whose
tokenizers may be of words, and it answers with red or green.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from datasets import Dataset
from transformers import LlamaConfig, LlamaForCausalLM

from examples.trl_bandit import tokenizer_of_words
from rspo.objectives import response_weights
from tests.support import ROOT
from tests.support.pages import code_of

CODE = code_of(ROOT / "docs" / "trainers.md", "TRL")
MODEL = "Qwen/Qwen2.5-0.5B-Instruct"
N, K = 16, 4


def save_model(folder: Path) -> None:
    """Save a model that says red or green after the question, each with a chance of 1/2, and ends.

    Its only layer adds nothing, so that the last token alone decides about the next one.
    """
    tokenizer = tokenizer_of_words()
    tokenizer.save_pretrained(folder)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
    )
    model = LlamaForCausalLM(config)
    ids = tokenizer.get_vocab()
    with torch.no_grad():
        model.model.layers[0].self_attn.o_proj.weight.zero_()
        model.model.layers[0].mlp.down_proj.weight.zero_()
        model.model.embed_tokens.weight.copy_(torch.eye(len(tokenizer), config.hidden_size))
        model.lm_head.weight.zero_()
        for color in ("red", "green"):
            model.lm_head.weight[ids[color], ids["color?"]] = 3
            model.lm_head.weight[ids["<end>"], ids[color]] = 3
    model.save_pretrained(folder)


def test_the_program_of_the_page_trains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_model(tmp_path / MODEL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WANDB_MODE", "disabled")
    assert f'model="{MODEL}"' in CODE
    batch_size = "per_device_train_batch_size=16,"
    assert f"{batch_size}  # a multiple of n; on a CPU, also use_cpu=True" in CODE
    problems = Dataset.from_list([{"prompt": "color?", "answer": "red"}] * 2)
    names: dict[str, Any] = {"problems": problems}
    exec(CODE.replace(batch_size, f"{batch_size} use_cpu=True,"), names)

    trainer = names["trainer"]
    assert trainer.state.global_step == 2 * trainer.args.num_train_epochs
    assert trainer.state.log_history[0]["completions/max_length"] <= 1024
    rewards = np.array(list(trainer._logs["rewards"]["correct"])).reshape(-1, N)
    advantages = np.array(list(trainer._logs["advantages"])).reshape(-1, N)
    assert 0 < rewards.sum() < rewards.size
    expected = N * response_weights(rewards, "rspo_pass_at_k", K)
    np.testing.assert_allclose(advantages, expected, atol=1e-5)
