"""How a study's methods were trained: the table of methods, processors and base policies."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from rspo.analysis.bootstrap import (
    Counts,
    Interval,
    crossings,
    curves_by_seed,
    mean_over_seeds,
    regrets,
    resampled_curves,
    rising_shares,
)
from rspo.analysis.choice import (
    columns_of_choice,
    key_of,
    rate_of,
    scores_of,
    tried_lines,
)
from rspo.analysis.claims import RISK_NEUTRAL
from rspo.analysis.comparisons import Method
from rspo.analysis.measure import Measurer
from rspo.analysis.studies import RSPO, study_of
from rspo.config.experiment import BASE, Experiment
from rspo.config.schema import Study
from rspo.core.settings import leaves
from rspo.pipeline.provenance import UNCOMMITTED, read_provenance

Row = dict[str, Any]
# The columns that are means over steps and seeds, and the keys of training.jsonl that they average.
_LOGGED = {
    "zero_weight": "zero_weight",
    "ppo_clipped": "clipped",
    "gradient_clipped": "gradient_clipped",
    "finished": "finished",
    "correct": "correct",
}


def log_keys(study: Study) -> list[str]:
    """The keys of training.jsonl that a study's columns and its choice of variants need."""
    keys = [_LOGGED[column] for column in study.columns if column in _LOGGED]
    if "late_entropy" in study.columns:
        keys.append("entropy")
    if "accepted_wrong" in study.columns:
        keys += [key for key in ("reward", "correct") if key not in keys]
    if study.choose_by_pass_at:
        keys.append("validation")
    return keys


def method_rows(
    measurer: Measurer,
    name: str,
    lines: Sequence[Method],
    chosen: Mapping[int, Sequence[Method]],
) -> Iterator[Row]:
    """A row for each method and variant, with the columns of the study.

    Args:
        lines: all methods and variants.
        chosen: those that `choice.chosen_lines` returns.
    """
    experiment = measurer.experiment
    study = study_of(experiment, name)
    defaults = _texts(experiment.config.model_dump())
    of_curves = curve_columns(measurer, name, lines, chosen)
    for line in lines:
        changed = _texts(experiment.config.variants.get(line.variant, {}))
        chosen_at = [k for k in sorted(chosen) if line in chosen[k]]
        row: Row = {
            "method": line.label,
            "objective": line.objective,
            "trained_k": line.k,
            "n": line.n,
            "variant": line.variant,
            "chosen": "yes" if chosen_at else "no",
            "setting": ", ".join(f"{key} = {value}" for key, value in changed.items()),
            "instead_of": ", ".join(defaults.get(key, "none") for key in changed),
            "learning_rate": rate_of(measurer, line),
        }
        if study.choose_by_pass_at:
            row |= _columns_of_choice(measurer, name, line, lines, chosen_at)
        row |= _columns_of_training(measurer, study, line)
        row |= of_curves.get(line, {})
        yield row | {"seeds": len(line.policies), "cells": " ".join(line.policies)}


def _columns_of_choice(
    measurer: Measurer,
    name: str,
    line: Method,
    lines: Sequence[Method],
    chosen_at: Sequence[int],
) -> Row:
    """What a study chooses a variant by; NaN for a variant that was not tried.

    Args:
        lines: all methods and variants.
        chosen_at: the k of evaluation at which the line is compared.
    """
    experiment = measurer.experiment
    study = study_of(experiment, name)
    tried = tried_lines(experiment, name, lines)
    row: Row = {"at_edge": "yes" if _is_at_edge(measurer, line, tried) else "no"}
    best_at = []
    for column, by in columns_of_choice(study, experiment.config.evaluation.k).items():
        scores = scores_of(measurer, tried, by)
        found = scores.get(key_of(line))
        # The score by a regret is minus the regret; the column has the regret itself.
        row[column] = math.nan if found is None else abs(found)
        of_method = [other for other in tried if other.objective_k_n == line.objective_k_n]
        if found is not None and found == max(scores[key_of(other)] for other in of_method):
            best_at.append(by)
    if study.choose_by_pass_at == "each":
        row["chosen_at"] = " ".join(map(str, chosen_at))
        row["best_at"] = " ".join(map(str, best_at))
    return row


