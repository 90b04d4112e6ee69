"""Studies: comparisons beyond the paper's, each an entry of the config (docs/add/study.md).

`snakemake reports/fig_peers.pdf`, for example, trains the cells of the study `peers`, measures its
comparisons, and draws them.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from rspo.analysis.claims import (
    RISK_NEUTRAL,
    GridMethods,
    NotTested,
    above_base,
    above_baseline,
    best_at_its_own_k,
)
from rspo.analysis.comparisons import Comparison, Method, Term, difference
from rspo.analysis.labels import label_of
from rspo.config.experiment import Experiment
from rspo.config.names import BASE
from rspo.config.schema import POOLED, Contrast, Study, Subtrahend
from rspo.core.errors import InputError
from rspo.objectives import OBJECTIVES
from rspo.pipeline import tasks
from rspo.pipeline.task import Task

# The claims that a study may test on each of its variants.
CLAIMS: dict[str, Callable[[GridMethods], list[Comparison]]] = {
    "C1": above_baseline,
    "C3": best_at_its_own_k,
    "C10": above_base,
}
OVER_MODELS = "mean over models"  # stands for a variant
RSPO = "rspo_pass_at_k"


def study_of(experiment: Experiment, name: str) -> Study:
    """The study of the config with this name.

    Raises: InputError if there is none, it names a k that is not evaluated or a variant that it
        does not have, or another study cannot choose for it.
    """
    studies = experiment.config.studies
    experiment.require_name("study", name, studies)
    experiment.require_evaluated(name)
    study = studies[name]
    other = experiment.choosing_study(name)
    if other is not None:
        _require_chooser(experiment, name, other)
    benchmarks = experiment.benchmarks_of(study.suite)
    for contrast in study.contrasts:
        for benchmark in contrast.benchmarks:
            location = ("studies", name, f"contrasts, {contrast.family!r}: benchmarks")
            experiment.require_value(location, benchmark, "benchmark", benchmarks)
    variants = {cell.variant for cell in experiment.cells_of(name)}
    for variant in study.choose_within:
        location = ("studies", name, "choose_within")
        experiment.require_value(location, variant, "variant", variants)
    return study


def _require_chooser(experiment: Experiment, name: str, other: str) -> None:
    """Check that a study can choose the variants of another one.

    Raises: InputError if it does not choose for itself, or lacks a model or a method of the other.
    """
    place = f"{experiment.place('studies', name, 'choose_in')} = {other}"
    study = experiment.config.studies[other]
    if study.choose_by_pass_at is None or study.choose_in:
        raise InputError(f"{place}: allowed: another study, with choose_by_pass_at, no choose_in")
    models = {cell.model for cell in experiment.cells_of(name)}
    if models != {cell.model for cell in experiment.cells_of(other)}:
        raise InputError(f"{place}: both studies need cells of the same models")
    candidates = [line for line in lines_of(experiment, other) if is_candidate(study, line)]
    known = {line.objective_k_n for line in candidates}
    for line in lines_of(experiment, name):
        if line.objective_k_n not in known:
            raise InputError(
                f"{place}: studies.{other} has no variant of {line.label} to choose; add it to its "
                "cells"
            )


def chooser(experiment: Experiment, name: str) -> Study:
    """The study whose trainings decide what a study compares: itself, or another one."""
    study = experiment.config.studies[name]
    return experiment.config.studies[study.choose_in] if study.choose_in else study


def is_candidate(study: Study, line: Method) -> bool:
    """Whether a line is one of the variants among which a study chooses."""
    return not study.choose_within or line.variant in study.choose_within


def one_variant_each(experiment: Experiment, name: str, lines: Sequence[Method]) -> list[Method]:
    """Some variant of each method among those that a study may choose, and all other variants.

    Which variant is chosen depends on the data. Which methods a contrast compares does not.
    """
    choosing = chooser(experiment, name)
    any_of = {}
    for line in lines:
        variant = "" if is_candidate(choosing, line) else line.variant
        any_of[line.objective_k_n, variant] = line
    return list(any_of.values())


def task(experiment: Experiment, name: str) -> Task:
    """`rspo study NAME`: writes its tables and its page.

    Raises: InputError for a contrast that compares nothing.
    """
    study = study_of(experiment, name)
    experiment = experiment.of_study(name)
    lines = lines_of(experiment, name)
    if study.choose_by_pass_at:
        lines = one_variant_each(experiment, name, lines)
    families = {comparison.family for comparison in planned(experiment, name, lines)}
    for contrast in study.contrasts:
        if contrast.family not in families:
            raise InputError(
                f"{experiment.place('studies', name, 'contrasts')}: {contrast.family!r} "
                "compares nothing: no two of its cells differ only in what is subtracted"
            )
    return tasks.study(experiment, name)


def lines_of(experiment: Experiment, name: str) -> list[Method]:
    """Every method and variant of a study, before one variant of each is chosen."""
    cells = experiment.cells_of(name)
    study = experiment.config.studies[name]
    several_n = len({cell.n for cell in cells}) > 1
    lines = []
    for cell, policies in experiment.by_method(cell.name for cell in cells).items():
        label = label_of(cell.objective, cell.k)
        if several_n:
            label += f", n={cell.n}"
        label = re.sub(r"[$^{}]", "", label)  # tables do not typeset LaTeX, such as "PKPO $s$"
        variant = cell.model if study.several_models else cell.variant
        lines.append(Method.for_cell(cell, policies, label, variant=variant))
    return lines


def planned(
    experiment: Experiment, name: str, lines: Sequence[Method] | Mapping[int, Sequence[Method]]
) -> list[Comparison]:
    """The comparisons of a study: Pass@k of every method, its contrasts, and what claims say.

    Args:
        lines: the methods, one variant of each if the study chooses one; or those at each k of
            evaluation, if it chooses at each.
    """
    study = study_of(experiment, name)
    bases = _bases(experiment, name)
    # The level of every method, variant and base policy at each k.
    every_line = lines_of(experiment, name)
    ks = sorted(experiment.config.evaluation.k)
    every_benchmark = tuple(experiment.benchmarks_of(study.suite))
    levels = [
        _compare_scores(method.label, "", [Term(method, 1, (k,))], method.variant)
        for method in every_line + bases
        for k in ks
    ]
    comparisons = [replace(level, benchmarks=every_benchmark) for level in levels]
    # The contrasts of methods: a difference at each k, or one for the mean over k.
    for contrast in study.contrasts:
        if contrast.claims:
            continue
        shown = tuple(sorted(contrast.named_ks or ks))
        for averaged in [shown] if contrast.mean else [(k,) for k in shown]:
            # A mean over k is of a study that does not choose at each k.
            chosen = lines[averaged[0]] if isinstance(lines, Mapping) else lines
            compared = every_line if contrast.each_variant else chosen
            differences = _differences(contrast, compared, bases[0], averaged)
            if study.several_models:
                differences += _over_models(differences)
            comparisons += [
                replace(
                    comparison,
                    where=" ".join(contrast.benchmarks) or POOLED,
                    benchmarks=contrast.benchmarks or every_benchmark,
                )
                for comparison in differences
            ]
    # The contrasts of claims, whose comparisons have their benchmarks already.
    for contrast in study.contrasts:
        comparisons += _compare_claims(experiment, name, contrast)
    margin = experiment.config.evaluation.equivalence_margin
    return [_with_tie(comparison, margin) for comparison in comparisons]


def _bases(experiment: Experiment, name: str) -> list[Method]:
    """The base policies of a study, of each model."""
    several = experiment.config.studies[name].several_models
    by_model = experiment.bases_by_model(experiment.bases_of(name))
    return [
        Method(BASE, policies, variant=model if several else "")
        for model, policies in by_model.items()
    ]


def compared_at(experiment: Experiment, name: str, lines: Sequence[Method], k: int) -> list[Method]:
    """The lines whose method some contrast compares at a k of evaluation, or subtracts there.

    Contrasts of every variant do not count, because no variant is chosen for them.
    """
    methods = set()
    one_each = one_variant_each(experiment, name, lines)
    (base,) = _bases(experiment, name)
    for contrast in study_of(experiment, name).contrasts:
        is_at_k = k in contrast.named_ks or not contrast.named_ks
        if contrast.claims or contrast.each_variant or not is_at_k:
            continue
        for comparison in _differences(contrast, one_each, base, (k,)):
            methods |= {term.method.objective_k_n for term in comparison.terms}
    return [line for line in lines if line.objective_k_n in methods]


def _with_tie(comparison: Comparison, margin: float) -> Comparison:
    """The comparison, with a test for a tie if its difference is tested."""
    if comparison.family and comparison.metric == "pass_at_k":
        return replace(comparison, tie_margin=margin)
    return comparison


def _compare_scores(
    method_a: str, method_b: str, terms: Sequence[Term], variant: str = "", family: str = ""
) -> Comparison:
    """A comparison of Pass@k that decides no claim."""
    return Comparison(
        method_a,
        method_b,
        "pass_at_k",
        tuple(terms),
        decides=False,
        variant=variant,
        family=family,
    )


def _differences(
    contrast: Contrast, lines: Sequence[Method], base: Method, ks: tuple[int, ...]
) -> list[Comparison]:
    """What a contrast compares: a difference for each method from which it subtracts another.

    With `contrast.less`, the same difference of another objective is subtracted from it:
    (method - subtracted) - (less - subtracted from less).
    """
    comparisons = []
    for line in lines:
        if not _is_compared(contrast, line, ks):
            continue
        subtracted = _subtracted(contrast, line, _among(contrast, line, lines), base, ks)
        if subtracted is None:
            continue
        terms = difference(line, subtracted, ks)
        name = subtracted.label
        if contrast.less:
            same_variant = [method for method in lines if method.variant == line.variant]
            less = next(iter(_with_objective(contrast.less, line, same_variant)), None)
            if less is None:
                continue
            subtracted_from_less = _subtracted(contrast, less, lines, base, ks)
            if subtracted_from_less is None:
                continue
            terms += difference(less, subtracted_from_less, ks, weight=-1)
            name = f"{name}, less {less.label}"
        comparisons.append(_compare_scores(line.label, name, terms, line.variant, contrast.family))
    return comparisons


def _among(contrast: Contrast, line: Method, lines: Sequence[Method]) -> Sequence[Method]:
    """The methods among which a contrast looks for what it subtracts from a line.

    A contrast of each variant subtracts an objective at the same variant only.
    """
    minus = contrast.minus
    names_objective = isinstance(minus, str) and minus in OBJECTIVES
    names_method = isinstance(minus, Subtrahend) and minus.variant is None
    if contrast.each_variant and (names_objective or names_method):
        return [other for other in lines if other.variant == line.variant]
    return lines


def _is_compared(contrast: Contrast, line: Method, ks: tuple[int, ...]) -> bool:
    """Whether a contrast subtracts something from a line at these k."""
    if contrast.method is not None and line.objective != contrast.method:
        return False
    return contrast.k != "own" or ks == (_trained_for(line),)


def _trained_for(line: Method) -> int | None:
    """The k that a line is trained for: 1 for policy gradient, None for others without a k."""
    return 1 if line.objective == RISK_NEUTRAL else line.k


def _described(
    minus: Subtrahend, line: Method, lines: Sequence[Method], ks: tuple[int, ...]
) -> Method | None:
    """The method that `minus` describes, to be subtracted from `line` at these k.

    Returns: None if there is no such method, or there are several.
    """
    found = [other for other in lines if other != line and _fits(minus, other, line, ks)]
    if minus.variant is not None:
        found = [other for other in found if other.variant == minus.variant]
    elif len(found) > 1:
        found = [other for other in found if other.variant == line.variant]
    if len(found) != 1:
        return None
    (method,) = found
    # Only the variant differs from that of `line`, so it is the label.
    is_variant = method.objective_k_n == line.objective_k_n
    return replace(method, label=method.variant) if is_variant else method


def _fits(minus: Subtrahend, other: Method, line: Method, ks: tuple[int, ...]) -> bool:
    """Whether `minus` describes the method `other`, but for its variant."""
    objectives = [minus.objective]
    if minus.k == "own" and minus.objective == RSPO:
        objectives.append(RISK_NEUTRAL)  # which is RSPO with k = 1
    if other.objective not in objectives or other.n != line.n:
        return False
    if minus.k == "own":
        return ks == (_trained_for(other),)
    if minus.k == "same":
        return line.k is None or other.k in (None, line.k)
    return other.k == minus.k


def _over_models(differences: Sequence[Comparison]) -> list[Comparison]:
    """The mean over models of each difference; each model is a run."""
    by_methods: dict[tuple[str, str], list[Comparison]] = {}
    for comparison in differences:
        methods = (comparison.method_a, comparison.method_b)
        by_methods.setdefault(methods, []).append(comparison)
    return [
        replace(
            group[0],
            variant=OVER_MODELS,
            family=f"{group[0].family}, {OVER_MODELS}",
            terms=tuple(term for comparison in group for term in comparison.terms),
            runs=tuple(comparison.terms for comparison in group),
        )
        for group in by_methods.values()
    ]


def _with_objective(objective: str, line: Method, lines: Sequence[Method]) -> list[Method]:
    """The methods with this objective that have the n of `line`, and its k if both have a k.

    There are none if `line` has this objective itself.
    """
    if objective == line.objective:
        return []
    methods = []
    for other in lines:
        same_k = other.k == line.k or other.k is None or line.k is None
        if other.objective == objective and other.n == line.n and same_k:
            methods.append(other)
    return methods


def _subtracted(
    contrast: Contrast, line: Method, lines: Sequence[Method], base: Method, ks: tuple[int, ...]
) -> Method | None:
    """The method that a contrast subtracts from `line`, labelled with what differs between them.

    `contrast.minus` names the base policy, an objective, or a variant; or it describes a method; or
    it has the name of a variant for each of some variants.

    Returns: None if there is no such method, or there are several.
    """
    minus = contrast.minus
    if minus == BASE:
        return base
    if isinstance(minus, Subtrahend):
        return _described(minus, line, lines, ks)
    if isinstance(minus, str) and minus in OBJECTIVES:
        # If the subtracted objective has several variants, the one with the variant of `line` is
        # subtracted. If it has only one, that is subtracted from every variant of a method.
        one_variant_each = len({method.objective_k_n for method in lines}) == len(lines)
        others = _with_objective(minus, line, lines)
        if not one_variant_each and len({method.variant for method in others}) > 1:
            others = [method for method in others if method.variant == line.variant]
        return others[0] if len(others) == 1 else None
    variant = minus if isinstance(minus, str) else minus.get(line.variant)
    if variant == line.variant:
        return None
    others = [method for method in lines if method.variant == variant]
    same = [method for method in others if method.objective_k_n == line.objective_k_n]
    if not same:
        # No method with the objective, k and n of `line` has this variant. If only one method with
        # this objective and k has it, with another n, that method is subtracted.
        same = [method for method in others if method.objective_k_n[:2] == line.objective_k_n[:2]]
    return replace(same[0], label=same[0].variant) if len(same) == 1 else None


def claim_family(claim: str, variant: str) -> str:
    """The family of the comparisons that decide a claim on the methods of a variant."""
    return f"{claim} of {variant}"


def _compare_claims(experiment: Experiment, name: str, contrast: Contrast) -> list[Comparison]:
    """The comparisons of a contrast that has claims; none for another contrast.

    First come those that decide each claim on each variant whose methods allow it. Then comes, for
    each claim and variant, the claim's estimate minus that with the variant `contrast.minus`, and
    last the estimates themselves.
    """
    every_deciding: list[Comparison] = []
    estimates = []
    for variant in dict.fromkeys(cell.variant for cell in experiment.cells_of(name)):
        for claim in contrast.claims:
            try:
                grid = GridMethods(experiment, name, variant=variant)
                deciding = [comparison for comparison in CLAIMS[claim](grid) if comparison.decides]
            except NotTested:  # the variant lacks a method that the claim compares
                continue
            terms = _mean_over_k(deciding)
            if not terms:
                continue
            family = claim_family(claim, variant)
            for comparison in deciding:
                every_deciding.append(
                    replace(comparison, claim=claim, variant=variant, family=family)
                )
            estimate = _compare_scores(claim, "", terms, variant)
            estimates.append(replace(estimate, claim=claim, benchmarks=tuple(grid.benchmarks)))
    return every_deciding + _changes_of_claims(contrast, estimates) + estimates


def _mean_over_k(comparisons: Sequence[Comparison]) -> list[Term]:
    """The terms of a claim's estimate: the mean over k of its mean difference at each k.

    The differences are those at one k alone, on all problems. If there are none, there are no
    terms.
    """
    by_k: dict[int, list[Comparison]] = {}
    for comparison in comparisons:
        if comparison.where == POOLED and len(comparison.ks) == 1:
            by_k.setdefault(comparison.ks[0], []).append(comparison)
    terms = []
    for k in sorted(by_k):
        share = 1 / (len(by_k) * len(by_k[k]))
        for comparison in by_k[k]:
            terms += [replace(term, weight=term.weight * share) for term in comparison.terms]
    return terms


def _changes_of_claims(contrast: Contrast, estimates: Sequence[Comparison]) -> list[Comparison]:
    """The estimate of each claim with each variant, minus that with `contrast.minus`."""
    subtracted = {}
    for estimate in estimates:
        if estimate.variant == contrast.minus:
            terms = [replace(term, weight=-term.weight) for term in estimate.terms]
            subtracted[estimate.claim] = tuple(terms)
    return [
        replace(
            estimate,
            method_b=str(contrast.minus),
            terms=estimate.terms + subtracted[estimate.claim],
            family=contrast.family,
        )
        for estimate in estimates
        if estimate.variant != contrast.minus and estimate.claim in subtracted
    ]
