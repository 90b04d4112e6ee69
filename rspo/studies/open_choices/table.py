"""The table of the study: each choice, the verdicts under it, and what it changes."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from rspo.claims.catalogue import (
    GridMethods,
    NotTested,
    above_base,
    above_baseline,
    best_at_its_own_k,
)
from rspo.claims.comparisons import Comparison, ScoreComparison
from rspo.claims.measure import Measurer
from rspo.claims.verdicts import results_of, verdict
from rspo.config.experiment import Cell, Experiment
from rspo.config.schema import DEFAULT_VARIANT, POOLED, Config
from rspo.core.errors import InputError
from rspo.figures.methods import trained_methods
from rspo.studies.measured import Row, frame_of, minus, row_of, weighted

STUDY = "open_choices"
CLAIMS: dict[str, Callable[[GridMethods], list[Comparison]]] = {
    "C1": above_baseline,
    "C3": best_at_its_own_k,
    "C10": above_base,
}
# Of the last part of a key of the config.
_NAMES = {
    "mini_batch_prompts": "updates per step",
    "ppo_clip": "PPO clip range",
    "loss_aggregation": "loss aggregation",
    "gradient_clip": "gradient clip",
    "temperature": "temperature in training",
    "weight_decay": "weight decay",
    "learning_rate": "learning rate",
    "max_response_tokens": "response limit in training",
}


def table(experiment: Experiment, columns: Sequence[str]) -> pd.DataFrame:
    """The rows of every variant: its claims, their comparisons, and the training of its methods.

    Raises: InputError for missing or bad inputs, and for a study without the default cells.
    """
    measurer, cells = Measurer(experiment), experiment.cells_of(STUDY)
    variants = list(dict.fromkeys(cell.variant for cell in cells))
    if DEFAULT_VARIANT not in variants:
        raise InputError(
            f"config/{experiment.scale}.yaml: studies.{STUDY} needs cells of the variant "
            f"{DEFAULT_VARIANT}, to compare the others with"
        )
    plans = {variant: _plans(experiment, variant) for variant in variants}
    rows: list[Row] = []
    for variant, of_claims in plans.items():
        found = [
            *(row for name, plan in of_claims.items() for row in _of_claim(measurer, name, plan)),
            *_changes(measurer, of_claims, plans[DEFAULT_VARIANT]),
            *_training(measurer, [cell for cell in cells if cell.variant == variant]),
        ]
        rows += [setting(experiment, variant) | row for row in found]
    for row in rows:
        if row["part"] == "comparison":
            row["family"] = f"{row['claim']} of {row['variant']}"
    return frame_of(rows, columns)


def changed(config: Config, variant: str) -> dict[str, tuple[Any, Any]]:
    """The settings that a variant changes, by key: their values in it and in the config."""
    return dict(_leaves(config.variants.get(variant, {}), config.model_dump()))


def _leaves(
    values: Mapping[Any, Any], defaults: Mapping[str, Any], above: str = ""
) -> Iterator[tuple[str, tuple[Any, Any]]]:
    for name, value in values.items():
        key, default = f"{above}{name}", defaults.get(name)
        if isinstance(value, Mapping) and isinstance(default, Mapping):
            yield from _leaves(value, default, f"{key}.")
        else:
            yield key, (value, default)


def setting(experiment: Experiment, variant: str) -> Row:
    """What a variant changes, in words."""
    prompts = experiment.config.training.prompts_per_step

    def text(key: str, value: Any) -> str:
        if value is None:
            return "none"
        if key.endswith("mini_batch_prompts"):
            return str(-(-prompts // value))
        return f"{value:g}" if isinstance(value, float) else str(value)

    settings = changed(experiment.config, variant)
    names = (_NAMES.get(key.rpartition(".")[2], key) for key in settings)
    return {
        "variant": variant,
        "choice": ", ".join(names),
        "value": ", ".join(text(key, new) for key, (new, _) in settings.items()),
        "default": ", ".join(text(key, old) for key, (_, old) in settings.items()),
        "setting": ", ".join(settings),
    }


def _plans(experiment: Experiment, variant: str) -> dict[str, list[ScoreComparison]]:
    """The deciding comparisons of each claim that the variant's methods allow."""
    plans = {}
    for name, plan in CLAIMS.items():
        try:
            grid = GridMethods(experiment, STUDY, variant=variant)
            plans[name] = [
                one for one in plan(grid) if isinstance(one, ScoreComparison) and one.decides
            ]
        except NotTested:
            continue
    return plans


def _of_claim(measurer: Measurer, claim: str, plan: Sequence[ScoreComparison]) -> list[Row]:
    """A claim's estimate and verdict, and the comparisons that decide it."""
    results = results_of([measurer.of(comparison) for comparison in plan])
    estimate = _row(measurer, "claim", claim, _summary(plan)) | {"verdict": verdict(results)}
    del estimate["p"]  # the verdict rests on the comparisons
    return [estimate] + [
        _row(measurer, "comparison", claim, comparison) | {"outcome": result.outcome}
        for comparison, result in zip(plan, results, strict=True)
    ]


def _changes(
    measurer: Measurer,
    plans: Mapping[str, list[ScoreComparison]],
    default: Mapping[str, list[ScoreComparison]],
) -> list[Row]:
    """How much larger each claim's estimate is than that of the default."""
    return [
        _row(measurer, "change", claim, minus(_summary(plan), _summary(default[claim])))
        | {"family": "changes"}
        for claim, plan in plans.items()
        if plan != default.get(claim, plan)
    ]


def _row(measurer: Measurer, part: str, claim: str, comparison: ScoreComparison) -> Row:
    return row_of(measurer.of(comparison)) | {
        "part": part,
        "claim": claim,
        "comparison": comparison.label,
        "where": comparison.where,
        "k": " ".join(map(str, comparison.ks)),
    }


def _summary(plan: Sequence[ScoreComparison]) -> ScoreComparison:
    """The mean over k of a claim's comparisons at each k; the first of several at one k."""
    by_k: dict[int, ScoreComparison] = {}
    for one in plan:
        if one.where == POOLED and len(one.ks) == 1:
            by_k.setdefault(one.ks[0], one)
    label = "; ".join(dict.fromkeys(one.label for one in by_k.values()))
    return weighted(label, [(1 / len(by_k), one) for one in by_k.values()])


def _training(measurer: Measurer, cells: list[Cell]) -> list[Row]:
    """How often each method was clipped or cut off in training."""
    return [
        {
            "part": "training",
            "comparison": method.label,
            "ppo_clipped": _mean(measurer, method.policies, "clipped"),
            "gradient_clipped": _mean(measurer, method.policies, "gradient_clipped"),
            "finished": _mean(measurer, method.policies, "finished"),
            "seeds": len(method.policies),
            "cells": " ".join(method.policies),
        }
        for method in trained_methods(cells, {cell.model: cell.model for cell in cells})
    ]


def _mean(measurer: Measurer, cells: Sequence[str], key: str) -> float:
    """Mean of a column of the training logs over steps and seeds."""
    return float(np.mean([measurer.column(cell, key) for cell in cells]))
