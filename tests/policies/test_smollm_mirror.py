"""benchmarks/smollm_mirror.py: the tokenizer of a GGUF file becomes one of Hugging Face."""

import json
import runpy
from pathlib import Path

import gguf
import pytest
from transformers import AutoTokenizer

from rspo.policies.tokenizer import ChatTokenizer
from tests.support import ROOT, llama_model

TEXT = "What is  12 + 345?\n\nthe answer is x² = 7<|im_end|>\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The tokenizer of `llama_model` as a GGUF file."""
    path = tmp_path / "model.gguf"
    content = json.loads(llama_model.tokenizer().to_str())["model"]
    tokens = sorted(content["vocab"], key=content["vocab"].get)
    kinds = {True: gguf.TokenType.CONTROL, False: gguf.TokenType.NORMAL}
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(256)
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(tokens)
    writer.add_token_merges([" ".join(merge) for merge in content["merges"]])
    writer.add_token_types([kinds[token in llama_model.SPECIAL] for token in tokens])
    writer.add_chat_template(llama_model.TEMPLATE)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    return path


def test_the_tokenizer_is_that_of_the_file(file: Path, tmp_path: Path) -> None:
    """transformers converts the weights."""
    program = runpy.run_path(str(ROOT / "benchmarks" / "smollm_mirror.py"))
    program["write_tokenizer"](file, tmp_path)
    ids = llama_model.tokenizer().encode(TEXT).ids
    theirs = AutoTokenizer.from_pretrained(tmp_path)
    assert theirs(TEXT).input_ids == ids
    assert theirs.decode(ids) == TEXT
    assert theirs.chat_template == llama_model.TEMPLATE
    ours = ChatTokenizer(tmp_path)
    assert (ours.ends, ours.pad) == ((2,), 2)
