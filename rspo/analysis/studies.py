"""Studies: comparisons beyond the paper's, each an entry of the config (docs/add/study.md).

`snakemake reports/fig_peers.pdf` trains the cells of a study, measures its comparisons, and draws
them.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from rspo.analysis.claims import (
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
from rspo.config.schema import POOLED, Contrast, Study
from rspo.core.errors import InputError
from rspo.objectives import OBJECTIVES
from rspo.pipeline import tasks
from rspo.pipeline.task import Task

CLAIMS: dict[str, Callable[[GridMethods], list[Comparison]]] = {
    "C1": above_baseline,
    "C3": best_at_its_own_k,
    "C10": above_base,
}


OVER_MODELS = "mean over models"


def study_of(experiment: Experiment, name: str) -> Study:
    studies = experiment.config.studies
    experiment.require_name("study", name, studies)
    study, evaluated = studies[name], experiment.of_study(name).config.evaluation.k
    chosen: list[tuple[str, tuple[int, ...]]] = [("frontier", study.frontier or ())]
    chosen += [(f"contrasts, {one.family!r}: k", one.k or ()) for one in study.contrasts]
    for key, ks in chosen:
        if unknown := set(ks) - {*evaluated}:
            raise InputError(
                f"config/{experiment.scale}.yaml: studies.{name}.{key} = {max(unknown)}; allowed: "
                f"evaluation.k, which is {', '.join(map(str, evaluated))}"
            )
    return study


def task(experiment: Experiment, name: str) -> Task:
    """`rspo study NAME`: writes its tables and its page."""
    study = study_of(experiment, name)
    experiment = experiment.of_study(name)
    lines = lines_of(experiment, name)
    if study.choose_by_pass_at:  # which variant is chosen, the data decides
        lines = [*{line.objective_k_n: line for line in lines}.values()]
    families = {comparison.family for comparison in planned(experiment, name, lines)}
    for contrast in study.contrasts:
        if contrast.family not in families:
            raise InputError(
                f"config/{experiment.scale}.yaml: studies.{name}.contrasts: {contrast.family!r} "
                "compares nothing: no two of its cells differ only in what is subtracted"
            )
    return tasks.study(experiment, name)


def lines_of(experiment: Experiment, name: str) -> list[Method]:
    """Every method of a study, before one variant of each is chosen."""
    cells, study = experiment.cells_of(name), study_of(experiment, name)
    several_n = len({cell.n for cell in cells}) > 1
    lines = []
    for cell, policies in experiment.by_method(cell.name for cell in cells).items():
        label = label_of(cell.objective, cell.k) + (f", n={cell.n}" if several_n else "")
        label = re.sub(r"[$^{}]", "", label)  # no formulas in tables
        variant = cell.model if study.several_models else cell.variant
        lines.append(Method.for_cell(cell, policies, label, variant=variant))
    return lines


def planned(experiment: Experiment, name: str, lines: Sequence[Method]) -> list[Comparison]:
    """The comparisons of a study: Pass@k of every method, its contrasts, and what claims say.

    Args:
        lines: the methods, one variant of each if the study chooses one.
    """
    study = study_of(experiment, name)
    bases = [
        Method(BASE, (one,), variant=experiment.model_of(one) if study.several_models else "")
        for one in experiment.bases_of(name)
    ]
    benchmarks = tuple(experiment.benchmarks_of(study.suite))
    every = lines_of(experiment, name)
    ks = sorted(experiment.config.evaluation.k)
    found = [
        _of_scores(method.label, "", [Term(method, 1, (k,))], method.variant)
        for method in (*every, *bases)
        for k in ks
    ]
    for contrast in study.contrasts:
        if contrast.claims:
            continue
        shown = sorted(contrast.k or ks)
        for k in [tuple(shown)] if contrast.mean else [(k,) for k in shown]:
            of = every if contrast.each_variant else lines
            differences = _differences(contrast, of, bases[0], k)
            found += differences + (_over_models(differences) if study.several_models else [])
    found = [replace(comparison, benchmarks=benchmarks) for comparison in found]
    for contrast in study.contrasts:
        found += _of_claims(experiment, name, contrast)
    margin = experiment.config.evaluation.equivalence_margin
    return [
        replace(one, tie_margin=margin) if one.family and one.metric == "pass_at_k" else one
        for one in found
    ]


def _of_scores(
    method_a: str, method_b: str, terms: Sequence[Term], variant: str = "", family: str = ""
) -> Comparison:
    found = Comparison(method_a, method_b, "pass_at_k", tuple(terms), decides=False)
    return replace(found, variant=variant, family=family)


def _differences(
    contrast: Contrast, lines: Sequence[Method], base: Method, ks: tuple[int, ...]
) -> list[Comparison]:
    """The contrast of every method that it is about."""
    found = []
    for line in lines:
        other = _subtracted(contrast, line, lines, base)
        if other is None:
            continue
        terms, name = difference(line, other, ks), other.label
        if contrast.less:
            same = [one for one in lines if one.variant == line.variant]
            less = next(iter(_of_objective(contrast.less, line, same)), None)
            subtracted = _subtracted(contrast, less, lines, base) if less else None
            if less is None or subtracted is None:
                continue
            terms += difference(less, subtracted, ks, weight=-1)
            name = f"{name}, less {less.label}"
        found.append(_of_scores(line.label, name, terms, line.variant, contrast.family))
    return found


def _over_models(differences: Sequence[Comparison]) -> list[Comparison]:
    """The mean over models of each difference; each model is a run."""
    by_methods: dict[tuple[str, str], list[Comparison]] = {}
    for one in differences:
        by_methods.setdefault((one.method_a, one.method_b), []).append(one)
    return [
        replace(
            group[0],
            variant=OVER_MODELS,
            family=f"{group[0].family}, {OVER_MODELS}",
            terms=tuple(term for one in group for term in one.terms),
            runs=tuple(one.terms for one in group),
        )
        for group in by_methods.values()
    ]


def _of_objective(objective: str, line: Method, lines: Sequence[Method]) -> list[Method]:
    """The methods of another objective with the n of a method, and its k where both have one."""
    return [
        one
        for one in lines
        if one.objective == objective != line.objective and one.n == line.n
        if one.k == line.k or None in (one.k, line.k)
    ]


def _subtracted(
    contrast: Contrast, line: Method, lines: Sequence[Method], base: Method
) -> Method | None:
    """What is subtracted from a method, labelled with what differs; None for no such method."""
    minus = contrast.minus
    if minus == BASE:
        return base
    if isinstance(minus, str) and minus in OBJECTIVES:
        chosen = len({one.objective_k_n for one in lines}) == len(lines)  # one variant of each
        others = _of_objective(minus, line, lines)
        if not chosen and len({one.variant for one in others}) > 1:
            others = [one for one in others if one.variant == line.variant]
        return others[0] if len(others) == 1 else None
    variant = minus if isinstance(minus, str) else minus.get(line.variant)
    others = [one for one in lines if one.variant == variant != line.variant]
    same = [one for one in others if one.objective_k_n == line.objective_k_n]
    # A method with another n than all that have this variant is compared with the only one of them.
    same = same or [one for one in others if one.objective_k_n[:2] == line.objective_k_n[:2]]
    return replace(same[0], label=same[0].variant) if len(same) == 1 else None


def claim_family(claim: str, variant: str) -> str:
    """The family of the comparisons that decide a claim on the methods of a variant."""
    return f"{claim} of {variant}"


def _of_claims(experiment: Experiment, name: str, contrast: Contrast) -> list[Comparison]:
    """What decides the contrast's claims on every variant, as far as its methods allow.

    Also the estimate of each claim, a mean over k of the first comparison on all problems at each
    k, and how much larger it is than with the variant to subtract.
    """
    every: list[Comparison] = []
    estimates = []
    for variant in dict.fromkeys(cell.variant for cell in experiment.cells_of(name)):
        for claim in contrast.claims:
            try:
                grid = GridMethods(experiment, name, variant=variant)
                deciding = [one for one in CLAIMS[claim](grid) if one.decides]
            except NotTested:
                continue
            pooled = [one for one in deciding if one.where == POOLED and len(one.ks) == 1]
            by_k = {one.ks[0]: one for one in reversed(pooled)}
            if not by_k:
                continue
            family = claim_family(claim, variant)
            every += [replace(one, claim=claim, variant=variant, family=family) for one in deciding]
            terms = [
                replace(term, weight=term.weight / len(by_k))
                for k in sorted(by_k)
                for term in by_k[k].terms
            ]
            estimate = _of_scores(claim, "", terms, variant)
            estimates.append(replace(estimate, claim=claim, benchmarks=tuple(grid.benchmarks)))
    reference = {one.claim: one.terms for one in estimates if one.variant == contrast.minus}
    changes = [
        replace(
            one,
            method_b=str(contrast.minus),
            terms=one.terms + tuple(replace(t, weight=-t.weight) for t in reference[one.claim]),
            family=contrast.family,
        )
        for one in estimates
        if one.variant != contrast.minus and one.claim in reference
    ]
    return [*every, *changes, *estimates]
