"""The variant of each method that a study compares, chosen on the validation split."""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from rspo.analysis.comparisons import Method
from rspo.analysis.measure import Measurer
from rspo.analysis.studies import study_of
from rspo.config.schema import Study
from rspo.core.errors import InputError


def ks_of_choice(study: Study, ks: Sequence[int]) -> list[int]:
    """The k at which a study chooses among variants; none if it does not choose.

    Args:
        ks: the k of the study's evaluation.
    """
    if study.choose_by_pass_at is None:
        return []
    return sorted(ks) if study.choose_by_pass_at == "each" else [study.choose_by_pass_at]


def chosen_lines(
    measurer: Measurer, name: str, lines: Sequence[Method]
) -> Mapping[int, Sequence[Method]]:
    """The lines to compare at each k of evaluation.

    Of the variants among which the study chooses, it is the one that is best on the validation
    split, and of equally good ones the one with the lowest learning rate. A study that does not
    choose compares all variants at every k.
    """
    study = study_of(measurer.experiment, name)
    ks = measurer.experiment.config.evaluation.k
    if study.choose_by_pass_at is None:
        return dict.fromkeys(ks, lines)
    if study.choose_by_pass_at == "each":
        return {k: _chosen_at(measurer, study, lines, k) for k in ks}
    chosen = _chosen_at(measurer, study, lines, study.choose_by_pass_at)
    return dict.fromkeys(ks, chosen)


def _chosen_at(measurer: Measurer, study: Study, lines: Sequence[Method], k: int) -> list[Method]:
    """The best variant of each method in validation at k, and the variants that stand outside."""
    best: dict[Any, Method] = {}
    for line in lines:
        if not is_candidate(study, line):
            continue
        other = best.get(line.objective_k_n)
        if other is None or _score(measurer, study, line, k) > _score(measurer, study, other, k):
            best[line.objective_k_n] = line
    chosen = set(best.values())
    return [line for line in lines if line in chosen or not is_candidate(study, line)]


def is_candidate(study: Study, line: Method) -> bool:
    """Whether a line is one of the variants among which a study chooses."""
    return not study.choose_within or line.variant in study.choose_within


def _score(measurer: Measurer, study: Study, line: Method, k: int) -> tuple[float, float]:
    """What the chosen line has most of: Pass@k in validation, then a low learning rate."""
    return validation(measurer, study, line, k), -rate_of(measurer, line)


def validation(measurer: Measurer, study: Study, line: Method, k: int) -> float:
    """Pass@k on the validation split after the last step, mean over the seeds that decide.

    Raises: InputError if the last step was not validated with this k.
    """
    values = []
    for cell in line.policies[: study.choose_by_seeds]:
        value = measurer.log(cell)[-1].get("validation", {}).get(f"pass_at_{k}")
        if not isinstance(value, float):
            path = measurer.experiment.files.training_log(cell)
            raise InputError(
                f"{path}: the last step has no validation with Pass@{k}, by which the study "
                "chooses among variants; set training.validation.every and .samples in each"
            )
        values.append(value)
    return fmean(values)


def rate_of(measurer: Measurer, line: Method) -> float:
    """The learning rate of a method, with the settings of its variant."""
    experiment = measurer.experiment
    cell = experiment.cell(line.policies[0])
    if experiment.is_derived(cell.name):
        cell = experiment.source_of(cell)
    return experiment.for_cell(cell.name).config.models[cell.model].learning_rate