def _is_at_edge(measurer: Measurer, line: Method, tried: Sequence[Method]) -> bool:
    """Whether a line has the lowest or the highest rate that was tried of its method.

    If it is the best one, a rate outside of those that were tried may be better still.
    """
    variants = [other for other in tried if other.objective_k_n == line.objective_k_n]
    # The study that chooses may have other training seeds, and then other lines.
    if key_of(line) not in map(key_of, variants):  # it was not tried
        return False
    rates = [rate_of(measurer, other) for other in variants]
    return rate_of(measurer, line) in (min(rates), max(rates))


def _columns_of_training(measurer: Measurer, study: Study, line: Method) -> Row:
    """The columns of the study that come from training logs; NaN for a line without a training."""
    columns = set(study.columns)
    cells = line.policies
    trained = not measurer.experiment.is_derived(cells[0])
    row: Row = {}
    if "late_entropy" in columns:
        row["late_entropy"] = fmean(map(measurer.late_entropy, cells)) if trained else math.nan
    for column, key in _LOGGED.items():
        if column in columns:
            means = [measurer.column(cell, key).mean() for cell in cells if trained]
            row[column] = fmean(means) if means else math.nan
    if "accepted_wrong" in columns:
        accepted = [_accepted_wrong(measurer, cell) for cell in cells if trained]
        row["accepted_wrong"] = fmean(accepted) if accepted else math.nan
    if "cpu_seconds" in columns:
        seconds = [_cpu_seconds(measurer, cell) for cell in cells if trained]
        row["cpu_seconds"] = fmean(seconds) if seconds else math.nan
    return row


def curve_columns(
    measurer: Measurer,
    name: str,
    lines: Sequence[Method],
    chosen: Mapping[int, Sequence[Method]],
) -> dict[Method, Row]:
    """The columns `regret` and `crossing` of each line, if the study has them.

    The regret is what a line lacks to the best one of all lines, chosen or not, for k from 1 to the
    largest of the study. Lines are compared in the seeds that all of them have.
    """
    study = study_of(measurer.experiment, name)
    rows: dict[Method, Row] = {line: {} for line in lines}
    largest = max(measurer.experiment.config.evaluation.k)
    if "regret" in study.columns:
        curves = resampled_curves(_counts(measurer, study, lines), largest)
        for line, regret in zip(lines, regrets(curves), strict=True):
            rows[line] |= _interval("regret", regret.largest)
            rows[line]["regret_at"] = regret.at
            rows[line] |= _interval("mean_regret", regret.mean)
            rows[line] |= _interval("excess_regret", regret.excess)
    if "crossing" in study.columns:
        for line, row in _crossings(measurer, name, lines, largest).items():
            rows[line] |= row
    return rows


def _crossings(
    measurer: Measurer, name: str, lines: Sequence[Method], largest: int
) -> dict[Method, Row]:
    """The columns about the k at which the base model overtakes each line.

    crossing: over all seeds; crossing_seed0: of seed 0, with an interval over problems only.
    crossing_rises: how surely it rises with the k of training, from policy gradient up to this
        line, among the lines of one variant; NaN for other objectives.
    """
    experiment = measurer.experiment
    study = study_of(experiment, name)
    base = Method(BASE, tuple(experiment.bases_of(name)))
    compared = list(lines) + [base]
    counts = _counts(measurer, study, compared)
    by_seed = curves_by_seed(counts, largest)
    curves = mean_over_seeds(by_seed)
    rows: dict[Method, Row] = {line: {"crossing_rises": math.nan} for line in lines}
    # The last crossing is that of the base model with itself.
    of_lines = crossings(curves, len(lines))[:-1]
    for line, crossing in zip(lines, of_lines, strict=True):
        rows[line] |= _interval("crossing", crossing)
    for seed, of_seed in zip(measurer.common_seeds(compared), by_seed, strict=True):
        of_lines = crossings(of_seed, len(lines))[:-1]
        for line, crossing in zip(lines, of_lines, strict=True):
            rows[line] |= _interval(f"crossing_seed{seed}", crossing)
    for variant in dict.fromkeys(line.variant for line in lines):
        order = _by_trained_k(lines, variant)
        if not order:
            continue
        places = [lines.index(line) for line in order]
        for line, share in zip(order, rising_shares(curves, len(lines), places), strict=True):
            rows[line]["crossing_rises"] = share
    return rows


