"""What the checks of tests/gpu accept, and what they find."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import pytest
import torch
from omegaconf import OmegaConf
from safetensors.torch import load_file
from torch import Tensor

from rspo.policies import qwen2
from rspo.policies.qwen2 import KVCache
from rspo.policies.tokenizer import ChatTokenizer
from rspo.training.verl.run import config_text
from tests.gpu import attention, judge, weights
from tests.gpu.settings import JUDGED, KILLED, SENT, TO_BE_KILLED, TRAINED, Settings
from tests.support import ROOT, llama_model
from tests.support.random_policy import random_model, save_policy
from tests.support.verl_package import path_with_vllm


def settings_for(device: Literal["cuda", "cpu"], folder: Path) -> Settings:
    return Settings(device, None, folder, folder / "log")


def softmax_attention(
    query: Tensor, key: Tensor, value: Tensor, lengths: Sequence[int], causal: bool = True
) -> Tensor:
    """Attention by its definition, computed in float32 and rounded once."""
    parts, groups = [], query.shape[1] // key.shape[1]
    for q, k, v in zip(*(x.float().split(list(lengths)) for x in (query, key, value)), strict=True):
        k, v = (x.repeat_interleave(groups, 1) for x in (k, v))
        scores = torch.einsum("qhd,khd->hqk", q, k) / q.shape[-1] ** 0.5
        if causal:
            scores = scores + torch.full(scores.shape[1:], -torch.inf).triu(1)
        shares = scores.softmax(-1)
        parts.append(torch.einsum("hqk,khd->qhd", shares, v))
    return torch.cat(parts).to(query.dtype)


def test_attention_may_round_and_nothing_else() -> None:
    def sees_the_future(*arguments: Any) -> Tensor:
        return softmax_attention(*arguments, causal=False)

    def mixes_sequences(query: Tensor, key: Tensor, value: Tensor, _: Sequence[int]) -> Tensor:
        return softmax_attention(query, key, value, [len(query)])

    def is_not_a_number(*arguments: Any) -> Tensor:
        return softmax_attention(*arguments) * torch.nan

    assert attention.rounding_ratio(softmax_attention, "cpu") < 1.5
    for wrong in (sees_the_future, mixes_sequences, is_not_a_number):
        assert not attention.rounding_ratio(wrong, "cpu") <= attention.ALLOWED


@pytest.mark.long  # 20 s each
@pytest.mark.parametrize("family", ["llama", "qwen2"])
def test_a_vllm_worker_has_the_weights_of_its_folder_and_no_others(
    family: str, tmp_path: Path
) -> None:
    folder, file = tmp_path / "model", tmp_path / "sampler.safetensors"
    if family == "llama":
        llama_model.write(folder)
    else:
        save_policy(random_model(context=256), folder)
    command = [sys.executable, "-m", "tests.support.vllm_weights", str(folder), str(file)]
    environment = os.environ | {"PYTHONPATH": path_with_vllm(tmp_path)}
    subprocess.run(command, cwd=ROOT, env=environment, check=True)
    sampler, loaded = load_file(file), weights.load(folder)
    assert any("qkv_proj" in name for name in sampler)
    assert weights.different(sampler, loaded) == []
    name = "model.layers.1.self_attn.v_proj.weight"
    loaded[name][-1, -1] += 1
    (line,) = weights.different(sampler, loaded)
    assert line == f"{name.replace('v_proj', 'qkv_proj')}: differs by up to 1"


@pytest.mark.parametrize("device", ["cuda", "cpu"])
def test_verl_accepts_the_config_of_each_training(
    device: Literal["cuda", "cpu"], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config").symlink_to(ROOT / "config")
    monkeypatch.setattr(judge, "gpu_bytes", lambda which: 16 * 2**30)
    settings = settings_for(device, tmp_path)
    for seed, changes in {
        TRAINED: {},
        JUDGED: judge.changes_with(settings, tmp_path),
        SENT: weights.changes_for(settings),
        KILLED: TO_BE_KILLED,
    }.items():
        experiment = settings.experiment(changes)
        text = config_text(experiment, settings.cell(seed))
        assert OmegaConf.create(text).trainer.device == device
        assert experiment.trains_on_gpus == (device == "cuda")


def test_the_random_judge_replies_with_one_of_the_two_words(tmp_path: Path) -> None:
    judge.write_random_judge(tmp_path)
    tokenizer, model = ChatTokenizer(tmp_path), qwen2.load(tmp_path)
    question = {"role": "user", "content": "Is it 4? Reply: correct or incorrect."}
    (prompt,) = tokenizer.prompts([[question]])
    replies: list[list[int]] = []
    unfinished: list[list[int]] = [[]]
    while unfinished:
        reply = unfinished.pop()
        tokens = torch.tensor([prompt + reply])
        shares = model.logits(model(tokens, KVCache()))[0, -1].softmax(-1)
        likely = shares.argsort(descending=True)[: 1 if reply else 2].tolist()
        assert shares[likely].tolist() == pytest.approx([1 / len(likely)] * len(likely), abs=1e-3)
        if likely[0] in tokenizer.ends:
            replies.append(reply)
        else:
            unfinished.extend(reply + [token] for token in likely)
    texts = {text.lower() for text in tokenizer.decode(replies)}
    assert texts == {"correct", "incorrect"}


@pytest.mark.parametrize(("gigabytes", "fraction"), [(80, 0.06), (16, 0.25), (0, 0.06)])
def test_a_small_gpu_gives_the_judge_a_larger_share(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gigabytes: int, fraction: float
) -> None:
    monkeypatch.setattr(judge, "gpu_bytes", lambda which: gigabytes * 10**9)
    monkeypatch.chdir(ROOT)
    section = judge.xverify(settings_for("cuda", tmp_path), Path("judge"))
    assert section["training_gpu_memory"] == pytest.approx(fraction)
    assert "--dtype" not in section["server_arguments"]
