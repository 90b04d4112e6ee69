"""From a comparison to its value and errors, read from scores and training logs."""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rspo.claims.comparisons import (
    Comparison,
    DroppingComparison,
    EntropyComparison,
    Method,
    Metric,
    ScoreComparison,
)
from rspo.errors import InputError
from rspo.evaluation.estimators import (
    max_at_k,
    max_at_k_variance,
    pass_at_k,
    pass_at_k_variance,
)
from rspo.evaluation.scores import Scores, policy_scores
from rspo.evaluation.statistics import (
    Estimate,
    Floats,
    Part,
    combine,
    difference_of_runs,
    mean_of_cells,
)
from rspo.experiment import Experiment
from rspo.training.logs import column, read_log

LATE = 3  # the last third of training is late


@dataclass(frozen=True)
class Measured:
    """A comparison with what was found.

    error_within: of new samples alone; NaN where several k are averaged, or 2k > N.
    problems, samples: 0 where none are involved.
    """

    comparison: Comparison
    estimate: Estimate
    error_within: float
    seeds: int
    problems: int
    samples: int

    @property
    def one_seed(self) -> bool:
        """Whether another training could say otherwise, and nothing tells how far."""
        return self.seeds == 1 and not isinstance(self.comparison, DroppingComparison)

    @property
    def p_for(self) -> float:
        """One-sided p-value of what the claim says of this comparison."""
        margin = self.comparison.margin
        if margin is None:
            return self.estimate.p_above(0.0)
        return max(self.estimate.p_above(-margin), self.estimate.p_below(margin))

    @property
    def p_against(self) -> float:
        """One-sided p-value of the opposite."""
        margin = self.comparison.margin
        if margin is None:
            return self.estimate.p_below(0.0)
        return min(self.estimate.p_above(margin), self.estimate.p_below(-margin))

    @property
    def p(self) -> float:
        """Two-sided: either direction could be found."""
        return min(1.0, 2 * min(self.p_for, self.p_against))


