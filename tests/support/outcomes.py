"""Outcomes of made-up problems."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from rspo.evaluation.outcomes import Outcomes


def outcomes_of(
    correct: Sequence[Any],
    rewards: Sequence[Any] | None = None,
    sizes: tuple[int, ...] = (),
) -> Outcomes:
    """Outcomes of the problems p0, p1, ...

    Args:
        correct: for each problem the verdicts on its responses.
        rewards: their rewards; default: 1 and 0.
        sizes: number of problems of each benchmark; default: one benchmark.
    """
    problem = np.repeat(np.arange(len(correct)), [len(of) for of in correct])
    made = Outcomes.of_rows(
        [f"p{row}" for row in range(len(correct))],
        problem,
        np.concatenate([*correct]),
        np.concatenate([*(correct if rewards is None else rewards)]),
    )
    return replace(made, strata=sizes or made.strata)
