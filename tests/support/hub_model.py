"""A published model for tests: Qwen2 with a byte-level tokenizer and weights with a known output.

Each token alone decides which tokens can follow, all with the same probability: the output layer is
the solution of a linear system, and attention and feed-forward add nothing, or little.
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
SYMBOLS = [*sorted(pre_tokenizers.ByteLevel.alphabet()), END, START, STOP]
# The smallest, whose heads vLLM supports on a CPU.
TINY = ModelConfig(
    vocab_size=len(SYMBOLS),
    hidden_size=64,
    num_hidden_layers=2,
    num_attention_heads=2,
    num_key_value_heads=2,
    intermediate_size=64,
    max_position_embeddings=CONTEXT,
    tie_word_embeddings=False,
)

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


def write(
    folder: Path,
    next_tokens: Mapping[str, list[str]],
    shape: ModelConfig = TINY,
    deviation: float = 0.2,
    mixing: float = 0.0,
    dtype: torch.dtype = torch.float32,
) -> None:
    """Write config, weights and tokenizer, with a chat template that must be replaced.

    Args:
        next_tokens: the tokens that can follow each token.
        shape: its vocabulary may be larger than the tokenizer's; the other tokens never follow.
        deviation: the standard deviation of the random weights.
        mixing: factor of what attention and feed-forward add to the random embeddings. Small
            values change the probabilities of `next_tokens` only a little.
        dtype: of the weights in the file.
    """
    tokenizer = _tokenizer()
    folder.mkdir(parents=True, exist_ok=True)
    ids = {text: tokenizer.encode(text).ids[0] for text in _texts(next_tokens)}
    end = ids.get(END, tokenizer.token_to_id(END))
    model = _model(shape, deviation, mixing, next_tokens, ids)
    model.stored_dtype = dtype
    qwen2.save(model, folder, {"eos_token_id": end})
    config_file = folder / "config.json"
    model_config = json.loads(config_file.read_text())
    model_config["dtype"] = str(dtype).removeprefix("torch.")
    config_file.write_text(json.dumps(model_config, indent=1) + "\n")
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
    vocabulary = {symbol: index for index, symbol in enumerate(SYMBOLS)}
    tokenizer = Tokenizer(models.BPE(vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([END, START, STOP])
    return tokenizer


@torch.no_grad()
def _model(
    shape: ModelConfig,
    deviation: float,
    mixing: float,
    next_tokens: Mapping[str, list[str]],
    ids: dict[str, int],
) -> Qwen2:
    model = Qwen2(shape)
    model.initialise(deviation, torch.Generator().manual_seed(0))
    for layer in model.layers:
        layer.attention_out.weight.mul_(mixing)
        layer.down.weight.mul_(mixing)
    wanted = torch.full((len(next_tokens), shape.vocab_size), -30.0)
    for row, texts in enumerate(next_tokens.values()):
        wanted[row, [ids[text] for text in texts]] = 0.0
    embedded = model.embedding.weight[[ids[text] for text in next_tokens]]
    size = (shape.hidden_size,)
    normed = torch.nn.functional.rms_norm(embedded, size, eps=shape.rms_norm_eps)
    model.head.weight.copy_((torch.linalg.pinv(normed) @ wanted).T)
    return model
