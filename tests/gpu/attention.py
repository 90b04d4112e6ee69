"""flash-attn against PyTorch's attention: packed sequences, forward and backward."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

# Of SmolLM2-135M, with grouped queries. Lengths on both sides of the kernels' blocks.
HEADS, KEY_VALUE_HEADS, SIZE = 9, 3, 64
LENGTHS = (1, 63, 64, 130, 517)
# flash-attn's own tests allow three times PyTorch's rounding error for gradients.
ALLOWED = 3.0

# query, key, value (tokens, heads, head size) and the sequences' lengths -> (tokens, heads, size)
Attention = Callable[[Tensor, Tensor, Tensor, Sequence[int]], Tensor]


def flash_attention(query: Tensor, key: Tensor, value: Tensor, lengths: Sequence[int]) -> Tensor:
    """The function of flash-attn that transformers calls for packed sequences."""
    from flash_attn import flash_attn_varlen_func

    ends = torch.tensor([0, *lengths], device=query.device).cumsum(0).int()
    output: Tensor = flash_attn_varlen_func(
        *(query, key, value, ends, ends, max(lengths), max(lengths)), causal=True
    )
    return output


def torch_attention(query: Tensor, key: Tensor, value: Tensor, lengths: Sequence[int]) -> Tensor:
    """The same, one sequence after the other."""
    groups = query.shape[1] // key.shape[1]
    parts = []
    for q, k, v in zip(*(x.split(list(lengths)) for x in (query, key, value)), strict=True):
        k, v = (x.repeat_interleave(groups, dim=1) for x in (k, v))
        q, k, v = (x.transpose(0, 1)[None] for x in (q, k, v))
        parts.append(scaled_dot_product_attention(q, k, v, is_causal=True)[0].transpose(0, 1))
    return torch.cat(parts)


def rounding_ratio(attention: Attention, device: str) -> float:
    """The largest error in bfloat16, over that of PyTorch's attention in bfloat16.

    Compares the output and the three gradients with PyTorch's attention in float32.
    """
    exact = _results(torch_attention, device, torch.float32)
    rounded = _results(torch_attention, device, torch.bfloat16)
    ours = _results(attention, device, torch.bfloat16)
    ratios = [
        (_error(own, true) / _error(other, true).clamp(min=1e-6)).item()
        for own, other, true in zip(ours, rounded, exact, strict=True)
    ]
    return max(ratios) if all(ratio == ratio for ratio in ratios) else float("nan")


def _error(values: Tensor, exact: Tensor) -> Tensor:
    return (values.float() - exact).abs().max()


def _results(attention: Attention, device: str, dtype: torch.dtype) -> list[Tensor]:
    """The output and the gradients of query, key and value, for the same random numbers."""
    draw = torch.Generator().manual_seed(0)
    tokens = sum(LENGTHS)

    def normal(heads: int) -> Tensor:
        return torch.randn(tokens, heads, SIZE, generator=draw).bfloat16()

    query, key, value = inputs = [
        normal(heads).to(device, dtype).requires_grad_()
        for heads in (HEADS, KEY_VALUE_HEADS, KEY_VALUE_HEADS)
    ]
    output = attention(query, key, value, LENGTHS)
    gradients = torch.autograd.grad(output, inputs, normal(HEADS).to(device, dtype))
    return [output.detach(), *gradients]
