"""The table of the study: every number of its page and its figure."""

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import Any

import numpy as np
import pandas as pd

from rspo.claims.comparisons import Method, ScoreComparison, Term
from rspo.claims.measure import Measurer
from rspo.config.experiment import BASE, Experiment
from rspo.config.schema import POOLED
from rspo.core.errors import InputError
from rspo.core.provenance import read_provenance
from rspo.core.tables import GRADIENTS, read_frame
from rspo.evaluation.statistics import Estimate, Part, combine, holm
from rspo.figures.gradient_variance import ratio_of_means
from rspo.objectives import OBJECTIVES, response_weights
from rspo.studies.peers.runs import Run, best_of_each, reference_of, runs_of, with_several_epochs

NAME = "peers"
Row = dict[str, Any]


def table(experiment: Experiment, columns: Sequence[str]) -> pd.DataFrame:
    """One row for each run, evaluated k and comparison.

    Raises: InputError for inputs that are missing, incomplete or bad, and for an entry without
        cells of RSPO.
    """
    runs = runs_of(experiment, NAME)
    of_epochs = with_several_epochs(runs)
    others = [run for run in runs if run not in of_epochs]
    k = reference_of(others, f"config/{experiment.scale}.yaml: studies.{NAME}").k
    measure = _Measure(experiment)
    objectives = best_of_each(measure.measurer, others, k)
    rspo = reference_of(objectives, NAME)
    rows = [
        *_base_rows(measure),
        *_objective_rows(measure, objectives, rspo),
        *_epoch_rows(measure, best_of_each(measure.measurer, of_epochs, k)),
        *_left_out_rows(objectives, rspo),
    ]
    return _adjusted(pd.DataFrame(rows, columns=list(columns)))


def _base_rows(measure: "_Measure") -> Iterator[Row]:
    for k in measure.ks:
        yield {"part": BASE, "objective": BASE} | measure.level(measure.base, k)


def _objective_rows(measure: "_Measure", runs: Sequence[Run], rspo: Run) -> Iterator[Row]:
    gradients = _gradients(measure.experiment, rspo)
    for run in runs:
        about = {"part": "objectives"} | measure.about(run)
        about |= gradients.get(run.trained, {})
        for k in measure.ks:
            row = about | measure.level(run.method, k)
            kind = f"Pass@{k}" if k == rspo.k else "the other k"
            difference = {} if run == rspo else measure.difference(run.method, rspo.method, k)
            family = f"objectives against RSPO, {kind}" if difference else ""
            yield row | _against("rspo", family) | difference
            difference = measure.difference(run.method, measure.base, k)
            yield row | _against(BASE, "objectives against the base model") | difference


def _epoch_rows(measure: "_Measure", runs: Sequence[Run]) -> Iterator[Row]:
    by_updates = {(*run.trained, run.epochs, run.steps): run for run in runs}
    steps = measure.experiment.config.training.steps
    for run in runs:
        about = {"part": "epochs"} | measure.about(run)
        others = {
            "one pass": by_updates.get((*run.trained, 1, steps)),
            "as many updates": by_updates.get((*run.trained, 1, steps * run.epochs)),
        }
        for k in measure.ks:
            row = about | measure.level(run.method, k)
            difference = measure.difference(run.method, measure.base, k)
            yield row | _against(BASE, "epochs against the base model") | difference
            for name, other in others.items():
                if run.epochs > 1 and other is not None:
                    difference = measure.difference(run.method, other.method, k)
                    yield row | _against(name, f"epochs against {name}") | difference


def _against(name: str, family: str) -> Row:
    return {"against": name, "family": family}


def _left_out_rows(runs: Sequence[Run], rspo: Run) -> Iterator[Row]:
    """Objectives of the registry without a run, and the run with the same weights, if any."""
    trained = {run.objective: run for run in runs}
    shares = {name: _direction(name, run.k, rspo.n) for name, run in trained.items()}
    for name, objective in OBJECTIVES.items():
        if name in trained:
            continue
        k = rspo.k if objective.has_k else 1
        own = _direction(name, k, rspo.n) if objective.allows(k, rspo.n) else None
        same = [
            other
            for other, share in shares.items()
            if own is not None and share is not None and np.allclose(own, share, atol=1e-9)
        ]
        yield {"part": "left out", "objective": name, "same_as": (same or [""])[0]}


def _direction(objective: str, k: int, n: int) -> "np.ndarray[Any, Any] | None":
    """The weights of groups with every number of correct responses, scaled to length 1.

    Objectives with the same direction make the same updates with Adam, which ignores the scale.
    None where an objective cannot use k with n, or has only zero weights.
    """
    if not OBJECTIVES[objective].allows(k, n):
        return None
    sorted_groups = np.tril(np.ones((n + 1, n)), -1)  # with 0 to n correct responses
    groups = [sorted_groups, np.random.default_rng(0).permuted(sorted_groups, axis=1)]
    weights = np.concatenate([response_weights(group, objective, k) for group in groups])
    length = np.linalg.norm(weights)
    return weights / length if length > 0 else None


