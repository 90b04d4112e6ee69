"""Memory of the actor on a GPU, from models of the paper's width and vocabulary with two layers.

rspo/training/verl/cuda.yaml and docs/verl.md state how much memory its weights, logits and
activations take. Here the tensors of a real forward and backward pass are counted, on a CPU.
"""

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from transformers import Qwen2Config, Qwen2ForCausalLM

from benchmarks import Row

# Qwen2.5-Math-1.5B.
LAYERS, VOCABULARY = 28, 151_936
CONFIG = {
    "hidden_size": 1536,
    "intermediate_size": 8960,
    "num_attention_heads": 12,
    "num_key_value_heads": 2,
    "vocab_size": VOCABULARY,
    "tie_word_embeddings": True,
}
TOKENS = 32_768  # ppo_max_token_len_per_gpu
GPU = 80e9
SHORT, LONG = 128, 256  # tokens; differences leave out what does not grow with them


def run() -> list[Row]:
    one, two = (
        Qwen2ForCausalLM(Qwen2Config(**CONFIG, num_hidden_layers=layers)).to(torch.bfloat16)
        for layers in (1, 2)
    )
    per_token = {
        recomputed: _slope(two, recomputed) - _slope(one, recomputed)
        for recomputed in (False, True)
    }
    logits = two(torch.zeros(1, SHORT, dtype=torch.long)).logits
    logit_bytes = logits.nbytes / SHORT * TOKENS
    all_layers = {name: size * LAYERS * TOKENS for name, size in per_token.items()}
    state = _training_state()
    return [
        Row(
            "bytes of weights, gradients and Adam's moments, per parameter",
            f"{state:.4g}",
            "16",
            state == 16,
        ),
        Row(
            f"logits of {TOKENS:,} tokens",
            f"{logit_bytes / 1e9:.1f} GB",
            "10 GB",
            round(logit_bytes / 1e9) == 10,
        ),
        Row(
            f"activations of {LAYERS} layers for {TOKENS:,} tokens, kept",
            f"{all_layers[False] / 1e9:.1f} GB ({per_token[False]:,.0f} bytes per token and layer)",
            "more than a GPU's 80 GB",
            all_layers[False] > GPU,
        ),
        Row(
            "the same, recomputed from each layer's input",
            f"{all_layers[True] / 1e9:.1f} GB ({per_token[True]:,.0f} bytes per token and layer)",
            "<= 3 GB",
            all_layers[True] <= 3e9,
        ),
    ]


def _slope(model: Qwen2ForCausalLM, recomputed: bool) -> float:
    """Bytes that the layers keep for the backward pass, per token."""
    if recomputed:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    model.train()
    sizes = [_kept(model, tokens) for tokens in (SHORT, LONG)]
    model.gradient_checkpointing_disable()
    return (sizes[1] - sizes[0]) / (LONG - SHORT)


def _kept(model: Qwen2ForCausalLM, tokens: int) -> int:
    """Bytes of all tensors that a forward pass of the layers keeps, weights excluded."""
    weights = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    kept: dict[int, Tensor] = {}  # holds the tensors, so that no address is used twice

    def pack(tensor: Tensor) -> Tensor:
        if tensor.untyped_storage().data_ptr() not in weights:
            kept[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    embedded = torch.randn(1, tokens, CONFIG["hidden_size"], dtype=torch.bfloat16)
    with saved_tensors_hooks(pack, lambda tensor: tensor):
        model.model(inputs_embeds=embedded.requires_grad_())
    return sum(tensor.untyped_storage().nbytes() for tensor in kept.values())


def _training_state() -> float:
    """Bytes per parameter of float32 weights after a step of Adam."""
    layer = torch.nn.Linear(1024, 1024, bias=False)
    optimizer = torch.optim.AdamW(layer.parameters())
    layer(torch.ones(1, 1024)).sum().backward()
    optimizer.step()
    weight = layer.weight
    assert weight.grad is not None
    moments = [value for value in optimizer.state[weight].values() if value.shape == weight.shape]
    return sum(tensor.nbytes for tensor in (weight, weight.grad, *moments)) / weight.numel()
