"""flash-attn against PyTorch's attention: packed sequences, forward and backward."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention


@dataclass(frozen=True)
class Shape:
    """Heads of queries, heads of keys and values, and their size."""

    heads: int
    key_value_heads: int
    size: int


SHAPES = {
    "SmolLM2-135M": Shape(9, 3, 64),
    "Qwen2.5-Math-1.5B": Shape(12, 2, 128),
    "Qwen2.5-Math-7B": Shape(28, 4, 128),
}
# On both sides of the kernels' blocks.
LENGTHS = (1, 63, 64, 130, 517)
# flash-attn's own tests allow three times PyTorch's rounding error for gradients.
ALLOWED = 3.0

# query, key, value (tokens, heads, head size) and the sequences' lengths -> (tokens, heads, size)
Attention = Callable[[Tensor, Tensor, Tensor, Sequence[int]], Tensor]


def flash_attention(query: Tensor, key: Tensor, value: Tensor, lengths: Sequence[int]) -> Tensor:
    """The function of flash-attn that transformers calls for packed sequences."""
    from flash_attn import flash_attn_varlen_func

    ends = torch.tensor([0, *lengths], device=query.device).cumsum(0).int()
    longest = max(lengths)
    output: Tensor = flash_attn_varlen_func(
        query, key, value, ends, ends, longest, longest, causal=True
    )
    return output


def torch_attention(query: Tensor, key: Tensor, value: Tensor, lengths: Sequence[int]) -> Tensor:
    """The same, one sequence after the other."""
    groups = query.shape[1] // key.shape[1]
    sequences = zip(
        query.split(list(lengths)),
        key.split(list(lengths)),
        value.split(list(lengths)),
        strict=True,
    )
    parts = []
    for q, k, v in sequences:
        # (1, heads, tokens, head size)
        q = q.transpose(0, 1)[None]
        k = k.repeat_interleave(groups, dim=1).transpose(0, 1)[None]
        v = v.repeat_interleave(groups, dim=1).transpose(0, 1)[None]
        parts.append(scaled_dot_product_attention(q, k, v, is_causal=True)[0].transpose(0, 1))
    return torch.cat(parts)


def rounding_ratio(attention: Attention, device: str, shape: Shape) -> float:
    """The largest error in bfloat16, over that of PyTorch's attention in bfloat16.

    Compares the output and the three gradients with PyTorch's attention in float32.
    """
    exact = _results(torch_attention, device, torch.float32, shape)
    rounded = _results(torch_attention, device, torch.bfloat16, shape)
    ours = _results(attention, device, torch.bfloat16, shape)
    ratios = []
    for own, other, true in zip(ours, rounded, exact, strict=True):
        ratio = _error(own, true) / _error(other, true).clamp(min=1e-6)
        ratios.append(ratio.item())
    if any(math.isnan(ratio) for ratio in ratios):
        return math.nan
    return max(ratios)


def _error(values: Tensor, exact: Tensor) -> Tensor:
    return (values.float() - exact).abs().max()


def _results(attention: Attention, device: str, dtype: torch.dtype, shape: Shape) -> list[Tensor]:
    """The output and the gradients of query, key and value, for the same random numbers."""
    draw = torch.Generator().manual_seed(0)
    tokens = sum(LENGTHS)

    def normal(heads: int) -> Tensor:
        # Rounded to bfloat16, so that all types compute with the same numbers.
        values = torch.randn(tokens, heads, shape.size, generator=draw).bfloat16()
        return values.to(device, dtype)

    query = normal(shape.heads).requires_grad_()
    key = normal(shape.key_value_heads).requires_grad_()
    value = normal(shape.key_value_heads).requires_grad_()
    output = attention(query, key, value, LENGTHS)
    gradients = torch.autograd.grad(output, [query, key, value], normal(shape.heads))
    return [output.detach(), *gradients]
