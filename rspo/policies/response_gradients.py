"""grad log pi(y|x) of single responses, of which every objective is a weighted sum.

For models that one CPU can train: each gradient has as many elements as the model has parameters.
"""

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

from rspo.policies.qwen2 import Qwen2, response_logits

# Responses per call of vmap; a chunk that exceeds the cache of a core is slower.
CHUNK = 64


class _LogProbability(nn.Module):
    """log pi(y|x) of one response, summed over its tokens, as a function of the parameters."""

    def __init__(self, model: Qwen2, temperature: float) -> None:
        super().__init__()
        self.model, self.temperature = model, temperature

    def forward(self, prompt: Tensor, tokens: Tensor, mask: Tensor) -> Tensor:
        """prompt (L,), tokens (T,) padded at the end, mask (T,) -> a scalar."""
        prompt_of = torch.zeros(1, dtype=torch.long)
        logits = response_logits(self.model, prompt[None], prompt_of, tokens[None])[0]
        log_probs = torch.log_softmax(logits / self.temperature, dim=-1)
        chosen = log_probs.gather(-1, tokens[:, None])[:, 0]
        return torch.where(mask, chosen, 0.0).sum()


def response_gradients(
    model: Qwen2, prompt: Tensor, tokens: Tensor, mask: Tensor, temperature: float = 1.0
) -> Tensor:
    """The gradient of each response's log-probability with respect to all parameters.

    Args:
        prompt: (L,) ids.
        tokens: (B, T) ids of the responses, padded at the end.
        mask: (B, T) bool, true at tokens and false at padding.
        temperature: of sampling; the policy is the distribution at this temperature.

    Returns: (B, parameters), in the order of `model.named_parameters()`.
    """
    function = _LogProbability(model, temperature)
    parameters = {name: value.detach() for name, value in function.named_parameters()}

    def log_probability(parameters: dict[str, Tensor], tokens: Tensor, mask: Tensor) -> Tensor:
        result: Tensor = functional_call(function, parameters, (prompt, tokens, mask))
        return result

    gradient_of_each = vmap(grad(log_probability), in_dims=(None, 0, 0))
    chunks = []
    for chunk, chunk_mask in zip(tokens.split(CHUNK), mask.split(CHUNK), strict=True):
        longest = int(chunk_mask.sum(dim=1).max())
        # Fused attention has no batched gradient: PyTorch would process one response at a time.
        with sdpa_kernel(SDPBackend.MATH):
            gradients = gradient_of_each(parameters, chunk[:, :longest], chunk_mask[:, :longest])
        chunks.append(torch.cat([value.flatten(1) for value in gradients.values()], dim=1))
    return torch.cat(chunks)