class _Measure:
    """Numbers of one run, or of a pair, in the columns of the table."""

    def __init__(self, experiment: Experiment) -> None:
        self.experiment, self.measurer = experiment, Measurer(experiment)
        self.benchmarks = tuple(experiment.benchmarks_of(experiment.grid_entry(NAME).suite))
        self.ks = sorted(experiment.config.evaluation.k)
        self.base = Method(BASE, tuple(experiment.bases_of(NAME)), trained=False)

    def about(self, run: Run) -> Row:
        """What a run is, and what its training was like."""
        logs = self.measurer
        return {
            "objective": run.objective,
            "trained_k": run.own_k,
            "n": run.n,
            "epochs": run.epochs,
            "steps": run.steps,
            "learning_rate": run.learning_rate,
            "rates": " ".join(f"{rate:g}" for rate in run.rates),
            "rate_is": run.rate_is,
            "validation": run.validation,
            "entropy": fmean(logs.late_entropy(cell) for cell in run.cells),
            "zero_weight": fmean(logs.column(cell, "zero_weight").mean() for cell in run.cells),
            "seconds": fmean(self._seconds(cell) for cell in run.variants),
        }

    def _seconds(self, cell: str) -> float:
        """Processor seconds of a cell's training per step; NaN without provenance.

        The wall-clock seconds of training.jsonl depend on what else the machine did.
        """
        seconds = read_provenance(self.experiment.policy(cell)).get("cpu_seconds", math.nan)
        return float(seconds) / len(self.measurer.log(cell))

    def level(self, method: Method, k: int) -> Row:
        """Pass@k of a run or of the base model."""
        parts = [
            [self.measurer.estimates(cell, name, "pass_at_k", k) for name in self.benchmarks]
            for cell in method.policies
        ]
        sizes = [len(values) for values in parts[0]]
        values = np.array([np.concatenate(of_cell) for of_cell in parts])
        estimate = combine([Part(values, method.trained)], sizes)
        first = self.measurer.scores(method.policies[0], self.benchmarks[0])
        return {
            "k": k,
            "pass_at_k": estimate.value,
            "error": estimate.error,
            "seeds": len(method.policies) if method.trained else None,
            "problems": sum(sizes),
            "samples": first.correct.shape[1],
            "cells": " ".join(method.policies),
        }

    def difference(self, one: Method, other: Method, k: int) -> Row:
        """Pass@k of one minus that of the other."""
        terms = (Term(one, 1, (k,)), Term(other, -1, (k,)))
        label = f"{one.label} - {other.label}"
        comparison = ScoreComparison(label, "pass_at_k", POOLED, self.benchmarks, terms)
        measured = self.measurer.of(comparison)
        low, high = _interval(measured.estimate)
        return {"difference": measured.estimate.value, "low": low, "high": high, "p": measured.p}


def _interval(estimate: Estimate) -> tuple[float, float]:
    low, high = estimate.interval()
    return max(low, -1.0), min(high, 1.0)


def _gradients(experiment: Experiment, rspo: Run) -> dict[tuple[str, int, int], Row]:
    """By objective, k and n: variance and noise of each objective's gradient on the base model.

    Raises: InputError for a table of gradients that is invalid or lacks RSPO.
    """
    (base,) = experiment.bases_of(NAME)
    path = experiment.gradients(base, NAME)
    groups = {
        (str(objective), int(k), int(n)): group
        for (objective, k, n), group in read_frame(path, GRADIENTS).groupby(["objective", "k", "n"])
    }
    if rspo.trained not in groups:
        name, k, n = rspo.trained
        raise InputError(f"{path}: has no gradients of {name} at k = {k}, n = {n}")
    reference = [*groups[rspo.trained]["variance"]]
    found = {}
    for key, group in groups.items():
        variance, signal = [*group["variance"]], [*group["signal"]]
        noise, low, high = ratio_of_means(variance, signal)
        found[key] = {
            "variance": ratio_of_means(variance, reference)[0],
            "noise": noise,
            "noise_low": low,
            "noise_high": high,
        }
    return found


def _adjusted(frame: pd.DataFrame) -> pd.DataFrame:
    """Fill in the adjusted p-values and the sizes of their families."""
    families: dict[str, list[int]] = defaultdict(list)
    for row, family in enumerate(frame["family"]):
        if isinstance(family, str) and family:
            families[family].append(row)
    p_adjusted, tests = np.full(len(frame), np.nan), np.zeros(len(frame), dtype=int)
    for rows in families.values():
        p_adjusted[rows] = holm(frame["p"].iloc[rows])
        tests[rows] = len(rows)
    counts = pd.Series(tests, dtype="Int64").replace(0, pd.NA)
    whole = ["trained_k", "n", "epochs", "steps", "k", "seeds", "problems", "samples"]
    frame = frame.astype(dict.fromkeys(whole, "Int64"))
    return frame.assign(p_adjusted=p_adjusted, tests=counts)
