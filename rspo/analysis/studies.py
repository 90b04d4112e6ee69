"""Studies: comparisons beyond the paper's, each an entry of the config (docs/add/study.md).

`snakemake reports/fig_peers.pdf` trains the cells of a study, measures its comparisons, and draws
them. This module imports neither numpy nor pandas: the Snakefile reads it to plan.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from rspo.analysis.claims import (
    GridMethods,
    NotTested,
    above_base,
    above_baseline,
    best_at_its_own_k,
)
from rspo.analysis.comparisons import Comparison, Method, Term, difference
from rspo.analysis.labels import label_of
from rspo.config import steps
from rspo.config.experiment import Experiment
from rspo.config.names import BASE
from rspo.config.schema import POOLED, Contrast, Study
from rspo.core.errors import InputError, did_you_mean
from rspo.core.step import Step
from rspo.objectives import OBJECTIVES

CLAIMS: dict[str, Callable[[GridMethods], list[Comparison]]] = {
    "C1": above_baseline,
    "C3": best_at_its_own_k,
    "C10": above_base,
}


OVER_MODELS = "mean over models"


@dataclass(frozen=True)
class Line:
    """A trained method of a study: cells that differ only in their seed.

    variant: of the settings; the model's name in a study of several models.
    """

    objective: str
    k: int
    n: int
    variant: str
    method: Method

    @property
    def trained(self) -> tuple[str, int, int]:
        """Objective, k and n: what variants have in common."""
        return self.objective, self.k, self.n


def study_of(experiment: Experiment, name: str) -> Study:
    """Raises: InputError for a study that the config lacks."""
    studies = experiment.config.studies
    if name not in studies:
        hints = [did_you_mean(name, studies), f"has {', '.join(studies) or 'none'}"]
        place = f"config/{experiment.scale}.yaml"
        raise InputError("; ".join([f"no study {name!r} in {place}", *filter(None, hints)]))
    evaluated = experiment.of_study(name).config.evaluation.k
    for k in studies[name].frontier or ():
        if k not in evaluated:
            raise InputError(
                f"config/{experiment.scale}.yaml: studies.{name}.frontier = {k}; allowed: "
                f"evaluation.k, which is {', '.join(map(str, evaluated))}"
            )
    for claim in (claim for one in studies[name].contrasts for claim in one.claims):
        if claim not in CLAIMS:
            raise InputError(
                f"config/{experiment.scale}.yaml: studies.{name}.contrasts: claims = {claim!r}; "
                f"allowed: {', '.join(CLAIMS)}"
            )
    return studies[name]


def step(experiment: Experiment, name: str) -> Step:
    """`rspo study NAME`: writes its tables and its page.

    Raises: InputError for a study that the config lacks, and for a contrast without tests.
    """
    study = study_of(experiment, name)
    experiment = experiment.of_study(name)
    lines = lines_of(experiment, name)
    if study.choose_by_pass_at:  # which variant is chosen, the data decides
        lines = [*{line.trained: line for line in lines}.values()]
    families = {comparison.family for comparison in planned(experiment, name, lines)}
    for contrast in study.contrasts:
        plans = planned_claims(experiment, name, contrast)
        if contrast.family not in families and not changes(contrast, plans):
            raise InputError(
                f"config/{experiment.scale}.yaml: studies.{name}.contrasts: {contrast.family!r} "
                "compares nothing: no two of its cells differ only in what is subtracted"
            )
    return steps.study(experiment, name)


def lines_of(experiment: Experiment, name: str) -> list[Line]:
    """Every method of a study, before one variant of each is chosen."""
    cells, study = experiment.cells_of(name), study_of(experiment, name)
    policies: dict[tuple[str, int, int, str], list[str]] = {}
    for cell in cells:
        variant = cell.model if study.several_models else cell.variant
        key = cell.objective, cell.k, cell.n, variant
        policies.setdefault(key, []).append(cell.name)
    several_n = len({cell.n for cell in cells}) > 1
    lines = []
    for (objective, k, n, variant), names in policies.items():
        label = label_of(objective, k) + (f", n={n}" if several_n else "")
        method = Method(re.sub(r"[$^{}]", "", label), tuple(names))  # no formulas in tables
        lines.append(Line(objective, k, n, variant, method))
    return lines


def planned(experiment: Experiment, name: str, lines: Sequence[Line]) -> list[Comparison]:
    """The comparisons of a study: Pass@k of every method, and its contrasts.

    Args:
        lines: the methods, one variant of each if the study chooses one.
    """
    study = study_of(experiment, name)
    bases = [Method(BASE, (one,), trained=False) for one in experiment.bases_of(name)]
    benchmarks = tuple(experiment.benchmarks_of(study.suite))
    every = lines_of(experiment, name)
    levels = [(line.method, line.variant) for line in every]
    levels += [
        (one, experiment.model_of(one.policies[0]) if study.several_models else "") for one in bases
    ]
    ks = sorted(experiment.config.evaluation.k)
    found = [
        _of_scores(method.label, "", [Term(method, 1, (k,))], variant=variant)
        for method, variant in levels
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
    return [replace(comparison, benchmarks=benchmarks) for comparison in found]


def _of_scores(
    method_a: str, method_b: str, terms: Sequence[Term], variant: str = "", family: str = ""
) -> Comparison:
    found = Comparison(method_a, method_b, "pass_at_k", tuple(terms), decides=False)
    return replace(found, variant=variant, family=family)


def _differences(
    contrast: Contrast, lines: Sequence[Line], base: Method, ks: tuple[int, ...]
) -> list[Comparison]:
    """The contrast of every method that it is about."""
    found = []
    for line in lines:
        other = _subtracted(contrast, line, lines, base)
        if other is None:
            continue
        terms, name = difference(line.method, other, ks), other.label
        if contrast.less:
            less = next(
                (
                    one
                    for one in lines
                    if one.objective == contrast.less != line.objective
                    if one.variant == line.variant and _comparable(one, line)
                ),
                None,
            )
            subtracted = _subtracted(contrast, less, lines, base) if less else None
            if less is None or subtracted is None:
                continue
            terms += difference(less.method, subtracted, ks, weight=-1)
            name = f"{name}, less {less.method.label}"
        label, about = line.method.label, (line.variant, contrast.family)
        found.append(_of_scores(label, name, terms, *about))
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


def _comparable(one: Line, other: Line) -> bool:
    """Whether two methods have the same n, and the same k where both have one."""
    have_k = OBJECTIVES[one.objective].has_k and OBJECTIVES[other.objective].has_k
    return one.n == other.n and (one.k == other.k or not have_k)


def _subtracted(
    contrast: Contrast, line: Line, lines: Sequence[Line], base: Method
) -> Method | None:
    """What is subtracted from a method, labelled with what differs; None for no such method."""
    minus = contrast.minus
    if minus == BASE:
        return base
    if isinstance(minus, str) and minus in OBJECTIVES:
        chosen = len({one.trained for one in lines}) == len(lines)  # one variant of each
        others = [
            one
            for one in lines
            if one.objective == minus != line.objective and _comparable(one, line)
        ]
        if not chosen and len({one.variant for one in others}) > 1:
            others = [one for one in others if one.variant == line.variant]
        return others[0].method if len(others) == 1 else None
    variant = minus if isinstance(minus, str) else minus.get(line.variant)
    others = [one for one in lines if one.variant == variant != line.variant]
    same = [one for one in others if one.trained == line.trained]
    # A method with another n than all that have this variant is compared with the only one of them.
    same = same or [one for one in others if one.trained[:2] == line.trained[:2]]
    return replace(same[0].method, label=same[0].variant) if len(same) == 1 else None


@dataclass(frozen=True)
class ClaimPlan:
    """A claim on the methods of one variant.

    deciding: the comparisons that decide it.
    estimate: their mean over k, on all problems; of several at one k, the first.
    """

    deciding: list[Comparison]
    estimate: Comparison


def planned_claims(experiment: Experiment, name: str, contrast: Contrast) -> list[ClaimPlan]:
    """The claims of a contrast on every variant, as far as its methods allow."""
    benchmarks = tuple(experiment.benchmarks_of(study_of(experiment, name).suite))
    plans = []
    for variant in dict.fromkeys(cell.variant for cell in experiment.cells_of(name)):
        for claim in contrast.claims:
            try:
                plan = CLAIMS[claim](GridMethods(experiment, name, variant=variant))
            except NotTested:
                continue
            if not any(one.decides for one in plan):
                continue
            family = f"{claim} of {variant}"
            deciding = [
                replace(one, claim=claim, variant=variant, family=family)
                for one in plan
                if one.decides
            ]
            by_k: dict[int, Comparison] = {}
            for one in deciding:
                if one.where == POOLED and len(one.ks) == 1:
                    by_k.setdefault(one.ks[0], one)
            terms = [
                replace(term, weight=term.weight / len(by_k))
                for one in by_k.values()
                for term in one.terms
            ]
            estimate = _of_scores(claim, "", terms, variant)
            estimate = replace(estimate, claim=claim, benchmarks=benchmarks)
            plans.append(ClaimPlan(deciding, estimate))
    return plans


def changes(contrast: Contrast, plans: Sequence[ClaimPlan]) -> list[Comparison]:
    """How much larger the estimate of each claim is than with the variant to subtract."""
    estimates = [plan.estimate for plan in plans]
    reference = {one.claim: one for one in estimates if one.variant == contrast.minus}
    return [
        replace(
            one,
            method_b=str(contrast.minus),
            terms=(
                *one.terms,
                *(replace(term, weight=-term.weight) for term in reference[one.claim].terms),
            ),
            family=contrast.family,
        )
        for one in estimates
        if one.variant != contrast.minus and one.claim in reference
    ]
