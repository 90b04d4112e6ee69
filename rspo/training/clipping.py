"""Warn if the gradient clip determined a training: it was active in most updates."""

from collections.abc import Mapping

_ALLOWED = 0.5


def clipping_warning(fractions: Mapping[str, float], limit: float | None) -> str:
    """A sentence that names the cells with more than half of their gradients clipped, or "".

    Args:
        fractions: by cell, of its updates whose gradient was clipped.
        limit: training.optimizer.gradient_clip.
    """
    clipped = [f"{name} ({part:.0%})" for name, part in fractions.items() if part > _ALLOWED]
    if not clipped:
        return ""
    return (
        f"training.optimizer.gradient_clip = {limit} shortened the gradients of more than half of "
        f"the updates, to the same norm: {', '.join(clipped)}."
    )
