"""The table of the study: Pass@k by rate of wrong verdicts, and the theory beside it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from rspo.claims.catalogue import difference
from rspo.claims.comparisons import Method, ScoreComparison, Term
from rspo.claims.measure import Measurer
from rspo.config.experiment import Experiment
from rspo.config.schema import CONTROL_VARIANT, DEFAULT_VARIANT, POOLED
from rspo.core.errors import InputError
from rspo.figures.methods import trained_methods
from rspo.studies.measured import Row, frame_of, minus, row_of
from rspo.studies.wrong_verdicts.theory import (
    accepted,
    expected_weight,
    false_accept_over_success,
    share_of_false_accepts,
)

STUDY = "wrong_verdicts"
ACCEPTS, REJECTS, NONE, CONTROL = "false accepts", "false rejects", "none", "control"
RISK_NEUTRAL, RSPO = "policy_gradient", "rspo_pass_at_k"
SUCCESSES = tuple(round(0.05 * i, 2) for i in range(21))
Errors = tuple[str, float]  # of the verifier: kind and rate


@dataclass(frozen=True)
class Trained:
    """A method, and its cells by the errors of the verifier they were trained with."""

    label: str
    objective: str
    trained_k: int | None
    n: int | None
    by_errors: Mapping[Errors, Method]

    @property
    def rates(self) -> list[Errors]:
        """The errors, and the control, which has none."""
        return [errors for errors in self.by_errors if errors[0] != NONE]

    @property
    def default(self) -> Method:
        return self.by_errors[NONE, 0.0]

    def row(self, part: str, errors: Errors) -> Row:
        kind, rate = errors
        return {
            "part": part,
            "method": self.label,
            "objective": self.objective,
            "trained_k": self.trained_k,
            "n": self.n,
            "errors": kind,
            "rate": rate,
        }


def table(experiment: Experiment, columns: Sequence[str]) -> pd.DataFrame:
    """Levels, changes and their comparisons of every method; then the theory.

    Raises: InputError for missing or bad inputs, and for a study without the default cells.
    """
    methods = _methods(experiment)
    ks = sorted({method.trained_k or 1 for method in methods} & {*experiment.config.evaluation.k})
    measured = _Measured(Measurer(experiment), tuple(ks))
    neutral = next((one for one in methods if one.objective == RISK_NEUTRAL), None)
    rows: list[Row] = []
    for method in methods:
        rows += measured.levels(method)
        rows += measured.changes(method)
        rows += measured.accepts_minus_rejects(method)
        if neutral is not None and method is not neutral:
            rows += measured.against(method, neutral)
        if method.objective in (RISK_NEUTRAL, RSPO):
            rows += _weights(method)
            rows += measured.shares(method)
    return frame_of(rows, columns)


def _methods(experiment: Experiment) -> list[Trained]:
    by_variant = {}
    cells = experiment.cells_of(STUDY)
    for variant in dict.fromkeys(cell.variant for cell in cells):
        chosen = [cell for cell in cells if cell.variant == variant]
        by_variant[variant] = trained_methods(chosen, {cell.model: cell.model for cell in chosen})
    if DEFAULT_VARIANT not in by_variant:
        raise InputError(
            f"config/{experiment.scale}.yaml: studies.{STUDY} needs cells of the variant "
            f"{DEFAULT_VARIANT}, to compare the others with"
        )
    errors = {variant: _errors(experiment, variant) for variant in by_variant}
    return [
        Trained(
            default.label,
            default.objective,
            default.k,
            default.n,
            {
                errors[variant]: Method(f"{one.label}, {variant}", one.policies)
                for variant, methods in by_variant.items()
                for one in methods
                if one.label == default.label
            },
        )
        for default in by_variant[DEFAULT_VARIANT]
    ]


def _errors(experiment: Experiment, variant: str) -> Errors:
    rewards = experiment.config.of_variant(variant).rewards
    if rewards.false_accepts and rewards.false_rejects:
        raise InputError(
            f"config/{experiment.scale}.yaml: variants.{variant} has false accepts and false "
            f"rejects; studies.{STUDY} takes one of them at a time"
        )
    if rewards.false_rejects:
        return REJECTS, rewards.false_rejects
    if rewards.false_accepts:
        return ACCEPTS, rewards.false_accepts
    if variant not in (DEFAULT_VARIANT, CONTROL_VARIANT):
        raise InputError(
            f"config/{experiment.scale}.yaml: variants.{variant} has no false accepts or rejects; "
            f"studies.{STUDY} takes such variants, {DEFAULT_VARIANT} and {CONTROL_VARIANT} only"
        )
    return (CONTROL if variant == CONTROL_VARIANT else NONE), 0.0


class _Measured:
    """Rows of measured Pass@k; `ks` are those that the methods are trained for."""

    def __init__(self, measurer: Measurer, ks: tuple[int, ...]) -> None:
        self.measurer, self.ks = measurer, ks
        experiment = measurer.experiment
        suite = experiment.grid_entry(STUDY).suite
        self.benchmarks = tuple(experiment.benchmarks_of(suite))

    def compare(self, terms: Iterable[Term]) -> ScoreComparison:
        return ScoreComparison("", "pass_at_k", POOLED, self.benchmarks, tuple(terms))

    def row(self, comparison: ScoreComparison) -> Row:
        return row_of(self.measurer.of(comparison)) | {"k": " ".join(map(str, comparison.ks))}

    def change(self, method: Trained, errors: Errors, ks: tuple[int, ...]) -> ScoreComparison:
        """Pass@k of the method trained with errors minus that without."""
        return self.compare(difference(method.by_errors[errors], method.default, ks))

    def levels(self, method: Trained) -> list[Row]:
        rows = [
            method.row("level", errors) | self.row(self.compare([Term(cells, 1, (k,))]))
            for errors, cells in method.by_errors.items()
            for k in self.ks
        ]
        return [{name: value for name, value in row.items() if name != "p"} for row in rows]

    def changes(self, method: Trained) -> list[Row]:
        return [
            method.row("change", errors)
            | self.row(self.change(method, errors, (k,)))
            | {"family": "changes"}
            for errors in method.rates
            for k in self.ks
        ]

    def against(self, method: Trained, neutral: Trained) -> list[Row]:
        """The change of a method minus that of policy gradient, mean over k."""
        return [
            method.row("against PG", errors)
            | self.row(
                minus(self.change(method, errors, self.ks), self.change(neutral, errors, self.ks))
            )
            | {"family": "against policy gradient"}
            for errors in method.rates
            if errors in neutral.by_errors
        ]

    def accepts_minus_rejects(self, method: Trained) -> list[Row]:
        """What false accepts change minus what false rejects of the same rate do, mean over k."""
        return [
            method.row("accepts - rejects", ("both", rate))
            | self.row(self.compare(difference(cells, method.by_errors[REJECTS, rate], self.ks)))
            | {"family": "false accepts against false rejects"}
            for (kind, rate), cells in method.by_errors.items()
            if kind == ACCEPTS and (REJECTS, rate) in method.by_errors
        ]

    def shares(self, method: Trained) -> list[Row]:
        """The share of false accepts in the weight, for the policy before and after training."""
        experiment, k = self.measurer.experiment, method.trained_k or 1
        bases = tuple(experiment.bases_of(STUDY))
        rows = []
        for policy, cells in (("base", bases), ("trained", method.default.policies)):
            now, before = self.pass_at_k(cells, k), self.pass_at_k(cells, k - 1)
            rows += [
                method.row("share", (kind, rate))
                | {"policy": policy, "cells": " ".join(cells)}
                | {"share": share_of_false_accepts(now, before, rate)}
                | {"of_success": false_accept_over_success(self.pass_at_k(cells, 1), now, before)}
                for kind, rate in method.rates
                if kind == ACCEPTS
            ]
        return rows

    def pass_at_k(self, policies: Sequence[str], k: int) -> float:
        """Mean over all problems and seeds; 0 for k = 0."""
        if k == 0:
            return 0.0
        return float(
            np.mean(
                [
                    np.concatenate(
                        [
                            self.measurer.estimates(policy, benchmark, "pass_at_k", k)
                            for benchmark in self.benchmarks
                        ]
                    )
                    for policy in policies
                ]
            )
        )


def _weights(method: Trained) -> list[Row]:
    """The expected weight of a false accept by the prompt's probability of success."""
    k, n = method.trained_k or 1, method.n or 1
    rates = [0.0, *(rate for kind, rate in method.rates if kind == ACCEPTS)]
    rows = []
    for rate in rates:
        for success in SUCCESSES:
            weight = expected_weight(method.objective, k, n, accepted(success, rate))
            clean = expected_weight(method.objective, k, n, success)
            rows.append(
                method.row("weight", (ACCEPTS, rate))
                | {"success": success, "weight": n * weight}
                | {"of_clean": weight / clean if clean else np.nan}
            )
    return rows
