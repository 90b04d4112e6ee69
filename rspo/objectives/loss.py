"""The loss of a policy whose responses are weighted, for a trainer of your own in PyTorch."""

import math
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch


ROUNDING = 0.1  # how far above 0 the log-probability of a certain token may be in bfloat16, in nats


def policy_loss(
    log_probs: "torch.Tensor",
    mask: "torch.Tensor",
    weights: "torch.Tensor | NDArray[Any]",
    *,
    max_tokens: int,
    old_log_probs: "torch.Tensor | None" = None,
    clip: float = 0.2,
) -> "torch.Tensor":
    """The loss whose gradient is that of Algorithm 1 of the paper, divided by -`max_tokens`.

    With P prompts, n responses and T = max_tokens:

        -1/(P T) sum_x sum_i w_i sum_t log pi(y_t^i | x, y_<t^i)

    T is a constant, so that long and short responses count as in the paper: a mean over tokens
    would give short responses larger gradients. max_tokens=1 gives the paper's gradient itself.

    If the policy was updated since it sampled the responses, pass the log-probabilities that their
    tokens had at that time as `old_log_probs`. The gradient at the parameters that sampled is the
    same, but the loss is now that of PPO with clipped ratios (Schulman et al. 2017, equation 7):

        -1/(P T) sum_x sum_i sum_t min(w_i r_t^i, w_i clip(r_t^i, 1 - clip, 1 + clip))
        r_t^i = pi(y_t^i | x, y_<t^i) / pi_old(y_t^i | x, y_<t^i)

    Args:
        log_probs: (P, n, tokens), natural logarithms, at the temperature of sampling; of a floating
            dtype. Values where the mask is 0 have no effect.
        mask: (P, n, tokens), true or 1 on the tokens of the response, its end token included.
        weights: (P, n), as `response_weights` returns them.
        max_tokens: T, the largest number of tokens that a response may have, or 1.
        old_log_probs: (P, n, tokens), log-probabilities under the policy that sampled. Gradients do
            not flow into them.
        clip: PPO's clip range around 1; used only with old_log_probs.

    Returns: a scalar, in float32 or in the dtype of log_probs if that has more bits.

    Raises:
        TypeError: log_probs is not a tensor of a floating dtype.
        ValueError: shapes that do not fit; a mask of other values than 0 and 1; weights that are
            not finite; log_probs or old_log_probs above 0 or not finite where the mask is 1;
            max_tokens below 1, or above 1 and less than the number of tokens of a response; clip
            not between 0 and 1.
    """
    import torch  # here, because the weights need numpy only

    if not isinstance(log_probs, torch.Tensor) or not log_probs.is_floating_point():
        got = getattr(log_probs, "dtype", None) or type(log_probs).__name__
        raise TypeError(f"log_probs must be a torch tensor of a floating dtype, got {got}")
    if log_probs.ndim != 3 or 0 in log_probs.shape[:2]:
        raise ValueError(f"log_probs must be (prompts, n, tokens), got {tuple(log_probs.shape)}")
    weights = torch.as_tensor(weights, device=log_probs.device).detach()
    expected = {"mask": (mask, 3), "weights": (weights, 2), "old_log_probs": (old_log_probs, 3)}
    for name, (tensor, ndim) in expected.items():
        if tensor is not None and tensor.shape != log_probs.shape[:ndim]:
            raise ValueError(
                f"{name} must be {tuple(log_probs.shape[:ndim])}, as log_probs is "
                f"{tuple(log_probs.shape)}; got {tuple(tensor.shape)}"
            )
    if max_tokens < 1:
        raise ValueError(f"max_tokens must be at least 1, got {max_tokens}")
    if not 0 < clip < 1:
        raise ValueError(f"clip must be between 0 and 1, got {clip}")
    if not ((mask == 0) | (mask == 1)).all():
        raise ValueError("mask must be 0 or 1")
    if not weights.isfinite().all():
        raise ValueError("weights must be finite")
    mask = mask.bool()
    # max_tokens = 1 is allowed in any case: it leaves out the division by T.
    longest = int(mask.sum(-1).max()) if mask.numel() else 0
    if 1 < max_tokens < longest:
        raise ValueError(f"max_tokens = {max_tokens}; a response has {longest} tokens in the mask")
    _require_log_probs(log_probs, mask, "log_probs")
    if old_log_probs is not None:
        _require_log_probs(old_log_probs, mask, "old_log_probs")
    # 16 bits are too few for the sum of many terms.
    dtype = torch.promote_types(log_probs.dtype, torch.float32)
    log_probs = log_probs.to(dtype)
    weights = weights.to(dtype)[..., None]
    # Values outside the mask may be NaN or infinite. They are replaced before the product or the
    # exponential, because NaN times 0 is NaN, in the gradient too.
    if old_log_probs is None:
        terms = weights * log_probs.where(mask, 0)
    else:
        ratio = (log_probs - old_log_probs.detach().to(dtype)).where(mask, 0).exp()
        terms = torch.minimum(weights * ratio, weights * ratio.clamp(1 - clip, 1 + clip))
    return -terms.where(mask, 0).sum() / (len(log_probs) * max_tokens)


def _require_log_probs(values: "torch.Tensor", mask: "torch.Tensor", name: str) -> None:
    """Raises: ValueError for a value above 0 or not finite where the mask is 1."""
    if values.numel() == 0:
        return
    lowest, largest = map(float, values.detach().where(mask, 0).aminmax())  # NaN if any is NaN
    if not (math.isfinite(lowest) and math.isfinite(largest)):
        raise ValueError(f"{name} must be finite where the mask is 1")
    if largest > ROUNDING:
        raise ValueError(f"{name} must be at most 0, got {largest:g}; are they logits?")
