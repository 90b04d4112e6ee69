"""examples/smollm_mirror.py: a GGUF file becomes a Hugging Face folder of the same model."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import gguf
import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from rspo.policies.tokenizer import ChatTokenizer
from tests.support import ROOT, llama_model

TEXT = "What is  12 + 345?\n\nthe answer is x² = 7<|im_end|>\n"
_LAYER = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}


@pytest.fixture(scope="module")
def program() -> ModuleType:
    spec = importlib.util.spec_from_file_location("m", ROOT / "examples" / "smollm_mirror.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`llama_model` as a GGUF file."""
    path = tmp_path_factory.mktemp("gguf") / "model.gguf"
    model = llama_model.model()
    config, writer = model.config, gguf.GGUFWriter(path, "llama")
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_vocab_size(config.vocab_size)
    content = json.loads(llama_model.tokenizer().to_str())["model"]
    tokens = sorted(content["vocab"], key=content["vocab"].get)
    kinds = {True: gguf.TokenType.CONTROL, False: gguf.TokenType.NORMAL}
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(tokens)
    writer.add_token_merges([" ".join(merge) for merge in content["merges"]])
    writer.add_token_types([kinds[token in llama_model.SPECIAL] for token in tokens])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_chat_template(llama_model.TEMPLATE)
    for name, value in model.state_dict().items():
        if name != "lm_head.weight":  # tied to the embedding
            writer.add_tensor(*_tensor(name, value.numpy(), config))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _tensor(name: str, value: np.ndarray, config: object) -> tuple[str, np.ndarray]:
    """Name and value in GGUF, which has the rows of queries and keys in another order."""
    if not name.startswith("model.layers."):
        short = {"model.embed_tokens.weight": "token_embd", "model.norm.weight": "output_norm"}
        return f"{short[name]}.weight", value
    number, _, rest = name.removeprefix("model.layers.").partition(".")
    part = _LAYER[rest.removesuffix(".weight")]
    if part in ("attn_q", "attn_k"):
        heads = config.num_attention_heads if part == "attn_q" else config.num_key_value_heads
        rows = value.reshape(heads, 2, -1, value.shape[1])
        value = rows.swapaxes(1, 2).reshape(value.shape)
    return f"blk.{number}.{part}.weight", value


def test_weights_and_tokenizer_are_those_of_the_file(
    program: ModuleType, file: Path, tmp_path: Path
) -> None:
    program.write_model(file, tmp_path / "folder")
    ids = llama_model.tokenizer().encode(TEXT).ids
    theirs = AutoTokenizer.from_pretrained(tmp_path / "folder")
    assert theirs(TEXT).input_ids == ids
    assert theirs.decode(ids) == TEXT
    assert theirs.chat_template == llama_model.TEMPLATE
    ours = ChatTokenizer(tmp_path / "folder")
    assert (ours.ends, ours.pad) == ((2,), 2)
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "folder", dtype="auto")
    assert model.dtype == torch.float32
    with torch.inference_mode():
        logits = model(torch.tensor([ids])).logits
        torch.testing.assert_close(logits, llama_model.model()(torch.tensor([ids])).logits)
