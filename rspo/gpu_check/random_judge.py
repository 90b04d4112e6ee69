"""Tiny Qwen2 with random weights: a judge for machines without xVerify's, and a policy."""

from pathlib import Path

import torch

from rspo.core.errors import InputError
from rspo.policies import qwen2
from rspo.policies.qwen2 import ModelConfig, Qwen2
from rspo.policies.templates import TEMPLATES, set_template
from rspo.policies.tokenizer import ChatTokenizer

CONTEXT = 8192
_SIZE, _LOGIT = 64, 20.0
_TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json")


@torch.no_grad()
def write_random_judge(folder: Path, policy: Path) -> None:
    """Write a tiny Qwen2 that replies "correct" or "incorrect" to any prompt, with equal odds.

    Only the last token decides about the next one: one of the two words ends the reply, and any
    other token precedes one of them.

    Args:
        policy: a folder with a tokenizer that has both words as tokens.
    """
    tokenizer = _copy_tokenizer(policy, folder)
    verdicts = [_token_of(tokenizer, word) for word in ("correct", "incorrect")]
    config = ModelConfig(
        *(tokenizer.size, _SIZE, 2, 1, 1, _SIZE, CONTEXT), tie_word_embeddings=False
    )
    model = Qwen2(config)
    model.initialise(0.02, torch.Generator().manual_seed(0))
    for name, parameter in model.named_parameters():
        if name.endswith(("attention_out.weight", "down.weight")):
            parameter.zero_()
    model.embedding.weight.zero_()
    model.embedding.weight[:, 0] = 1
    model.embedding.weight[verdicts] = torch.eye(_SIZE)[1]
    scale = _LOGIT / _SIZE**0.5  # of a normalized vector with one component
    model.head.weight.zero_()
    model.head.weight[verdicts, 0] = scale
    model.head.weight[tokenizer.end, 1] = scale
    qwen2.save(model, folder, {"eos_token_id": tokenizer.end})


def write_random_policy(folder: Path, policy: Path) -> None:
    """Write a tiny Qwen2, with the tokenizer of `policy`, that has tokens of all probabilities."""
    tokenizer = _copy_tokenizer(policy, folder)
    model = Qwen2(ModelConfig(tokenizer.size, 2 * _SIZE, 2, 2, 1, 2 * _SIZE, CONTEXT))
    model.initialise(0.2, torch.Generator().manual_seed(0))
    qwen2.save(model, folder, {"eos_token_id": tokenizer.end})


def _copy_tokenizer(policy: Path, folder: Path) -> ChatTokenizer:
    folder.mkdir(parents=True, exist_ok=True)
    for name in _TOKENIZER_FILES:
        (folder / name).write_bytes((policy / name).read_bytes())
    set_template(folder, TEMPLATES["qwen_math"])
    return ChatTokenizer(folder)


def _token_of(tokenizer: ChatTokenizer, word: str) -> int:
    """The first token that is a word, with any case and spaces around it.

    Raises: InputError if the tokenizer has none.
    """
    texts = tokenizer.decode([[token] for token in range(tokenizer.size)])
    for token, text in enumerate(texts):
        if text.strip().lower() == word:
            return token
    raise InputError(f"the tokenizer has no token for {word!r}")
