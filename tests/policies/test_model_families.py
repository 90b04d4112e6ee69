"""Published models of the most used families: what ends a response, padding, and the prompt.

Each family is a fixture with its tokenizer's class, special tokens, end tokens in
generation_config.json and marks of a turn as published; vocabularies and templates are small.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers
from transformers import AutoTokenizer

from rspo.core.errors import InputError
from rspo.policies.templates import TEMPLATES, keep_template, set_template
from rspo.policies.tokenizer import ChatTokenizer

PROBLEM = "What is $1+1$?\n\\frac{1}{2} é"


@dataclass(frozen=True)
class Family:
    """
    keys: of tokenizer_config.json.
    special: tokens of tokenizer.json, whose ids are their places.
    ends: of generation_config.json; None for a model without the file.
    user, response: a turn, with {} for its text.
    start: what precedes a response.
    expected: tokens that end a response.
    metaspace: whether the tokenizer writes spaces as `▁`, as those of SentencePiece do.
    strips: whether special tokens drop the whitespace after them.
    """

    keys: dict[str, Any]
    special: Sequence[str]
    ends: int | list[int] | None
    user: str
    start: str
    response: str
    expected: Sequence[str]
    first: str = ""
    metaspace: bool = False
    strips: bool = False

    @property
    def template(self) -> str:
        def turn(text: str) -> str:
            before, after = (json.dumps(part) for part in text.split("{}"))
            return f"{{{{ {before} + message['content'] + {after} }}}}"

        return (
            f"{{{{ {json.dumps(self.first)} }}}}{{% for message in messages %}}"
            f"{{% if message['role'] == 'user' %}}{turn(self.user)}"
            f"{{% else %}}{turn(self.start + self.response)}{{% endif %}}{{% endfor %}}"
            f"{{% if add_generation_prompt %}}{{{{ {json.dumps(self.start)} }}}}{{% endif %}}"
        )


def token(content: str) -> dict[str, Any]:
    """A token as an object, as in many published files."""
    return {"__type": "AddedToken", "content": content, "lstrip": False, "normalized": False}


FAMILIES = {
    # The base model's end token is not the one that ends its turns.
    "Qwen2.5-Math": Family(
        keys={
            "tokenizer_class": "Qwen2Tokenizer",
            "eos_token": "<|endoftext|>",
            "pad_token": "<|endoftext|>",
            "bos_token": None,
        },
        special=["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
        ends=0,
        user="<|im_start|>user\n{}<|im_end|>\n",
        start="<|im_start|>assistant\n",
        response="{}<|im_end|>\n",
        expected=["<|im_end|>", "<|endoftext|>"],
    ),
    # No padding token, and three end tokens.
    "Llama 3": Family(
        keys={
            "tokenizer_class": "PreTrainedTokenizerFast",
            "bos_token": "<|begin_of_text|>",
            "eos_token": "<|eot_id|>",
        },
        special=["<|begin_of_text|>", "<|end_of_text|>", "<|role|>", "<|eom_id|>", "<|eot_id|>"],
        ends=[1, 3, 4],
        first="<|begin_of_text|>",
        user="<|role|>user\n\n{}<|eot_id|>",
        start="<|role|>assistant\n\n",
        response="{}<|eot_id|>",
        expected=["<|eot_id|>", "<|end_of_text|>", "<|eom_id|>"],
    ),
    # Each response in its template starts with an empty thought.
    "Qwen3": Family(
        keys={
            "tokenizer_class": "Qwen2Tokenizer",
            "eos_token": "<|im_end|>",
            "pad_token": "<|endoftext|>",
        },
        special=["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>"],
        ends=[2, 0],
        user="<|im_start|>user\n{}<|im_end|>\n",
        start="<|im_start|>assistant\n",
        response="<think>\n\n</think>\n\n{}<|im_end|>\n",
        expected=["<|im_end|>", "<|endoftext|>"],
    ),
    # Nothing between the prompt and the response, and no padding token.
    "Mistral": Family(
        keys={
            "tokenizer_class": "LlamaTokenizer",
            "bos_token": "<s>",
            "eos_token": "</s>",
            "unk_token": "<unk>",
            "add_prefix_space": False,
        },
        special=["<unk>", "<s>", "</s>", "[INST]", "[/INST]"],
        ends=2,
        first="<s>",
        user="[INST]{}[/INST]",
        start="",
        response="{}</s>",
        expected=["</s>"],
        metaspace=True,
    ),
    # The end of a turn is not the tokenizer's end token.
    "Gemma": Family(
        keys={
            "tokenizer_class": "GemmaTokenizer",
            "bos_token": "<bos>",
            "eos_token": "<eos>",
            "pad_token": "<pad>",
            "unk_token": "<unk>",
        },
        special=["<pad>", "<eos>", "<bos>", "<unk>", "<start_of_turn>", "<end_of_turn>"],
        ends=[1, 5],
        first="<bos>",
        user="<start_of_turn>user\n{}<end_of_turn>\n",
        start="<start_of_turn>model\n",
        response="{}<end_of_turn>\n",
        expected=["<end_of_turn>", "<eos>"],
        metaspace=True,
    ),
    # Special tokens that drop the newline after them, and three end tokens.
    "Phi-3": Family(
        keys={
            "tokenizer_class": "LlamaTokenizer",
            "bos_token": "<s>",
            "eos_token": "<|endoftext|>",
            "pad_token": "<|endoftext|>",
            "unk_token": "<unk>",
            "add_prefix_space": False,
        },
        special=["<unk>", "<s>", "<|endoftext|>", "<|user|>", "<|assistant|>", "<|end|>"],
        ends=[2, 4, 5],
        user="<|user|>\n{}<|end|>\n",
        start="<|assistant|>\n",
        response="{}<|end|>\n",
        expected=["<|end|>", "<|endoftext|>", "<|assistant|>"],
        metaspace=True,
        strips=True,
    ),
    "Phi-4-mini": Family(
        keys={
            "tokenizer_class": "GPT2Tokenizer",
            "bos_token": "<|endoftext|>",
            "eos_token": "<|endoftext|>",
            "pad_token": "<|endoftext|>",
        },
        special=["<|endoftext|>", "<|user|>", "<|assistant|>", "<|end|>"],
        ends=[3, 0],
        user="<|user|>{}<|end|>",
        start="<|assistant|>",
        response="{}<|end|>",
        expected=["<|end|>", "<|endoftext|>"],
    ),
    # A tokenizer of bytes under Llama's class, and tokens with characters beyond ASCII.
    "DeepSeek-R1-Distill": Family(
        keys={
            "tokenizer_class": "LlamaTokenizerFast",
            "bos_token": token("<｜begin▁of▁sentence｜>"),
            "eos_token": token("<｜end▁of▁sentence｜>"),
            "pad_token": token("<｜end▁of▁sentence｜>"),
        },
        special=[
            "<｜end▁of▁sentence｜>",
            "<｜begin▁of▁sentence｜>",
            "<｜User｜>",
            "<｜Assistant｜>",
        ],
        ends=0,
        first="<｜begin▁of▁sentence｜>",
        user="<｜User｜>{}",
        start="<｜Assistant｜>",
        response="{}<｜end▁of▁sentence｜>",
        expected=["<｜end▁of▁sentence｜>"],
    ),
    # No generation_config.json.
    "OLMo 2": Family(
        keys={
            "tokenizer_class": "GPT2Tokenizer",
            "bos_token": "<|endoftext|>",
            "eos_token": "<|endoftext|>",
            "pad_token": "<|pad|>",
        },
        special=["<|endoftext|>", "<|pad|>"],
        ends=None,
        first="<|endoftext|>",
        user="<|user|>\n{}\n",
        start="<|assistant|>\n",
        response="{}<|endoftext|>",
        expected=["<|endoftext|>"],
    ),
}


def write(family: Family, folder: Path, **keys: Any) -> None:
    _tokenizer(family).save(str(folder / "tokenizer.json"))
    keys = {"chat_template": family.template, "clean_up_tokenization_spaces": False} | keys
    (folder / "tokenizer_config.json").write_text(json.dumps(family.keys | keys))
    if family.ends is not None:
        ends = {"eos_token_id": family.ends, "temperature": 0.6}
        (folder / "generation_config.json").write_text(json.dumps(ends))


def _tokenizer(family: Family) -> Tokenizer:
    """One token per byte; with `metaspace`, per character, and per byte of unknown characters."""
    if family.metaspace:
        alphabet = [f"<0x{byte:02X}>" for byte in range(256)]
        alphabet += ["▁"] + [chr(code) for code in range(33, 127)]
    else:
        alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {text: index for index, text in enumerate([*family.special, *alphabet])}
    result = Tokenizer(models.BPE(vocabulary, [], byte_fallback=family.metaspace))
    if family.metaspace:
        result.normalizer = normalizers.Replace(" ", "▁")
        result.decoder = decoders.Sequence(
            [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
        )
    else:
        result.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        result.decoder = decoders.ByteLevel()
    result.add_special_tokens([AddedToken(text, rstrip=family.strips) for text in family.special])
    return result


@pytest.fixture(params=FAMILIES)
def family(request: pytest.FixtureRequest, tmp_path: Path) -> Family:
    write(FAMILIES[request.param], tmp_path)
    return FAMILIES[request.param]


def chat() -> list[dict[str, str]]:
    return [{"role": "user", "content": PROBLEM}]


def test_end_tokens_and_prompts_are_those_of_transformers_and_vllm(
    family: Family, tmp_path: Path
) -> None:
    """vLLM takes the tokenizer's end token and those of generation_config.json."""
    keep_template(tmp_path, [])
    ours, theirs = ChatTokenizer(tmp_path), AutoTokenizer.from_pretrained(tmp_path)
    assert [family.special[end] for end in ours.ends] == list(family.expected)
    written = json.loads((tmp_path / "generation_config.json").read_text())
    assert {theirs.eos_token_id, *written["eos_token_id"]} == set(ours.ends)
    assert family.ends is None or written["temperature"] == 0.6  # kept
    assert ours.pad == theirs.pad_token_id is not None

    (response,) = ours.encode(["\\boxed{7}"])
    for end in ours.ends:
        assert ours.decode([ours.without_end([*response, end])]) == ["\\boxed{7}"]
    assert ours.without_end(response) == response  # truncated

    (ids,) = ours.prompts([chat()])
    expected = family.first + family.user.replace("{}", PROBLEM) + family.start
    if family.strips:
        expected = re.sub(r"(<\|\w+\|>)\s+", r"\1", expected)
    assert ours.decode([ids]) == [expected]
    assert ids == theirs.apply_chat_template(chat(), add_generation_prompt=True, return_dict=False)


