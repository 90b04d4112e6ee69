"""The section Method: the weights of one group of eight responses, as the objectives give them."""

from dataclasses import dataclass

from rspo.objectives import response_weights

K = 4
CORRECT = (False, True, False, True, False, False, False, False)
# The rows of the example: an objective, and its name on the page.
_OBJECTIVES = {
    "policy_gradient": "PG",
    "hitchhiking": "baseline",
    "rspo_pass_at_k": "RSPO",
}


@dataclass(frozen=True)
class Example:
    """Weights of n responses, as text, by objective; the baseline's groups are of k responses."""

    k: int
    n: int
    correct: tuple[bool, ...]
    weights: dict[str, list[str]]


def example() -> Example:
    """The example of the page: two of eight responses are right, both in the first group of k."""
    weights = {
        name: [_short(weight) for weight in response_weights(CORRECT, objective, K)]
        for objective, name in _OBJECTIVES.items()
    }
    return Example(K, len(CORRECT), CORRECT, weights)


def _short(weight: float) -> str:
    """Three digits, such as .125."""
    return f"{weight:.3g}".removeprefix("0") or "0"
