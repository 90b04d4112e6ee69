"""Warn if the sampler's log-probabilities are not those of the actor, which has the same weights.

They differ by rounding. With older weights, a wrong kernel or a wrong type they differ by more, and
there is no other sign of it.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

# Of the mean absolute difference, nats per token. In bfloat16, right samplers have 0.004 (the tiny
# models) to 0.01 (SmolLM2-135M) on a CPU.
MOST = 0.05
# In the first step, both have read the same files, so its difference is that of rounding. With
# weights that are one step old, it is six times as large in a tiny cell in bfloat16.
_TIMES_FIRST = 3
_LEAST = 0.001  # far above the rounding of float32


def steps_above(records: Sequence[Mapping[str, Any]]) -> list[int]:
    """The steps whose difference is above the bound."""
    measured = {
        record["step"]: record["sampler"]["difference"]
        for record in records
        if isinstance(record.get("sampler"), Mapping)
    }
    first = next(filter(math.isfinite, measured.values()), MOST)
    bound = min(MOST, max(_LEAST, _TIMES_FIRST * first))
    return [step for step, difference in measured.items() if not difference <= bound]  # or NaN


def sampler_warning(logs: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """A sentence that names the cells that have a step above the bound, or "" if none has."""
    above = {name: steps_above(records) for name, records in logs.items()}
    found = [f"{name} ({len(at)} steps, first {at[0]})" for name, at in above.items() if at]
    if not found:
        return ""
    return (
        "The log-probabilities of the sampler and the actor differ by more than "
        f"{_TIMES_FIRST} times the first step's difference or {MOST:g}, so the sampler may not "
        f"have the actor's weights: {', '.join(found)}."
    )
