"""Measure a comparison: its value and errors, from scores and training logs."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np

from rspo.analysis.comparisons import Comparison, Method, Term
from rspo.analysis.results import Row, row_of
from rspo.config.experiment import Experiment
from rspo.config.names import Metric
from rspo.core.errors import InputError
from rspo.evaluation.outcomes import Outcomes
from rspo.evaluation.read_outcomes import suite_scores
from rspo.evaluation.statistics import Floats, mean_of_runs, mean_of_scores, mean_of_steps
from rspo.passk import ROUNDING
from rspo.training.logs import column, read_log

Weights = Mapping[tuple[Method, int], float]  # (method, k) -> weight of the method's estimates at k


class Measured(NamedTuple):
    """What is measured of a policy: a metric on `benchmarks`, minus the metric on `against`."""

    metric: Metric
    benchmarks: tuple[str, ...]
    against: tuple[str, ...]


class Measurer:
    """Measures comparisons of one experiment; reads every file once."""

    def __init__(self, experiment: Experiment) -> None:
        # Not decorators: those would share one cache, which would keep all measurers in memory.
        self.experiment = experiment
        self.suite = cache(partial(suite_scores, experiment))
        self.estimates = cache(self._estimates)
        self.log = cache(partial(read_log, experiment))

    def measure(self, comparison: Comparison) -> Row:
        """The row of a comparison, as `row_of` returns it.

        Raises: InputError if its methods have no training seed in common, or its terms cancel.
        """
        if comparison.metric == "entropy":
            return self._measure_entropy(comparison)
        if comparison.metric == "time_of_dropping":
            return self._measure_dropping(comparison)
        benchmarks = comparison.benchmarks + comparison.against
        sizes = [len(self.scores(comparison.policies[0], name).ids) for name in benchmarks]
        metric: Any = comparison.metric  # of scores: comparisons of training logs returned above
        measured = Measured(metric, comparison.benchmarks, comparison.against)
        # Independent values in the rows: one for each run, or else one for each training seed.
        if comparison.runs:
            means = []
            for terms in comparison.runs:
                by_seed = self._by_seed(comparison, weights_of(terms), measured)
                means.append(by_seed.mean(axis=0))
            values = np.array(means)
        else:
            values = self._by_seed(comparison, weights_of(comparison.terms), measured)
        varies = any(term.method.varies for term in comparison.terms)
        estimate = mean_of_scores(values, sizes, varies)
        scores = self.scores(comparison.policies[0], comparison.benchmarks[0])
        return row_of(comparison, estimate, sum(sizes), scores.correct.shape[1])

    def _by_seed(self, comparison: Comparison, weights: Weights, measured: Measured) -> Floats:
        """The weighted sum of the estimates of some methods, formed within each seed.

        Returns: [seeds, problems], for the seeds that all methods have. A base policy that is the
            only one is used with every seed. If there is nothing else, there is one row.

        Raises: InputError if all terms cancel, or the methods have no seed in common.
        """
        if not weights:
            raise InputError(f"{_title(comparison)} have terms that cancel")
        seeds = self._common_seeds_of(comparison, [method for method, _ in weights])
        return np.array([self._weighted_sum(weights, measured, seed) for seed in seeds])

    def _common_seeds_of(self, comparison: Comparison, methods: Sequence[Method]) -> list[int]:
        """The training seeds that all of some methods of a comparison have.

        Raises: InputError if there is none.
        """
        seeds = self.common_seeds(methods)
        if not seeds:
            raise InputError(f"{_title(comparison)} have no training seed in common")
        return seeds

    def common_seeds(self, methods: Sequence[Method]) -> list[int]:
        """The training seeds that all of some methods have; [0] for a base policy of all seeds."""
        varying = [method for method in methods if method.varies]
        if not varying:
            return [0]
        return sorted(set.intersection(*(set(self.policies_by_seed(one)) for one in varying)))

    def _weighted_sum(self, weights: Weights, measured: Measured, seed: int) -> Floats:
        """The weighted sum of the estimates of one training seed, [problems]."""
        terms = [
            weight * self._values(self.policies_by_seed(method)[seed], measured, k)
            for (method, k), weight in weights.items()
        ]
        return np.asarray(np.sum(terms, axis=0))

    def policies_by_seed(self, method: Method) -> Mapping[int, str]:
        """The policy of a method for each seed; the only base policy is that of any seed."""
        if not method.varies:
            return defaultdict(lambda: method.policies[0])
        return {self.experiment.seed_of(policy): policy for policy in method.policies}

    def _values(self, policy: str, measured: Measured, k: int) -> Floats:
        """A policy's estimates at each problem, [problems].

        With `against`, they are scaled so that their mean is that of `benchmarks` minus that of
        `against`.
        """
        values = self._at_benchmarks(policy, measured.benchmarks, measured.metric, k)
        if not measured.against:
            return values
        subtracted = self._at_benchmarks(policy, measured.against, measured.metric, k)
        count = len(values) + len(subtracted)
        scaled = values * (count / len(values))
        return np.concatenate([scaled, subtracted * (-count / len(subtracted))])

    def _at_benchmarks(
        self, policy: str, benchmarks: Sequence[str], metric: Metric, k: int
    ) -> Floats:
        """A policy's estimates at the problems of some benchmarks, [problems]."""
        return np.concatenate([self.estimates(policy, name, metric, k) for name in benchmarks])

    def scores(self, policy: str, benchmark: str) -> Outcomes:
        """The outcomes of a policy on a benchmark."""
        return self.suite(policy, self.experiment.suite_of(benchmark))[benchmark]

    def _estimates(self, policy: str, benchmark: str, metric: Metric, k: int) -> Floats:
        """A policy's estimates at the problems of a benchmark, [problems]."""
        try:
            return self.scores(policy, benchmark).estimates(metric, k)
        except InputError as error:
            raise InputError(f"{policy}, {benchmark}: {error}") from None

    def _measure_entropy(self, comparison: Comparison) -> Row:
        """The row of a difference of entropies. A run gives one value, so one seed has no error."""
        methods = [term.method for term in comparison.terms]
        higher, lower = (self.policies_by_seed(method) for method in methods)
        # Both trainings of a seed have the same prompts, so differences are taken within seeds.
        differences = [
            self.late_entropy(higher[seed]) - self.late_entropy(lower[seed])
            for seed in self._common_seeds_of(comparison, methods)
        ]
        return row_of(comparison, mean_of_runs(differences))

    def late_entropy(self, cell: str) -> float:
        """Mean entropy of a cell in the last third of its training, nats per token."""
        entropy = self.column(cell, "entropy")
        late_steps = max(1, len(entropy) // 3)
        return float(entropy[-late_steps:].mean())

    def _measure_dropping(self, comparison: Comparison) -> Row:
        """The row of the time that keeping all responses adds.

        Each pair of runs on the same prompts gives one value. If there is only one pair, each of
        its steps gives one.
        """
        keeping, dropping = (term.method.policies for term in comparison.terms)
        added = [self._added_time(*pair) for pair in zip(keeping, dropping, strict=True)]
        if len(added) == 1:
            return row_of(comparison, mean_of_steps(added[0]))
        return row_of(comparison, mean_of_runs([run.mean() for run in added]))

    def _added_time(self, keeping: str, dropping: str) -> Floats:
        """The update time that keeping responses adds, relative to a step with dropping, [steps].

        The unit of time is the sampling of the same step, which is the same work in both runs.
        Other work on the machine slows the update and its unit alike.
        """
        update_of_keeping = self._update_times(keeping)
        update_of_dropping = self._update_times(dropping)
        steps = min(len(update_of_keeping), len(update_of_dropping))
        seconds = [row["seconds"] for row in self.log(dropping)[:steps]]
        sampling = sum(parts["sample"] for parts in seconds)
        # The mean time of a whole step with dropping, in the same unit.
        step_time = sum(sum(parts.values()) for parts in seconds) / sampling
        return (update_of_keeping[:steps] - update_of_dropping[:steps]) / step_time

    def _update_times(self, cell: str) -> Floats:
        """The time of the update in units of the time of sampling, [steps]."""
        seconds = [row["seconds"] for row in self.log(cell)]
        return np.array([parts["update"] / parts["sample"] for parts in seconds])

    def column(self, cell: str, key: str) -> Floats:
        """The values of `key` in a cell's training log, [steps]."""
        return np.array(column(self.experiment.files.training_log(cell), self.log(cell), key))


def weights_of(terms: Sequence[Term]) -> Weights:
    """The total weight of each method's estimates at each k, without those that cancel."""
    weights: dict[tuple[Method, int], float] = defaultdict(float)
    for term in terms:
        for k in term.ks:
            weights[term.method, k] += term.weight / len(term.ks)
    return {key: weight for key, weight in weights.items() if abs(weight) > ROUNDING}


def _title(comparison: Comparison) -> str:
    """The name of a comparison in messages."""
    about = comparison.claim or "a comparison"
    return f"{about}: {comparison.method_a} and {comparison.method_b}"