def test_the_prompt_is_the_same_on_every_day(tmp_path: Path) -> None:
    """Templates such as Llama 3.2's print today's date."""
    family = FAMILIES["Qwen2.5-Math"]
    write(family, tmp_path, chat_template="{{ strftime_now('%H:%M:%S.%f') }}" + family.template)
    theirs = AutoTokenizer.from_pretrained(tmp_path)
    assert len({str(theirs.apply_chat_template(chat(), tokenize=False)) for _ in range(9)}) > 1
    keep_template(tmp_path, [])
    ours = ChatTokenizer(tmp_path)
    (prompt,) = ours.decode(ours.prompts([chat()]))
    assert prompt == "01 Jan 2025" + family.user.replace("{}", PROBLEM) + family.start


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_template_of_the_config_adds_its_end_of_turn(
    family: Family, tmp_path: Path, name: str
) -> None:
    """If the model has such a token; otherwise the model's own end tokens remain."""
    set_template(tmp_path, TEMPLATES[name])
    ends = {family.special[end] for end in ChatTokenizer(tmp_path).ends}
    own = family.keys["eos_token"]
    expected = {own["content"] if isinstance(own, dict) else own}
    if family.ends is not None:
        ids = family.ends if isinstance(family.ends, list) else [family.ends]
        expected |= {family.special[end] for end in ids}
    if name == "qwen_math" and "<|im_end|>" in family.special:
        expected.add("<|im_end|>")
    assert ends == expected


