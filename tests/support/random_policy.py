"""A random tiny Qwen2 and its folder, for tests of samplers and models."""

from pathlib import Path

import torch

from rspo.policies import qwen2
from rspo.policies.qwen2 import ModelConfig, Qwen2
from rspo.policies.tokenizer import save_tokenizer

END, PAD = 1, 0
VOCABULARY, PROMPT, CONTEXT = 35, 10, 28


def random_model(
    num_key_value_heads: int = 2,
    tie_word_embeddings: bool = True,
    deviation: float = 0.2,
    context: int = CONTEXT,
) -> Qwen2:
    """Two layers; the initial weights have the given standard deviation."""
    config = ModelConfig(
        *(VOCABULARY, 64, 2, 2, num_key_value_heads, 192, context),
        tie_word_embeddings=tie_word_embeddings,
    )
    model = Qwen2(config)
    model.initialise(deviation, torch.Generator().manual_seed(0))
    return model


def peaked_model(num_key_value_heads: int = 2, tie_word_embeddings: bool = True) -> Qwen2:
    """A random model with attention and distributions far from uniform."""
    model = random_model(num_key_value_heads, tie_word_embeddings)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "bias" in name or "norm" in name:
                parameter.add_(torch.randn(parameter.shape) * 0.3)
    return model


def save_policy(model: Qwen2, folder: Path) -> Path:
    """Write a model and the tiny tokenizer as a policy folder; return it."""
    save_tokenizer(folder, PROMPT, model.config.max_position_embeddings)
    qwen2.save(model, folder, {"eos_token_id": END, "pad_token_id": PAD})
    return folder