def _by_trained_k(lines: Sequence[Method], variant: str) -> list[Method]:
    """Policy gradient and RSPO with a variant, in ascending order of the k of training."""
    found = [line for line in lines if line.variant == variant and line.objective == RISK_NEUTRAL]
    rspo = [line for line in lines if line.variant == variant and line.objective == RSPO]
    return found + sorted(rspo, key=lambda line: line.k or 0)


def _counts(measurer: Measurer, study: Study, lines: Sequence[Method]) -> Counts:
    """The correct samples of some lines, in the seeds that all of them have."""
    benchmarks = measurer.experiment.benchmarks_of(study.suite)
    seeds = measurer.common_seeds(lines)
    counts = []
    for line in lines:
        policies = measurer.policies_by_seed(line)
        of_seeds = [
            np.concatenate([measurer.scores(policies[seed], one).counts for one in benchmarks])
            for seed in seeds
        ]
        counts.append(of_seeds)
    first = lines[0].policies[0]
    sizes = [len(measurer.scores(first, one).ids) for one in benchmarks]
    samples = int(measurer.scores(first, benchmarks[0]).responses.min())
    return Counts(np.array(counts), samples, sizes)


def _interval(name: str, interval: Interval) -> Row:
    """Three columns of a value and the ends of its interval."""
    ends = {f"{name}_low": interval.low, f"{name}_high": interval.high}
    return {name: interval.value} | ends


def _texts(settings: Mapping[Any, Any]) -> dict[str, str]:
    """Every setting as text, by its dotted key."""
    return {key: "none" if value is None else str(value) for key, value in leaves(settings)}


def origins(experiment: Experiment, cells: Iterable[str]) -> dict[str, list[str]]:
    """The cells that each kind of processor or GPU and version of PyTorch trained.

    Returns: names of cells by a text such as "PROCESSOR, PyTorch 2.9", those with most cells first.
        The text has the data type where the provenance has it, and "unknown" stands for what the
        provenance does not say.
    """
    by_origin: dict[str, list[str]] = {}
    for cell in cells:
        note = _of_training(experiment, cell)
        torch = note.get("packages", {}).get("torch", "unknown")
        by_origin.setdefault(f"{_place_of(note)}, PyTorch {torch}", []).append(cell)
    return dict(sorted(by_origin.items(), key=lambda item: -len(item[1])))


def commits(experiment: Experiment, cells: Iterable[str]) -> list[str]:
    """The commits of the code that trained cells: the first eight digits of each, sorted.

    Commits with uncommitted changes say so, and "unknown" stands for what provenance does not say.
    """
    names = set()
    for cell in cells:
        commit = _of_training(experiment, cell).get("git_commit", "")
        name = commit[:8] or "unknown"
        if commit.endswith(UNCOMMITTED):
            name += " with uncommitted changes"
        names.add(name)
    return sorted(names)


def _of_training(experiment: Experiment, cell: str) -> Mapping[str, Any]:
    """The provenance of a cell's policy; of its log, if it has only this, as without a suite."""
    note = read_provenance(experiment.files.policy(cell))
    return note or read_provenance(experiment.files.training_log(cell))


def _place_of(provenance: Mapping[str, Any]) -> str:
    """The processor or GPU that wrote a result, and the data type if the provenance has it."""
    notes = provenance.get("notes", {})
    device = notes.get("device", "cpu")
    place = str(provenance.get("processor", "unknown"))
    if device != "cpu":
        place = str(notes.get("gpu", device))
    return f"{place} in {notes['dtype']}" if "dtype" in notes else place


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


def _accepted_wrong(measurer: Measurer, cell: str) -> float:
    """The fraction of all responses that are wrong and rewarded, mean over steps.

    Rewards are 1 or 0, so it is the mean reward minus the fraction of correct responses; correct
    responses that are not rewarded count as -1, so that false rejects give a negative number.
    """
    return float((measurer.column(cell, "reward") - measurer.column(cell, "correct")).mean())


def _cpu_seconds(measurer: Measurer, cell: str) -> float:
    """The processor seconds of a cell's training per step, including its start and validation.

    The wall-clock seconds of training.jsonl depend on what else the machine did. NaN without
    provenance.
    """
    note = read_provenance(measurer.experiment.files.policy(cell))
    return float(note.get("cpu_seconds", math.nan)) / len(measurer.log(cell))
