"""What a study tells about the training of each method: the columns of its table of methods."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from rspo.analysis.comparisons import Method
from rspo.analysis.measure import Measurer
from rspo.analysis.studies import study_of
from rspo.config.experiment import Experiment, base_name
from rspo.config.schema import Study
from rspo.core.errors import InputError
from rspo.core.settings import leaves
from rspo.pipeline.provenance import read_provenance

Row = dict[str, Any]
# Columns that are means over steps and seeds of a key of training.jsonl.
_LOGGED = {
    "zero_weight": "zero_weight",
    "ppo_clipped": "clipped",
    "gradient_clipped": "gradient_clipped",
    "finished": "finished",
}


def log_keys(study: Study) -> list[str]:
    """The keys of training.jsonl that a study's columns and its choice of variants need."""
    keys = [_LOGGED[column] for column in study.columns if column in _LOGGED]
    keys += ["entropy"] if "late_entropy" in study.columns else []
    return keys + (["validation"] if study.choose_by_pass_at else [])


def chosen_lines(measurer: Measurer, name: str, lines: Sequence[Method]) -> list[Method]:
    """One variant of each method, if the study chooses: the best on the validation split.

    With equal scores, the one with the lowest learning rate.
    """
    k = study_of(measurer.experiment, name).choose_by_pass_at
    if k is None:
        return list(lines)
    return [
        max(
            (one for one in lines if one.objective_k_n == key),
            key=lambda one: (validation(measurer, one, k), -_rate(measurer, one)),
        )
        for key in dict.fromkeys(one.objective_k_n for one in lines)
    ]


def validation(measurer: Measurer, line: Method, k: int) -> float:
    """Pass@k on the validation split after the last step, mean over seeds."""
    found = []
    for cell in line.policies:
        value = measurer.log(cell)[-1].get("validation", {}).get(f"pass_at_{k}")
        if not isinstance(value, float):
            path = measurer.experiment.training_log(cell)
            raise InputError(
                f"{path}: the last step has no validation with Pass@{k}, by which the study "
                "chooses among variants; set training.validation.every and .samples in each"
            )
        found.append(value)
    return fmean(found)


def method_rows(
    measurer: Measurer, name: str, lines: Sequence[Method], chosen: Sequence[Method]
) -> Iterator[Row]:
    """A row for each method and variant, with the columns of the study."""
    experiment = measurer.experiment
    study = study_of(experiment, name)
    columns, defaults = set(study.columns), _texts(experiment.config.model_dump())
    for line in lines:
        cells = line.policies
        changed = _texts(experiment.config.variants.get(line.variant, {}))
        row: Row = {
            "method": line.label,
            "objective": line.objective,
            "trained_k": line.k,
            "n": line.n,
            "variant": line.variant,
            "chosen": "yes" if line in chosen else "no",
            "setting": ", ".join(f"{key} = {value}" for key, value in changed.items()),
            "instead_of": ", ".join(defaults.get(key, "none") for key in changed),
            "learning_rate": _rate(measurer, line),
        }
        if study.choose_by_pass_at:
            rates = [
                _rate(measurer, one) for one in lines if one.objective_k_n == line.objective_k_n
            ]
            row["at_edge"] = "yes" if row["learning_rate"] in (min(rates), max(rates)) else "no"
            row["validation"] = validation(measurer, line, study.choose_by_pass_at)
        if "late_entropy" in columns:
            row["late_entropy"] = fmean(map(measurer.late_entropy, cells))
        for column, key in _LOGGED.items():
            if column in columns:
                row[column] = fmean(measurer.column(cell, key).mean() for cell in cells)
        if "cpu_seconds" in columns:
            row["cpu_seconds"] = fmean(_cpu_seconds(measurer, cell) for cell in cells)
        yield row | {"seeds": len(cells), "cells": " ".join(cells)}


def _rate(measurer: Measurer, line: Method) -> float:
    experiment, cell = measurer.experiment, line.policies[0]
    return experiment.for_cell(cell).config.models[experiment.cell(cell).model].learning_rate


def _texts(settings: Mapping[Any, Any]) -> dict[str, str]:
    return {key: "none" if one is None else str(one) for key, one in leaves(settings)}


def origins(experiment: Experiment, cells: Iterable[str]) -> dict[str, list[str]]:
    """Cells by the processor and the PyTorch that trained them, most cells first."""
    found: dict[str, list[str]] = {}
    for cell in cells:
        note = read_provenance(experiment.policy(cell))
        note = note or read_provenance(experiment.training_log(cell))  # of cells without a suite
        torch = note.get("packages", {}).get("torch", "unknown")
        found.setdefault(f"{note.get('processor', 'unknown')}, PyTorch {torch}", []).append(cell)
    return dict(sorted(found.items(), key=lambda item: -len(item[1])))


def bases(experiment: Experiment, cells: Iterable[str]) -> list[str]:
    """The base policies that cells started from, each as model and first digits of its digest."""
    found: dict[str, None] = {}
    for cell in cells:
        model = experiment.cell(cell).model
        inputs = read_provenance(experiment.policy(cell)).get("inputs", {})
        digests = [inputs[path] for path in inputs if Path(path).parent.name == base_name(model)]
        found |= {f"{model} {digest[:8]}": None for digest in digests}
    return list(found)


def _cpu_seconds(measurer: Measurer, cell: str) -> float:
    """Processor seconds of a cell's training per step, start and validation included.

    The wall-clock seconds of training.jsonl depend on what else the machine did. NaN without
    provenance.
    """
    note = read_provenance(measurer.experiment.policy(cell))
    return float(note.get("cpu_seconds", math.nan)) / len(measurer.log(cell))