class Measures:
    """Measures comparisons of one experiment; every file is read once."""

    def __init__(self, experiment: Experiment) -> None:
        self.experiment = experiment
        self.scores = cache(self._scores)
        self.estimates = cache(self._estimates)
        self.log = cache(self._log)

    def of(self, comparison: Comparison) -> Measured:
        """Raises: InputError for scores or training logs that are missing, incomplete or bad."""
        if isinstance(comparison, ScoreComparison):
            return self._of_scores(comparison)
        if isinstance(comparison, EntropyComparison):
            return self._of_entropy(comparison)
        return self._of_dropping(comparison)

    # --- scores ------------------------------------------------------------------------------

    def _of_scores(self, comparison: ScoreComparison) -> Measured:
        weights: dict[Method, dict[int, float]] = defaultdict(lambda: defaultdict(float))
        for term in comparison.terms:
            for k in term.ks:
                weights[term.method][k] += term.weight / len(term.ks)
        parts, within = [], 0.0
        for method, by_k in weights.items():
            tables = {
                k: self._method(method, comparison.benchmarks, comparison.metric, k) for k in by_k
            }
            values = [weight * tables[k][0] for k, weight in by_k.items()]
            parts.append(Part(np.sum(values, axis=0), method.trained))
            if len(comparison.ks) == 1:
                ((k, weight),) = by_k.items()
                within += weight**2 * tables[k][1].sum() / tables[k][1].size ** 2
        sizes = self._sizes(comparison)
        first = self.scores(comparison.policies[0], comparison.benchmarks[0])
        trained = [len(method.policies) for method in weights if method.trained]
        return Measured(
            comparison,
            combine(parts, sizes),
            math.sqrt(within) if len(comparison.ks) == 1 else math.nan,
            seeds=min(trained),
            problems=sum(sizes),
            samples=first.correct.shape[1],
        )

    def _method(
        self, method: Method, benchmarks: Sequence[str], metric: Metric, k: int
    ) -> tuple[Floats, Floats]:
        """Estimates of a method and their variances over new samples, [seeds, problems] each."""
        found = [
            [self.estimates(policy, benchmark, metric, k) for benchmark in benchmarks]
            for policy in method.policies
        ]
        estimates, variances = (
            np.array([np.concatenate([pair[i] for pair in pairs]) for pairs in found])
            for i in (0, 1)
        )
        return estimates, variances

    def _sizes(self, comparison: ScoreComparison) -> list[int]:
        """Problems of each benchmark.

        Raises: InputError if the policies were not asked the same problems equally often.
        """
        for benchmark in comparison.benchmarks:
            tables = {policy: self.scores(policy, benchmark) for policy in comparison.policies}
            (first, reference), *others = tables.items()
            for policy, table in others:
                place = self._place(policy, benchmark)
                if table.ids != reference.ids:
                    raise InputError(
                        f"{place}: has other problems than the scores of {first}; "
                        "differences are of the same problems, so sample and score one of them anew"
                    )
                if table.correct.shape != reference.correct.shape:
                    raise InputError(
                        f"{place}: has {table.correct.shape[1]} samples of each problem, the "
                        f"scores of {first} have {reference.correct.shape[1]}"
                    )
        policy = comparison.policies[0]
        return [len(self.scores(policy, name).correct) for name in comparison.benchmarks]

    def _place(self, policy: str, benchmark: str) -> Path:
        """The folder of a policy's scores, for messages."""
        return self.experiment.scores(policy, benchmark, 0).parent

    def _scores(self, policy: str, benchmark: str) -> Scores:
        return policy_scores(self.experiment, policy, benchmark)

    def _estimates(
        self, policy: str, benchmark: str, metric: Metric, k: int
    ) -> tuple[Floats, Floats]:
        table = self.scores(policy, benchmark)
        samples, right = table.correct.shape[1], table.correct.sum(axis=1)
        try:
            if metric == "max_at_k":
                return max_at_k(table.rewards, k), max_at_k_variance(table.rewards, k)
            return pass_at_k(samples, right, k), pass_at_k_variance(samples, right, k)
        except InputError as error:
            raise InputError(f"{self._place(policy, benchmark)}: {error}") from None

    # --- training logs -----------------------------------------------------------------------

    def _of_entropy(self, comparison: EntropyComparison) -> Measured:
        """A run is one value: with one seed nothing tells how far another run would be."""
        higher, lower = (
            [self._late_entropy(cell) for cell in method.policies]
            for method in (comparison.higher, comparison.lower)
        )
        estimate, seeds = difference_of_runs(higher, lower), min(len(higher), len(lower))
        return Measured(comparison, estimate, math.nan, seeds, problems=0, samples=0)

    def _late_entropy(self, cell: str) -> float:
        entropy = self._column(cell, "entropy")
        return float(entropy[-max(1, len(entropy) // LATE) :].mean())

    def _of_dropping(self, comparison: DroppingComparison) -> Measured:
        estimate = mean_of_cells([self._saved(cell) for cell in comparison.cells])
        seeds = self.experiment.config.seeds
        return Measured(comparison, estimate, math.nan, seeds, problems=0, samples=0)

    def _saved(self, cell: str) -> float:
        """Share of a cell's training time that keeping every response would have added to it."""
        log = self.log(cell)
        seconds = {
            phase: np.array([float(row["seconds"][phase]) for row in log])
            for phase in log[0]["seconds"]
        }
        kept = 1 - self._column(cell, "zero_weight")
        growth = growth_with_share(seconds["update"], kept, self._column(cell, "response_tokens"))
        added = growth * float((1 - kept).sum())
        total = float(np.sum(list(seconds.values()))) + added
        return added / total

    def _column(self, cell: str, key: str) -> Floats:
        return np.array(column(self.experiment.training_log(cell), self.log(cell), key))

    def _log(self, cell: str) -> list[dict[str, Any]]:
        path, steps = self.experiment.training_log(cell), self.experiment.config.training.steps
        return read_log(path, steps, f"`rspo train {cell}` finishes it")


def growth_with_share(
    seconds: NDArray[np.float64], kept: NDArray[np.float64], tokens: NDArray[np.float64]
) -> float:
    """Seconds that a step's update takes longer for each further share of responses kept.

    Least squares on the changes from one step to the next, length of responses beside it: what
    drifts slowly, such as a machine that gets busier, is not in a change. Which prompts a step has
    is chance, and so is most of the change of the share that it keeps.

    Args:
        seconds, kept, tokens: of each step: of the update, share of responses with a weight, mean
            tokens of a response.
    """
    changes = np.stack([np.diff(kept), np.diff(tokens)], axis=1)
    (growth, _), *_ = np.linalg.lstsq(changes, np.diff(seconds), rcond=None)
    return float(growth)
