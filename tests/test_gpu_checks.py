"""What the checks of tests/gpu accept, and what they find."""

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pytest
import torch
from omegaconf import OmegaConf
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch import Tensor

from rspo.config.experiment import base_name
from rspo.policies import qwen2
from rspo.policies.device import CPU_FLOAT32, Place
from rspo.policies.qwen2 import KVCache, ModelConfig, Qwen2
from rspo.policies.sampler import Responses
from rspo.policies.templates import TEMPLATES, set_template
from rspo.policies.tokenizer import ChatTokenizer
from rspo.training.verl.run import config_text
from tests.gpu import attention, base_model, collectives, judge, local_engine, paper_step, weights
from tests.gpu.settings import JUDGED, KILLED, SENT, TO_BE_KILLED, TRAINED, Settings
from tests.support import ROOT, hub_model, llama_model
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

    for shape in attention.SHAPES.values():
        assert attention.rounding_ratio(softmax_attention, "cpu", shape) < 1.5
    shape = attention.SHAPES["SmolLM2-135M"]
    for wrong in (sees_the_future, mixes_sequences, is_not_a_number):
        assert not attention.rounding_ratio(wrong, "cpu", shape) <= attention.ALLOWED


# A factor of one matrix that the comparison of a data type must find.
WRONG = {torch.float32: 1.01, torch.bfloat16: 1.5}


class WrongPlace(Place):
    """The CPU, where one matrix is wrong by the factor of the data type."""

    def put(self, model: Qwen2) -> Qwen2:
        with torch.no_grad():
            model.layers[0].down.weight *= WRONG[self.dtype]
        return super().put(model)


def difference_at(place: Place) -> local_engine.Difference:
    prompts = [[5, 6, 7], [8, 9, 10, 11]]
    return local_engine.difference(random_model(context=64), prompts, [1], 0, place)


@pytest.mark.parametrize("dtype", list(local_engine.ALLOWED))
def test_the_local_engine_may_round_and_nothing_else(dtype: torch.dtype) -> None:
    found = difference_at(Place(torch.device("cpu"), dtype))
    local_engine.require_small(found, dtype)
    assert (found.log_prob > 0) == (dtype != torch.float32)
    wrong = difference_at(WrongPlace(torch.device("cpu"), dtype))
    with pytest.raises(AssertionError, match=r"allowed for log_prob"):
        local_engine.require_small(wrong, dtype)
    with pytest.raises(AssertionError, match=r"allowed for gradient"):
        local_engine.require_small(replace(wrong, log_prob=0.0, sampled_log_prob=0.0), dtype)