@pytest.mark.parametrize(
    "keys",
    [
        {"eos_token": None, "pad_token": None},
        {"chat_template": [{"name": "tool_use", "template": "{{ 1 }}"}, "default"]},
    ],
    ids=["no tokens", "several templates"],
)
def test_responses_end_with_the_turn_whatever_the_tokenizer_config_says(
    tmp_path: Path, keys: dict[str, Any]
) -> None:
    family = FAMILIES["Qwen2.5-Math"]
    if "chat_template" in keys:
        other, name = keys["chat_template"]
        keys = {"chat_template": [other, {"name": name, "template": family.template}]}
    write(family, tmp_path, **keys)
    keep_template(tmp_path, [])
    ours, theirs = ChatTokenizer(tmp_path), AutoTokenizer.from_pretrained(tmp_path)
    assert [family.special[end] for end in ours.ends] == list(family.expected)
    assert theirs.eos_token_id == ours.end
    assert ours.pad == theirs.pad_token_id is not None
    (ids,) = ours.prompts([chat()])
    assert ours.decode([ids]) == [family.user.replace("{}", PROBLEM) + family.start]


@pytest.mark.parametrize("content", ["[1]", '{"eos_token_id": "x"}', "{"])
def test_an_unreadable_generation_config_is_an_error(tmp_path: Path, content: str) -> None:
    write(FAMILIES["Llama 3"], tmp_path)
    (tmp_path / "generation_config.json").write_text(content)
    with pytest.raises(InputError, match=r"generation_config\.json: no readable eos_token_id"):
        keep_template(tmp_path, [])


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (
            {"eos_token": None, "chat_template": "{{ messages[0]['content'] }}"},
            "the model has no end token",
        ),
        ({"chat_template": None}, "no chat template; allowed: template: qwen_math, none"),
        (
            {"chat_template": "{{ messages[0]['content'][0]['text']['x'] }}"},
            "does not take messages of text",
        ),
    ],
)
def test_a_model_without_end_token_or_template_is_an_error(
    tmp_path: Path, keys: dict[str, Any], message: str
) -> None:
    write(FAMILIES["OLMo 2"], tmp_path, **keys)
    with pytest.raises(InputError, match=message):
        keep_template(tmp_path, [])
