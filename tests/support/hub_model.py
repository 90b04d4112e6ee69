"""A published model for tests: Qwen2 with a byte-level tokenizer and weights with a known output.

Each token alone decides which tokens can follow, all with the same probability: attention and
feed-forward are zero, and the output layer is the solution of a linear system.
"""

import json
from collections.abc import Mapping
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from rspo.policies import qwen2
from rspo.policies.qwen2 import ModelConfig, Qwen2

END, START, STOP = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
CONTEXT = 8192

# After the prompt's last newline: \boxed{, some digits, }, the end token.
ANSWER: dict[str, list[str]] = {
    **{a: [b] for a, b in zip("\n\\boxed", "\\boxed{", strict=True)},
    "{": list("0123456789"),
    **{digit: [*"0123456789", "}"] for digit in "0123456789"},
    "}": [END],
}
# "Correct" with two r in a quarter of all replies, otherwise with one, three or more.
VERDICT: dict[str, list[str]] = {
    **{a: [b] for a, b in zip("\nCo", "Cor", strict=True)},
    "r": ["r", "e"],
    **{a: [b] for a, b in zip("ec", "ct", strict=True)},
    "t": [END],
}


def write(folder: Path, next_tokens: Mapping[str, list[str]]) -> None:
    """Write config, weights and tokenizer, with a chat template that must be replaced."""
    tokenizer = _tokenizer()
    folder.mkdir(parents=True, exist_ok=True)
    ids = {text: tokenizer.encode(text).ids[0] for text in _texts(next_tokens)}
    end = ids.get(END, tokenizer.token_to_id(END))
    qwen2.save(_model(tokenizer, next_tokens, ids), folder, {"eos_token_id": end})
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {
        "tokenizer_class": "Qwen2Tokenizer",
        "eos_token": END,
        "pad_token": END,
        "chat_template": "a published template",
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    (folder / "chat_template.jinja").write_text("a published template in a file")


def _texts(next_tokens: Mapping[str, list[str]]) -> set[str]:
    return {*next_tokens, *(text for texts in next_tokens.values() for text in texts)}


def _tokenizer() -> Tokenizer:
    symbols = [*sorted(pre_tokenizers.ByteLevel.alphabet()), END, START, STOP]
    vocabulary = {symbol: index for index, symbol in enumerate(symbols)}
    tokenizer = Tokenizer(models.BPE(vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([END, START, STOP])
    return tokenizer


@torch.no_grad()
def _model(
    tokenizer: Tokenizer, next_tokens: Mapping[str, list[str]], ids: dict[str, int]
) -> Qwen2:
    size = tokenizer.get_vocab_size()
    model = Qwen2(
        ModelConfig(
            size, 64, 2, 2, 2, 64, max_position_embeddings=CONTEXT, tie_word_embeddings=False
        )
    )
    model.initialise(0.2, torch.Generator().manual_seed(0))
    for layer in model.layers:
        layer.attention_out.weight.zero_()
        layer.down.weight.zero_()
    wanted = torch.full((len(next_tokens), size), -30.0)
    for row, texts in enumerate(next_tokens.values()):
        wanted[row, [ids[text] for text in texts]] = 0.0
    embedded = model.embedding.weight[[ids[text] for text in next_tokens]]
    normed = torch.nn.functional.rms_norm(embedded, (64,), eps=model.config.rms_norm_eps)
    model.head.weight.copy_((torch.linalg.pinv(normed) @ wanted).T)
    return model
