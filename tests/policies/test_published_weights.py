"""Published models in `rspo.policies.qwen2`: logits, data types, and what is refused."""

import json
from pathlib import Path
from typing import Literal

import pytest
import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, Qwen2Config, Qwen2ForCausalLM

from rspo.config.schema import LocalSettings, Sampling
from rspo.core.errors import InputError
from rspo.policies import device, qwen2
from rspo.policies.device import CPU_FLOAT32, Place, place_for
from rspo.policies.qwen2 import KVCache, Qwen2
from rspo.policies.responses import Block, Question
from rspo.policies.sampler import TorchSampler, sample
from rspo.policies.tokenizer import ChatTokenizer
from tests.support import llama_model
from tests.support.random_policy import peaked_model, save_policy

VOCABULARY = 300


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("llama")
    llama_model.write(folder)
    return folder


@pytest.fixture(scope="module")
def qwen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With what differs from the tiny models: biases, grouped heads, theta, epsilon, own head."""
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=VOCABULARY,
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=128,
        rms_norm_eps=1e-3,
        rope_parameters={"rope_type": "default", "rope_theta": 500.0},
        initializer_range=0.2,
        tie_word_embeddings=False,
    )
    model = Qwen2ForCausalLM(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "bias" in name or "norm" in name:
                parameter.add_(torch.randn(parameter.shape) * 0.3)
    folder = tmp_path_factory.mktemp("qwen")
    model.save_pretrained(folder)
    return folder


def tokens(rows: int = 3, length: int = 40) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randint(3, VOCABULARY, (rows, length), generator=generator)


def logits(folder: Path, dtype: torch.dtype) -> Tensor:
    model = qwen2.load(folder)
    model.compute_dtype = dtype
    with torch.no_grad():
        return model.logits(model(tokens(), KVCache()))


def of_transformers(folder: Path, dtype: torch.dtype) -> Tensor:
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype)
    with torch.no_grad():
        return model(input_ids=tokens()).logits.float()


@pytest.mark.parametrize("family", ["llama", "qwen"])
def test_the_logits_are_those_of_transformers(family: str, request: pytest.FixtureRequest) -> None:
    folder = request.getfixturevalue(family)
    expected = of_transformers(folder, torch.float32)
    assert expected.std() > 0.5
    torch.testing.assert_close(logits(folder, torch.float32), expected, atol=5e-5, rtol=5e-5)


@pytest.mark.parametrize("family", ["llama", "qwen"])
def test_bfloat16_is_no_further_from_float32_than_that_of_transformers(
    family: str, request: pytest.FixtureRequest
) -> None:
    folder = request.getfixturevalue(family)
    exact = of_transformers(folder, torch.float32)
    theirs = (of_transformers(folder, torch.bfloat16) - exact).norm()
    ours = (logits(folder, torch.bfloat16) - exact).norm()
    assert 0 < ours <= theirs


def test_the_copy_for_sampling_computes_what_the_model_computes(llama: Path) -> None:
    model = qwen2.load(llama)
    assert model.for_sampling() is model
    model.compute_dtype = torch.bfloat16
    copy = model.for_sampling()
    assert copy.layers[0].down.weight.dtype == torch.bfloat16
    assert copy.embedding.weight.data_ptr() == model.embedding.weight.data_ptr()
    with torch.no_grad():
        expected = model.logits(model(tokens(), KVCache()))
        assert torch.equal(copy.logits(copy(tokens(), KVCache())), expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_sampled_log_probabilities_are_those_of_transformers(
    llama: Path, dtype: torch.dtype
) -> None:
    """Of prompts of different lengths, of which each is computed without padding for comparison."""
    model = qwen2.load(llama)
    model.compute_dtype = dtype
    theirs = AutoModelForCausalLM.from_pretrained(llama, dtype=torch.float32)
    prompts = [[5, 6, 7, 8], [9] * 17, [30, 31]]
    generator = torch.Generator().manual_seed(0)
    drawn = sample(model, prompts, 8, max_tokens=12, end=2, pad=2, generator=generator)
    largest = 0.0
    for row, length in enumerate(drawn.lengths.tolist()):
        prompt = prompts[row // 8]
        response = drawn.tokens[row, :length]
        sequence = torch.cat((torch.tensor(prompt), response))[None]
        with torch.no_grad():
            log_p = theirs(input_ids=sequence).logits[0, len(prompt) - 1 : -1].log_softmax(-1)
        expected = log_p[range(length), response.tolist()]
        difference = (drawn.log_probs[row, :length] - expected).abs().max().item()
        largest = max(largest, difference)
    if dtype == torch.float32:
        assert largest < 1e-4
    else:
        assert 1e-4 < largest < 0.2


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_weights_are_saved_in_the_data_type_that_was_published(
    llama: Path, tmp_path: Path, dtype: torch.dtype
) -> None:
    published = AutoModelForCausalLM.from_pretrained(llama, dtype=dtype)
    published.save_pretrained(tmp_path, max_shard_size="50KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 1
    model = qwen2.load(tmp_path)
    assert all(parameter.dtype == torch.float32 for parameter in model.parameters())
    for part in tmp_path.glob("*.safetensors*"):
        part.unlink()
    qwen2.save_weights(model, tmp_path)
    again = AutoModelForCausalLM.from_pretrained(tmp_path, dtype="auto")
    assert again.dtype == dtype
    for (name, found), expected in zip(
        again.named_parameters(), published.parameters(), strict=True
    ):
        assert torch.equal(found, expected), name


def test_transformers_reads_a_saved_llama(llama: Path, tmp_path: Path) -> None:
    qwen2.save(qwen2.load(llama), tmp_path, {"eos_token_id": 2})
    assert torch.equal(
        of_transformers(tmp_path, torch.float32), of_transformers(llama, torch.float32)
    )


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("model_type", "mistral", r"model_type = 'mistral'; allowed .* 'llama', 'qwen2'"),
        ("hidden_act", "gelu", r"hidden_act = 'gelu'; allowed .* 'silu'"),
        ("head_dim", 16, r"head_dim = 16; allowed .* 32"),
        ("rope_parameters", {"rope_type": "llama3", "rope_theta": 1.0}, r"rope_type = 'llama3'"),
        ("rope_scaling", {"type": "linear", "factor": 2.0}, r"rope_type = 'linear'"),
        ("attention_bias", True, r"attention_bias = True"),
        ("mlp_bias", True, r"mlp_bias = True"),
        ("use_sliding_window", True, r"use_sliding_window = True"),
    ],
)
def test_a_model_that_needs_what_this_one_lacks_is_refused(
    llama: Path, tmp_path: Path, key: str, value: object, message: str
) -> None:
    config = json.loads((llama / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {key: value}))
    with pytest.raises(InputError, match=f"{tmp_path}/config.json: {message}"):
        qwen2.load(tmp_path)


def test_what_an_old_config_leaves_out_has_the_default_of_transformers(tmp_path: Path) -> None:
    config = {
        "model_type": "llama",
        "vocab_size": 10,
        "hidden_size": 8,
        "intermediate_size": 8,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "max_position_embeddings": 16,
        "rms_norm_eps": 1e-5,
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    found = qwen2.read_config(tmp_path)
    assert (found.num_key_value_heads, found.tie_word_embeddings, found.rope_theta) == (
        2,
        False,
        1e4,
    )
    assert not found.bias
    (tmp_path / "config.json").write_text(json.dumps(config | {"rope_theta": 5e5}))
    assert qwen2.read_config(tmp_path).rope_theta == 5e5
    del config["vocab_size"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(InputError, match="no key 'vocab_size'"):
        qwen2.read_config(tmp_path)


def test_a_folder_without_one_of_the_weights_is_refused(llama: Path, tmp_path: Path) -> None:
    config = json.loads((llama / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(InputError, match=r"has no \*.safetensors"):
        qwen2.load(tmp_path)
    (tmp_path / "model.safetensors").write_bytes((llama / "model.safetensors").read_bytes())
    config["num_hidden_layers"] = 3
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(InputError, match=r"no weight 'model.layers.2"):
        qwen2.load(tmp_path)


@pytest.mark.parametrize(
    ("flags", "dtype"),
    [
        ("fpu avx512f avx512_bf16", torch.bfloat16),
        ("amx_bf16 amx_tile", torch.bfloat16),
        ("fpu avx512f avx2", torch.float32),
        (None, torch.float32),  # not Linux
    ],
)
def test_auto_computes_in_bfloat16_where_the_processor_does(
    llama: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    flags: str | None,
    dtype: torch.dtype,
) -> None:
    if flags is not None:
        (tmp_path / "cpuinfo").write_text(f"model name : x\nflags\t\t: {flags}\n")
    monkeypatch.setattr(device, "_CPUINFO", tmp_path / "cpuinfo")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    place = place_for(ChatTokenizer(llama), LocalSettings())
    assert (place.device.type, place.dtype) == ("cpu", dtype)


def test_auto_chooses_a_gpu_and_a_tiny_model_stays_on_the_cpu(
    llama: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda **_: True)
    place = place_for(ChatTokenizer(llama), LocalSettings())
    assert (place.device.type, place.dtype) == ("cuda", torch.bfloat16)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "NVIDIA H200")
    assert place.note == {"device": "cuda", "gpu": "NVIDIA H200", "dtype": "bfloat16"}
    assert CPU_FLOAT32.note == {"device": "cpu", "dtype": "float32"}
    tiny = ChatTokenizer(save_policy(peaked_model(), tmp_path))
    for chosen in (LocalSettings(), LocalSettings(device="cuda", dtype="bfloat16")):
        assert place_for(tiny, chosen) == CPU_FLOAT32


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_sampler_of_an_evaluation_computes_where_the_config_says(
    llama: Path, dtype: Literal["float32", "bfloat16"]
) -> None:
    sampling = Sampling(temperature=1, top_p=1, max_prompt_tokens=20, max_response_tokens=12)
    settings = LocalSettings(device="cpu", dtype=dtype)
    sampler = TorchSampler(llama, ChatTokenizer(llama), sampling, settings)
    assert str(sampler.place.dtype) == f"torch.{dtype}"
    assert sampler.gpus == 0


def test_a_sampler_on_a_gpu_counts_one_gpu(llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class OnGpu(Place):
        def put(self, model: Qwen2) -> Qwen2:
            return model  # this machine has no GPU to move it to

    place = OnGpu(torch.device("cuda"), torch.float32)
    monkeypatch.setattr("rspo.policies.sampler.place_for", lambda *_: place)
    sampling = Sampling(temperature=1, top_p=1, max_prompt_tokens=20, max_response_tokens=12)
    assert TorchSampler(llama, ChatTokenizer(llama), sampling).gpus == 1


def test_a_device_that_is_missing_is_an_error_and_slow_bfloat16_a_warning(
    llama: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    tokenizer = ChatTokenizer(llama)
    with pytest.raises(InputError, match=r"local.device = 'cuda': .*allowed .*: auto, cpu"):
        place_for(tokenizer, LocalSettings(device="cuda"))
    (tmp_path / "cpuinfo").write_text("flags : fpu\n")
    monkeypatch.setattr(device, "_CPUINFO", tmp_path / "cpuinfo")
    assert place_for(tokenizer, LocalSettings(dtype="bfloat16")).dtype == torch.bfloat16
    assert "slower than float32" in caplog.text


def test_the_sampler_of_an_evaluation_bounds_the_responses_of_a_batch(
    llama: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Prompts of different lengths share one, and each response ends with an end token."""
    monkeypatch.setattr("rspo.policies.sampler.RESPONSES_PER_BATCH", 24)
    tokenizer = ChatTokenizer(llama)
    sampling = Sampling(temperature=1, top_p=1, max_prompt_tokens=20, max_response_tokens=12)
    sampler = TorchSampler(llama, tokenizer, sampling, LocalSettings(device="cpu"))
    lengths = [3, 9, 4, 20, 5, 5, 7]
    questions = [Question(str(row), [5 + row] * length, 12) for row, length in enumerate(lengths)]
    for size, expected in ((8, [[0, 1, 2], [3, 4, 5], [6]]), (30, [[row] for row in range(7)])):
        block = Block(0, size, (5, "test"))
        batches = sampler.batches(questions, block)
        assert batches == expected
        responses, _ = sampler.draw(questions, batches[0], block)
        assert len(responses) == size * len(batches[0])
        for tokens in responses:
            assert len(tokens) == 12 or tokens[-1] in tokenizer.ends
            assert not set(tokens[:-1]) & set(tokenizer.ends)
