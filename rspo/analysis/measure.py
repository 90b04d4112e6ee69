"""Measure a comparison: its value and errors, from scores and training logs."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from functools import cache, partial
from typing import Any

import numpy as np

from rspo.analysis.comparisons import Comparison, Method, Term
from rspo.analysis.results import Row, row_of
from rspo.config.experiment import Experiment
from rspo.config.names import Metric
from rspo.core.errors import InputError
from rspo.evaluation.outcomes import Outcomes
from rspo.evaluation.read_outcomes import suite_scores
from rspo.evaluation.statistics import (
    Floats,
    Part,
    SeedVariance,
    combine,
    difference_of_runs,
    mean_of_steps,
)
from rspo.training.logs import column, read_log

LATE = 3  # the last third of training is late


Pattern = tuple[tuple[int, float], ...]  # k and its weight; the absolute weights sum to 1
Measured = tuple[Metric, tuple[str, ...], tuple[str, ...]]  # at benchmarks, minus at other ones


class Measurer:
    """Measures comparisons of one experiment; reads every file once.

    Args:
        evaluations: the policies and suites, and
        logs: the cells that it may read: the inputs of its step. Variances over seeds of all of
            these methods are moderated together.
    """

    def __init__(
        self,
        experiment: Experiment,
        evaluations: Collection[tuple[str, str]],
        logs: Collection[str] = (),
    ) -> None:
        self.experiment, self.evaluations = experiment, evaluations
        self.evaluated = experiment.by_method(policy for policy, _ in evaluations)
        self.logged = experiment.by_method(logs)
        self.suite = cache(partial(suite_scores, experiment))
        self.estimates = cache(self._estimates)
        self.log = cache(partial(read_log, experiment))
        self.seed_variance = cache(self._seed_variance)

    def of(self, comparison: Comparison) -> Row:
        """The row of a comparison, not tested."""
        if comparison.metric == "entropy":
            return self._of_entropy(comparison)
        if comparison.metric == "time_of_dropping":
            return self._of_dropping(comparison)
        benchmarks = comparison.benchmarks + comparison.against
        sizes = [len(self.scores(comparison.policies[0], name).ids) for name in benchmarks]
        metric: Any = comparison.metric  # of scores
        measured = metric, comparison.benchmarks, comparison.against
        parts = self._parts(comparison.terms, measured)
        if comparison.runs:
            of_runs = [self._parts(terms, measured) for terms in comparison.runs]
            parts = [Part(np.array([_sum(run) for run in of_runs]))]
        trained = [part for part in parts if part.trained and part.weight != 0]
        seeds = min((len(part.values) for part in trained), default=0)
        of_seeds = next((part.of_seeds for part in trained), SeedVariance())
        scores = self.scores(comparison.policies[0], comparison.benchmarks[0])
        counts = sum(sizes), scores.correct.shape[1]
        return row_of(comparison, combine(parts, sizes), of_seeds, seeds, *counts)

    def _parts(self, terms: Sequence[Term], measured: Measured) -> list[Part]:
        """The part of each method."""
        weights: dict[Method, dict[int, float]] = defaultdict(lambda: defaultdict(float))
        for term in terms:
            for k in term.ks:
                weights[term.method][k] += term.weight / len(term.ks)
        parts = []
        for method, by_k in weights.items():
            scale = sum(map(abs, by_k.values()))  # 0 if its terms cancel
            pattern = tuple((k, round(by_k[k] / (scale or 1.0), 12)) for k in sorted(by_k))
            if pattern[0][1] < 0:
                scale, pattern = -scale, tuple((k, -weight) for k, weight in pattern)
            values = [self._values(policy, measured, pattern) for policy in method.policies]
            of_seeds = SeedVariance()
            if method.trained:
                reward = self.experiment.cell(method.policies[0]).reward
                of_seeds = self.seed_variance(reward, measured, pattern)
            parts.append(Part(np.array(values), scale, method.trained, of_seeds))
        return parts

    def _values(self, policy: str, measured: Measured, pattern: Pattern) -> Floats:
        """A policy's weighted sum over k at each problem, [problems].

        With `against`, scaled so that the mean is that of `benchmarks` minus that of `against`.
        """
        metric, benchmarks, against = measured

        def of(names: Sequence[str]) -> Floats:
            return np.concatenate(
                [
                    np.sum([w * self.estimates(policy, one, metric, k) for k, w in pattern], axis=0)
                    for one in names
                ]
            )

        here = of(benchmarks)
        if not against:
            return here
        there = of(against)
        both = len(here) + len(there)
        return np.concatenate([here * (both / len(here)), there * (-both / len(there))])

    def _seed_variance(self, reward: str, measured: Measured, pattern: Pattern) -> SeedVariance:
        """What the methods with one reward, evaluated on these benchmarks, have in common."""
        _, benchmarks, against = measured
        suites = {self.experiment.suite_of(name) for name in (*benchmarks, *against)}
        runs = [
            [self._values(name, measured, pattern).mean() for name in names]
            for cell, names in self.evaluated.items()
            if cell.reward == reward and len(names) > 1
            if all((name, suite) in self.evaluations for name in names for suite in suites)
        ]
        return SeedVariance.of(runs)

    def scores(self, policy: str, benchmark: str) -> Outcomes:
        return self.suite(policy, self.experiment.suite_of(benchmark))[benchmark]

    def _estimates(self, policy: str, benchmark: str, metric: Metric, k: int) -> Floats:
        try:
            return self.scores(policy, benchmark).estimates(metric, k)
        except InputError as error:
            raise InputError(f"{policy}, {benchmark}: {error}") from None

    def _of_entropy(self, comparison: Comparison) -> Row:
        """Each run gives one value, so one seed gives no error."""
        higher, lower = (
            [self.late_entropy(cell) for cell in term.method.policies] for term in comparison.terms
        )
        runs = [[*map(self.late_entropy, names)] for names in self.logged.values()]
        of_seeds = SeedVariance.of(runs)
        estimate, seeds = difference_of_runs(higher, lower, of_seeds), min(len(higher), len(lower))
        return row_of(comparison, estimate, of_seeds, seeds)

    def late_entropy(self, cell: str) -> float:
        """Mean entropy of a cell in the last third of its training, nats per token."""
        entropy = self.column(cell, "entropy")
        return float(entropy[-max(1, len(entropy) // LATE) :].mean())

    def _of_dropping(self, comparison: Comparison) -> Row:
        """Each pair of runs on the same prompts gives one value; with one pair, each step does."""
        keeping, dropping = (term.method.policies for term in comparison.terms)
        added = [self._added(*pair) for pair in zip(keeping, dropping, strict=True)]
        estimate = mean_of_steps(added[0] if len(added) == 1 else [run.mean() for run in added])
        return row_of(comparison, estimate, SeedVariance(), len(added))

    def _added(self, keeping: str, dropping: str) -> Floats:
        """Update time that a run adds to another, relative to its time of a step, [steps].

        The unit of time is the sampling of the same step, which is the same work in both runs, so
        that other work on the machine slows the update and its unit alike.
        """
        more, fewer = (
            np.array(
                [row["seconds"]["update"] / row["seconds"]["sample"] for row in self.log(cell)]
            )
            for cell in (keeping, dropping)
        )
        steps = min(len(more), len(fewer))
        seconds = [row["seconds"] for row in self.log(dropping)[:steps]]
        whole = sum(sum(one.values()) for one in seconds) / sum(one["sample"] for one in seconds)
        return (more[:steps] - fewer[:steps]) / whole

    def column(self, cell: str, key: str) -> Floats:
        """The values of `key` in a cell's training log, [steps]."""
        return np.array(column(self.experiment.training_log(cell), self.log(cell), key))


def _sum(parts: Sequence[Part]) -> Floats:
    """The sum of some parts, each a mean over seeds, at each problem, [problems]."""
    return np.sum([part.weight * part.values.mean(axis=0) for part in parts], axis=0)