def test_a_sampler_must_report_the_log_probabilities_of_its_tokens(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sample = local_engine.sample

    def off(model: Qwen2, *arguments: Any, **options: Any) -> Responses:
        responses = sample(model, *arguments, **options)
        if model.compute_dtype == torch.float32:
            return responses
        return replace(responses, log_probs=responses.log_probs - 5 * responses.mask)

    monkeypatch.setattr(local_engine, "sample", off)
    found = difference_at(Place(torch.device("cpu"), torch.bfloat16))
    assert found.sampled_log_prob == pytest.approx(5, rel=0.01)
    with pytest.raises(AssertionError, match="allowed for sampled_log_prob"):
        local_engine.require_small(found, torch.bfloat16)


def test_in_float32_the_same_random_numbers_give_the_same_tokens() -> None:
    found = difference_at(CPU_FLOAT32)
    assert found.equal_tokens == 1
    with pytest.raises(AssertionError, match="expected for equal_tokens"):
        local_engine.require_small(replace(found, equal_tokens=0.5), torch.float32)


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


@pytest.mark.parametrize("device", ["cuda", "cpu"])
@pytest.mark.parametrize("ranks", [1, 8])
def test_verl_accepts_the_steps_of_paper_shape(
    device: Literal["cuda", "cpu"], ranks: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judge, "gpu_bytes", lambda which: 80 * 10**9)
    settings = Settings(device, None, tmp_path, tmp_path / "log", ranks)
    paper_step.judge_folder(settings).mkdir()
    experiment = paper_step.experiment_of(settings)
    (cell,) = experiment.cells_of(paper_step.TRIAL)
    of_cell = experiment.for_cell(cell.name)
    config = OmegaConf.create(config_text(of_cell, cell.name))
    rollout = config.actor_rollout_ref.rollout
    assert (config.trainer.device, config.trainer.n_gpus_per_node) == (device, ranks)
    assert rollout.ignore_eos
    assert not of_cell.config.training.drop_zero_weights
    assert config.trainer.total_training_steps == paper_step.STEPS
    assert config.trainer.save_freq == paper_step.STEPS  # one checkpoint, after the last step
    if device == "cuda":
        # What a GPU gets is what it gets in the paper's scale, with 128 prompts on 8 GPUs.
        assert of_cell.config.training.prompts_per_step == 16 * ranks
        assert (rollout.prompt_length, rollout.response_length) == (1024, 3072)
        assert config.actor_rollout_ref.actor.ppo_max_token_len_per_gpu == 32768


def test_the_shapes_are_those_of_the_published_models() -> None:
    """By the numbers of parameters outside of the embedding, which their model cards state."""
    for shape, others in ((paper_step.POLICY, 1.31e9), (paper_step.JUDGE, 0.36e9)):
        with torch.device("meta"):
            model = Qwen2(shape)
        in_embeddings = 2 * shape.vocab_size * shape.hidden_size
        total = sum(parameter.numel() for parameter in model.parameters())
        assert total - in_embeddings == pytest.approx(others, rel=0.01)


def test_steps_of_paper_shape_need_gpus_of_80_gb(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = settings_for("cuda", tmp_path)
    for gigabytes, reason in ((80, ""), (24, "a GPU has 24 GB; the paper's settings need 80 GB")):
        monkeypatch.setattr(paper_step, "gpu_bytes", lambda which, size=gigabytes: size * 10**9)
        assert paper_step.why_not(settings) == reason


@pytest.mark.parametrize(
    ("next_tokens", "shape", "deviation", "mixing"),
    [
        (paper_step.endless_answers(), hub_model.TINY, 0.2, 0.0),
        # A wide model of few layers, with the factors of the shape of the paper's model.
        (
            paper_step.endless_answers(),
            replace(hub_model.TINY, hidden_size=1536, num_attention_heads=12, num_hidden_layers=4),
            paper_step.DEVIATION,
            paper_step.MIXING,
        ),
    ],
)
def test_each_token_decides_about_the_next_one(
    next_tokens: dict[str, list[str]],
    shape: ModelConfig,
    deviation: float,
    mixing: float,
    tmp_path: Path,
) -> None:
    hub_model.write(tmp_path, next_tokens, shape, deviation, mixing)
    set_template(tmp_path, TEMPLATES["qwen_math"])
    tokenizer = ChatTokenizer(tmp_path)
    model = qwen2.load(tmp_path)
    (prompt,) = tokenizer.prompts([[{"role": "user", "content": "What is 2 + 2?"}]])
    text = "\\boxed{4}\n\\boxed{7}"
    to_ids = Tokenizer.from_file(str(tmp_path / "tokenizer.json")).encode
    tokens = to_ids(text).ids
    logits = model.logits(model(torch.tensor([prompt + tokens]), KVCache()))[0]
    shares = logits.softmax(-1)[len(prompt) - 1 :]
    for position, before in enumerate("\n" + text):
        following = [to_ids(one).ids[0] for one in next_tokens[before]]
        expected = 1 / len(following)
        assert shares[position, following].tolist() == pytest.approx(
            [expected] * len(following), rel=0.5
        )
        assert shares[position, following].sum().item() == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize(
    ("name", "least"),
    [
        ("NVIDIA H800", 120e9),
        ("NVIDIA H100 80GB HBM3", 200e9),
        ("NVIDIA A100-SXM4-80GB", 120e9),
        ("NVIDIA H100 PCIe", 0.0),
        ("NVIDIA GeForce RTX 4090", 0.0),
    ],
)
def test_links_with_nvlink_have_a_least_bandwidth(name: str, least: float) -> None:
    assert collectives.least_bandwidth(name) == least


def test_the_bandwidth_is_that_of_a_ring(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of 4 ranks sends its 4 MB in 4 parts: 3 to sum them, and 3 to share the sums."""
    monkeypatch.setitem(collectives.ELEMENTS, "cuda", 10**6)
    assert collectives.bandwidth(4, "cuda", seconds=0.001) == pytest.approx(6 * 10**6 / 0.001)


def test_without_the_hub_the_policy_is_a_random_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "empty"))
    log = tmp_path / "log"
    settings = Settings("cpu", None, tmp_path, log)
    with log.open("w") as output, monkeypatch.context() as patch:
        patch.setattr(subprocess, "Popen", partial(subprocess.Popen, stdout=output, stderr=output))
        source = base_model.make_policy(settings)
    assert source.startswith("random Qwen2, because error: HuggingFaceTB/SmolLM2-135M-Instruct")
    tokenizer = ChatTokenizer(settings.experiment().files.policy(base_name(settings.model)))
    (prompt,) = tokenizer.prompts([[{"role": "user", "content": "the problem"}]])
    (text,) = tokenizer.decode([prompt])
    assert "the problem" in text


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
