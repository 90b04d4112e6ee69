"""Verdicts and rewards of the responses to each problem, of which there may be unequal numbers."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from rspo.config.names import Metric
from rspo.core.errors import InputError
from rspo.estimators import (
    max_at_k,
    max_at_k_variance,
    pass_at_k,
    pass_at_k_variance,
    pass_hat_k,
    pass_hat_k_variance,
)
from rspo.evaluation.score_arrays import ScoreArrays
from rspo.evaluation.statistics import Floats


@dataclass(frozen=True)
class _Group:
    """The problems with the same number of responses: their indices, and [problems, responses]."""

    problems: NDArray[np.int64]
    correct: NDArray[np.bool_]
    rewards: Floats

    def estimates(self, metric: Metric, k: int) -> Floats:
        if metric == "max_at_k":
            return max_at_k(self.rewards, k)
        estimate = pass_hat_k if metric == "pass_hat_k" else pass_at_k
        return estimate(self.correct.shape[1], self.correct.sum(axis=1), k)

    def variances(self, metric: Metric, k: int) -> Floats:
        if metric == "max_at_k":
            return max_at_k_variance(self.rewards, k)
        variance = pass_hat_k_variance if metric == "pass_hat_k" else pass_at_k_variance
        return variance(self.correct.shape[1], self.correct.sum(axis=1), k)


@dataclass(frozen=True)
class Outcomes:
    """Outcomes of P problems, those of one benchmark after another.

    names: [P], each once; empty if nobody needs them.
    correct, rewards: for each problem an array with one value for each of its responses.
    strata: number of problems of each benchmark.
    has_rewards: False for verdicts alone, whose rewards are 1 and 0.
    answers: for each problem the answer of each response, None if it has none; None if unknown.
    """

    names: tuple[str, ...]
    correct: list[NDArray[np.bool_]]
    rewards: list[Floats]
    strata: tuple[int, ...]
    has_rewards: bool = True
    answers: list[list[str | None]] | None = None

    @classmethod
    def of(cls, scores: ScoreArrays) -> "Outcomes":
        """The same scores, of equal numbers of responses."""
        return cls(scores.ids, list(scores.correct), list(scores.rewards), scores.strata)

    @cached_property
    def responses(self) -> NDArray[np.int64]:
        """Number of responses to each problem, [P]."""
        return np.array([len(values) for values in self.correct], dtype=np.int64)

    def estimates(self, metric: Metric, k: int) -> Floats:
        """Pass@k or Max@k of each problem, [P]; NaN where it has fewer than k responses.

        Raises: InputError for a k below 1, or above every problem's number of responses.
        """
        return self._of_groups(k, lambda group: group.estimates(metric, k))

    def variances(self, metric: Metric, k: int) -> Floats:
        """Variances of `estimates` over new responses, [P]; NaN below 2k responses."""
        return self._of_groups(k, lambda group: group.variances(metric, k))

    def select(self, problems: NDArray[np.int64]) -> "Outcomes":
        """The problems at these indices; a benchmark of which none is left is dropped."""
        stratum = np.repeat(np.arange(len(self.strata)), self.strata)[problems]
        return Outcomes(
            tuple(self.names[index] for index in problems.tolist()) if self.names else (),
            [self.correct[index] for index in problems.tolist()],
            [self.rewards[index] for index in problems.tolist()],
            tuple(int(size) for size in np.bincount(stratum) if size),
        )

    @cached_property
    def _groups(self) -> list[_Group]:
        groups = []
        for number in np.unique(self.responses):
            problems = np.flatnonzero(self.responses == number)
            correct = np.stack([self.correct[index] for index in problems])
            rewards = np.stack([self.rewards[index] for index in problems])
            groups.append(_Group(problems, correct, rewards))
        return groups

    def _of_groups(self, k: int, values: Callable[[_Group], Floats]) -> Floats:
        most = int(self.responses.max())
        if not 1 <= k <= most:
            raise InputError(f"k = {k} with n = {most} samples; allowed: 1 <= k <= n")
        result = np.full(len(self.responses), np.nan)
        for group in self._groups:
            if group.correct.shape[1] >= k:
                result[group.problems] = values(group)
        return result
