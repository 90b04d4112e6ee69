"""The variant of each method that a study compares, chosen on the validation split.

A variant's score is its Pass@k in validation at one k, or minus its largest regret over all k that
the validation has: what it lacks to the best variant of any method. Of the variants of a method
whose score is at most `choose_margin` below the best one's, the one with the lowest learning rate
is chosen. With `choose_in`, the trainings of another study decide.
"""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Literal

from rspo.analysis.comparisons import Method
from rspo.analysis.measure import Measurer
from rspo.analysis.studies import chooser, compared_at, is_candidate, lines_of, study_of
from rspo.config.experiment import Experiment
from rspo.config.schema import Study
from rspo.core.errors import InputError
from rspo.passk import ROUNDING

By = int | Literal["all"]  # a k of the validation, or the regret over all of them
Variant = tuple[str, int | None, int | None, str]  # objective, k, n and variant
_PASS = "pass_at_"  # before k, in the keys of a validation


def columns_of_choice(study: Study, ks: Sequence[int]) -> dict[str, By]:
    """The columns with what a study chooses by; none if it does not choose.

    Args:
        ks: the k of the study's evaluation.
    """
    by = study.choose_by_pass_at
    if by is None:
        return {}
    if by == "each":
        return {f"validation_at_{k}": k for k in sorted(ks)}
    return {"validation_regret": "all"} if by == "all" else {"validation": by}


def chosen_lines(
    measurer: Measurer, name: str, lines: Sequence[Method]
) -> Mapping[int, Sequence[Method]]:
    """The lines to compare at each k of evaluation: one variant of each method.

    Variants among which the study does not choose stay. A study that does not choose compares all
    variants at every k. One that chooses at each k has only the lines of `compared_at` there.

    Raises: InputError if another study chooses, and this one lacks what it chooses.
    """
    experiment = measurer.experiment
    by = study_of(experiment, name).choose_by_pass_at
    ks = experiment.config.evaluation.k
    if by is None:
        return dict.fromkeys(ks, lines)
    if by != "each":
        return dict.fromkeys(ks, _chosen_by(measurer, name, lines, by))
    chosen = {}
    for k in ks:
        compared = compared_at(experiment, name, lines, k)
        chosen[k] = _chosen_by(measurer, name, compared, k)
    return chosen


def _chosen_by(measurer: Measurer, name: str, lines: Sequence[Method], by: By) -> Sequence[Method]:
    """The chosen variant of each method, and the variants that stand outside the choice."""
    experiment = measurer.experiment
    study = study_of(experiment, name)
    wanted = best_variants(measurer, name, lines, by)
    missing = wanted - {key_of(line) for line in lines}
    if missing:
        objective, k, _, variant = min(missing, key=str)
        method = f"{objective} with k = {k}" if k else objective
        what = "the largest regret in validation" if by == "all" else f"validation at Pass@{by}"
        raise InputError(
            f"{experiment.place('studies', name)}: by {what}, studies.{study.choose_in} "
            f"chooses the variant {variant} of {method}; add it to the cells"
        )
    choosing = chooser(experiment, name)
    return [line for line in lines if key_of(line) in wanted or not is_candidate(choosing, line)]


def best_variants(measurer: Measurer, name: str, lines: Sequence[Method], by: By) -> set[Variant]:
    """The variant of each method that validation chooses, whether or not the study has it."""
    experiment = measurer.experiment
    tried = tried_lines(experiment, name, lines)
    scores = scores_of(measurer, tried, by)
    margin = chooser(experiment, name).choose_margin
    best = set()
    for method in dict.fromkeys(line.objective_k_n for line in tried):
        variants = [line for line in tried if line.objective_k_n == method]
        enough = max(scores[key_of(line)] for line in variants) - margin
        good = [line for line in variants if scores[key_of(line)] >= enough - ROUNDING]
        good.sort(key=lambda line: (rate_of(measurer, line), -scores[key_of(line)]))
        best.add(key_of(good[0]))
    return best


def tried_lines(experiment: Experiment, name: str, lines: Sequence[Method]) -> list[Method]:
    """The variants of the methods of `lines` whose validation decides."""
    study = study_of(experiment, name)
    methods = {line.objective_k_n for line in lines}
    tried = lines_of(experiment, study.choose_in) if study.choose_in else lines
    of_study = chooser(experiment, name)
    return [
        line for line in tried if line.objective_k_n in methods and is_candidate(of_study, line)
    ]


def scores_of(measurer: Measurer, tried: Sequence[Method], by: By) -> dict[Variant, float]:
    """What the best variant has most of: Pass@k in validation, or minus the largest regret.

    Raises: InputError if validations differ in their k.
    """
    curves = {key_of(line): _validation(measurer, line, by) for line in tried}
    if by != "all":
        return {key: curve[by] for key, curve in curves.items()}
    ks = next(iter(curves.values())).keys()
    for line in tried:
        if curves[key_of(line)].keys() != ks:
            path = measurer.experiment.files.training_log(line.policies[0])
            raise InputError(
                f"{path}: the last validation has Pass@k for other k than that of "
                f"{tried[0].policies[0]}; set the same evaluation.k and "
                "training.validation.samples in each"
            )
    best = {k: max(curve[k] for curve in curves.values()) for k in ks}
    return {key: -max(best[k] - curve[k] for k in ks) for key, curve in curves.items()}


def key_of(line: Method) -> Variant:
    """What identifies a line among `scores_of`."""
    return line.objective, line.k, line.n, line.variant


def _validation(measurer: Measurer, line: Method, by: By) -> dict[int, float]:
    """Pass@k on the validation split after the last step, by k; mean over the seeds.

    Raises: InputError if the last step was not validated, or not with a k in `by`.
    """
    found: dict[int, list[float]] = {}
    for cell in line.policies:
        validation = measurer.log(cell)[-1].get("validation", {})
        ks = [int(key.removeprefix(_PASS)) for key in validation if key.startswith(_PASS)]
        if not ks or (by != "all" and by not in ks):
            path = measurer.experiment.files.training_log(cell)
            what = "" if by == "all" else f" with Pass@{by}"
            raise InputError(
                f"{path}: the last step has no validation{what}, by which the study chooses among "
                "variants; set training.validation.every and .samples in each"
            )
        for k in ks:
            found.setdefault(k, []).append(validation[f"{_PASS}{k}"])
    return {k: fmean(values) for k, values in found.items() if len(values) == len(line.policies)}


def rate_of(measurer: Measurer, line: Method) -> float:
    """The learning rate of a method, with the settings of its variant."""
    experiment = measurer.experiment
    cell = experiment.cell(line.policies[0])
    if experiment.is_derived(cell.name):
        cell = experiment.source_of(cell)
    return experiment.for_cell(cell.name).config.models[cell.model].learning_rate
