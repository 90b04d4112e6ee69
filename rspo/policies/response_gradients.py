"""grad log pi(y|x) of single responses: what every objective multiplies by a weight and adds up.

For models that one CPU can train; the gradients of B responses are B rows as long as the model.
"""

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

from rspo.policies.qwen2 import Qwen2, response_logits

# Responses whose gradients are taken together; more than fits the cache of a core is slower.
CHUNK = 64


class _LogProbability(nn.Module):
    """log pi(y|x) of one response, summed over its tokens, as a function of the parameters."""

    def __init__(self, model: Qwen2, temperature: float) -> None:
        super().__init__()
        self.model, self.temperature = model, temperature

    def forward(self, prompt: Tensor, tokens: Tensor, mask: Tensor) -> Tensor:
        """prompt (L,), tokens (T,) padded at the end, mask (T,) -> a number."""
        only = torch.zeros(1, dtype=torch.long)
        logits = response_logits(self.model, prompt[None], only, tokens[None])[0]
        log_probs = torch.log_softmax(logits / self.temperature, dim=-1)
        chosen = log_probs.gather(-1, tokens[:, None])[:, 0]
        return torch.where(mask, chosen, 0.0).sum()


def response_gradients(
    model: Qwen2, prompt: Tensor, tokens: Tensor, mask: Tensor, temperature: float = 1.0
) -> Tensor:
    """The gradient of each response's log-probability with respect to all parameters.

    Args:
        prompt: (L,) ids.
        tokens: (B, T) ids of responses to it, padded at the end.
        mask: (B, T) bool, which positions hold a token.
        temperature: that the responses were sampled at; the policy is the distribution there.

    Returns: (B, parameters), in the order of `model.named_parameters()`.
    """
    function = _LogProbability(model, temperature)
    parameters = {name: value.detach() for name, value in function.named_parameters()}

    def log_probability(parameters: dict[str, Tensor], tokens: Tensor, mask: Tensor) -> Tensor:
        found: Tensor = functional_call(function, parameters, (prompt, tokens, mask))
        return found

    of_each = vmap(grad(log_probability), in_dims=(None, 0, 0))
    chunks = []
    for some, their_mask in zip(tokens.split(CHUNK), mask.split(CHUNK), strict=True):
        longest = int(their_mask.sum(dim=1).max())
        # The fused attention has no batched gradient: PyTorch would take one response at a time.
        with sdpa_kernel(SDPBackend.MATH):
            gradients = of_each(parameters, some[:, :longest], their_mask[:, :longest])
        chunks.append(torch.cat([value.flatten(1) for value in gradients.values()], dim=1))
    return torch.cat(chunks)
