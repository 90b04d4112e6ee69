"""Verdicts and rewards of the responses to problems, and what is estimated from them."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import numpy as np
from numpy.typing import ArrayLike, NDArray

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
from rspo.evaluation.statistics import Floats

# (indices of problems that have n responses each, n) -> a value for each of these problems.
_ValuesOfGroup = Callable[[NDArray[np.int64], int], Floats]


@dataclass(frozen=True)
class Outcomes:
    """Verdicts on the responses to P problems, and their rewards.

    The problems of each benchmark are together, one benchmark after another.

    ids: ids of the problems, [P]; no two problems of a benchmark have the same id.
    responses: number of responses to each problem, [P]. N is the largest number.
    correct, rewards: [P, N], the responses in their order, padded with False and 0.
    strata: number of problems of each benchmark.
    has_rewards: False if there are verdicts only, so that Max@k cannot be estimated.
    """

    ids: tuple[str, ...]
    responses: NDArray[np.int64]
    correct: NDArray[np.bool_]
    rewards: Floats
    strata: tuple[int, ...]
    has_rewards: bool = True

    @classmethod
    def of_rows(
        cls,
        ids: Iterable[str],
        problem: NDArray[np.int64],
        correct: ArrayLike,
        reward: ArrayLike,
        has_rewards: bool = True,
    ) -> "Outcomes":
        """Outcomes of one benchmark, from a row for each response.

        Args:
            problem: the index in `ids` of the problem of each row, [rows]. The rows of a problem
                need not be adjacent, but are in the order of its responses.
            correct, reward: verdict on the response in each row, and its reward, [rows].
        """
        order = np.argsort(problem, kind="stable")
        responses = np.bincount(problem)
        ends = np.cumsum(responses)
        row = problem[order]
        # The place of a response among those to its problem, whose rows are adjacent after sorting.
        column = np.arange(len(order)) - np.repeat(ends - responses, responses)
        shape = (len(responses), int(responses.max()))
        verdicts = np.zeros(shape, dtype=bool)
        verdicts[row, column] = np.asarray(correct, dtype=bool)[order]
        rewards = np.zeros(shape)
        rewards[row, column] = np.asarray(reward, dtype=np.float64)[order]
        return cls(tuple(ids), responses, verdicts, rewards, (len(responses),), has_rewards)

    @classmethod
    def pooled(cls, benchmarks: Iterable["Outcomes"]) -> "Outcomes":
        """All problems of some benchmarks, whose arrays must have the same width N."""
        parts = list(benchmarks)
        return cls(
            tuple(chain.from_iterable(part.ids for part in parts)),
            np.concatenate([part.responses for part in parts]),
            np.concatenate([part.correct for part in parts]),
            np.concatenate([part.rewards for part in parts]),
            tuple(chain.from_iterable(part.strata for part in parts)),
            all(part.has_rewards for part in parts),
        )

    def select(self, problems: NDArray[np.int64]) -> "Outcomes":
        """The outcomes of the problems at these indices. `strata` omits benchmarks without any."""
        benchmark = np.repeat(np.arange(len(self.strata)), self.strata)[problems]
        return Outcomes(
            tuple(self.ids[index] for index in problems.tolist()),
            self.responses[problems],
            self.correct[problems],
            self.rewards[problems],
            tuple(int(size) for size in np.bincount(benchmark) if size),
            self.has_rewards,
        )

    def estimates(self, metric: Metric, k: int) -> Floats:
        """The metric at k of each problem, [P]; NaN for a problem with fewer than k responses.

        Raises: InputError for Max@k without rewards, and for a k that is not between 1 and N.
        """
        if metric == "max_at_k" and not self.has_rewards:
            raise InputError("has no rewards, which Max@k needs")
        if metric == "max_at_k":
            return self._by_number(k, lambda rows, n: max_at_k(self.rewards[rows, :n], k))
        estimate = pass_hat_k if metric == "pass_hat_k" else pass_at_k
        return self._by_number(k, lambda rows, n: estimate(n, self.counts[rows], k))

    def variances(self, metric: Metric, k: int) -> Floats:
        """Variances of `estimates` over new responses, [P]; NaN for fewer than 2k responses."""
        if metric == "max_at_k":
            return self._by_number(k, lambda rows, n: max_at_k_variance(self.rewards[rows, :n], k))
        variance = pass_hat_k_variance if metric == "pass_hat_k" else pass_at_k_variance
        return self._by_number(k, lambda rows, n: variance(n, self.counts[rows], k))

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """Number of correct responses to each problem, [P]."""
        return self.correct.sum(axis=1)

    def _by_number(self, k: int, values: _ValuesOfGroup) -> Floats:
        """A value of each problem, [P]; NaN for a problem with fewer than k responses.

        The values of problems with the same number of responses are computed together.

        Raises: InputError for a k that is not between 1 and N.
        """
        most = self.correct.shape[1]
        if not 1 <= k <= most:
            raise InputError(f"k = {k} with n = {most} samples; allowed: 1 <= k <= n")
        result = np.full(len(self.responses), np.nan)
        for n in np.unique(self.responses[self.responses >= k]).tolist():
            rows = np.flatnonzero(self.responses == n)
            result[rows] = values(rows, n)
        return result
