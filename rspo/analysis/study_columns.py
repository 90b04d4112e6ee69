"""How a study's methods were trained: the table of methods, processors and base policies."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from rspo.analysis.comparisons import Method
from rspo.analysis.measure import Measurer
from rspo.analysis.studies import study_of
from rspo.config.experiment import BASE, Experiment
from rspo.config.schema import Study
from rspo.core.errors import InputError
from rspo.core.settings import leaves
from rspo.pipeline.provenance import read_provenance

Row = dict[str, Any]
# The columns that are means over steps and seeds, and the keys of training.jsonl that they average.
_LOGGED = {
    "zero_weight": "zero_weight",
    "ppo_clipped": "clipped",
    "gradient_clipped": "gradient_clipped",
    "finished": "finished",
}


def log_keys(study: Study) -> list[str]:
    """The keys of training.jsonl that a study's columns and its choice of variants need."""
    keys = [_LOGGED[column] for column in study.columns if column in _LOGGED]
    if "late_entropy" in study.columns:
        keys.append("entropy")
    if study.choose_by_pass_at:
        keys.append("validation")
    return keys


def chosen_lines(measurer: Measurer, name: str, lines: Sequence[Method]) -> list[Method]:
    """The variant of each method that is best on the validation split, if the study chooses one.

    Of variants with equal scores, it is the one with the lowest learning rate. If the study does
    not choose, all variants are returned.
    """
    k = study_of(measurer.experiment, name).choose_by_pass_at
    if k is None:
        return list(lines)
    variants: dict[Any, list[Method]] = {}
    for line in lines:
        variants.setdefault(line.objective_k_n, []).append(line)

    def score(line: Method) -> tuple[float, float]:
        return validation(measurer, line, k), -_rate(measurer, line)

    return [max(group, key=score) for group in variants.values()]


def validation(measurer: Measurer, line: Method, k: int) -> float:
    """Pass@k on the validation split after the last step, mean over seeds.

    Raises: InputError if the last step was not validated with this k.
    """
    values = []
    for cell in line.policies:
        value = measurer.log(cell)[-1].get("validation", {}).get(f"pass_at_{k}")
        if not isinstance(value, float):
            path = measurer.experiment.files.training_log(cell)
            raise InputError(
                f"{path}: the last step has no validation with Pass@{k}, by which the study "
                "chooses among variants; set training.validation.every and .samples in each"
            )
        values.append(value)
    return fmean(values)


def method_rows(
    measurer: Measurer, name: str, lines: Sequence[Method], chosen: Sequence[Method]
) -> Iterator[Row]:
    """A row for each method and variant, with the columns of the study.

    Args:
        lines: all methods and variants.
        chosen: those that `chosen_lines` returns.
    """
    experiment = measurer.experiment
    study = study_of(experiment, name)
    columns = set(study.columns)
    defaults = _texts(experiment.config.model_dump())
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
            variants = [other for other in lines if other.objective_k_n == line.objective_k_n]
            rates = [_rate(measurer, variant) for variant in variants]
            # The best learning rate may lie outside those that were tried.
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
    """The learning rate of a method, with the settings of its variant."""
    experiment = measurer.experiment
    cell = line.policies[0]
    model = experiment.cell(cell).model
    return experiment.for_cell(cell).config.models[model].learning_rate


def _texts(settings: Mapping[Any, Any]) -> dict[str, str]:
    """Every setting as text, by its dotted key."""
    return {key: "none" if value is None else str(value) for key, value in leaves(settings)}


def origins(experiment: Experiment, cells: Iterable[str]) -> dict[str, list[str]]:
    """The cells that each processor and version of PyTorch trained, most cells first.

    Returns: names of cells by a text such as "PROCESSOR, PyTorch 2.9"; "unknown" stands for what
        the provenance does not say.
    """
    by_origin: dict[str, list[str]] = {}
    for cell in cells:
        note = read_provenance(experiment.files.policy(cell))
        if not note:  # a cell without a suite may have only its log here
            note = read_provenance(experiment.files.training_log(cell))
        processor = note.get("processor", "unknown")
        torch = note.get("packages", {}).get("torch", "unknown")
        by_origin.setdefault(f"{processor}, PyTorch {torch}", []).append(cell)
    return dict(sorted(by_origin.items(), key=lambda item: -len(item[1])))


def bases(experiment: Experiment, cells: Iterable[str]) -> list[str]:
    """The base policies that cells started from: name and first eight digits of the digest."""
    names: list[str] = []
    for cell in cells:
        base = experiment.base_of(experiment.cell(cell))
        inputs = read_provenance(experiment.files.policy(cell)).get("inputs", {})
        for path, digest in inputs.items():
            if Path(path).parent.name == base:  # cells/BASE/policy
                names.append(f"{base.removesuffix(f'--{BASE}')} {digest[:8]}")
    return list(dict.fromkeys(names))


def _cpu_seconds(measurer: Measurer, cell: str) -> float:
    """The processor seconds of a cell's training per step, including its start and validation.

    The wall-clock seconds of training.jsonl depend on what else the machine did. NaN without
    provenance.
    """
    note = read_provenance(measurer.experiment.files.policy(cell))
    return float(note.get("cpu_seconds", math.nan)) / len(measurer.log(cell))
