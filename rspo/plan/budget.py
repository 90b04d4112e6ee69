"""`rspo plan --budget HOURS`: the claims that some GPU-hours answer, the cheapest first."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from math import inf
from typing import NamedTuple

import numpy as np

from rspo.analysis.claims import CLAIMS, evaluations, planned
from rspo.config.experiment import Experiment
from rspo.core.errors import InputError
from rspo.plan.hours import Range, as_text
from rspo.plan.jobs import jobs

Key = tuple[str, str, str]  # of jobs: rule, policy and suite


class Answer(NamedTuple):
    """A claim for some of the k that the grid trains for, with its jobs and their GPU-hours.

    Both without those of earlier answers of a list.
    """

    claim: str
    ks: tuple[int, ...]
    jobs: frozenset[Key]
    hours: Range


def _forms(experiment: Experiment) -> Iterator[tuple[str, tuple[int, ...], frozenset[Key]]]:
    """Every claim that the grid can test, for every choice of the k it trains for."""
    ks = sorted({cell.k for cell in experiment.cells.values()} - {1})
    for chosen in (some for number in range(len(ks) + 1) for some in combinations(ks, number)):
        part = _with_k(experiment, chosen)
        deciding = [one for one in planned(part)[0] if one.decides]
        for claim in dict.fromkeys(one.claim for one in deciding):
            comparisons = [one for one in deciding if one.claim == claim]
            cells = {name for one in comparisons for name in one.policies} & part.cells.keys()
            if {part.cell(name).k for name in cells} - {1} == set(chosen):
                needed: set[Key] = {("train", name, "") for name in cells}
                pairs = evaluations(comparisons, part)
                needed |= {(rule, *pair) for rule in ("sample", "score") for pair in pairs}
                yield claim, chosen, frozenset(needed)


def _with_k(experiment: Experiment, ks: tuple[int, ...]) -> Experiment:
    """The experiment without the cells of other k; those without a k remain."""
    grid = {}
    for name, entry in experiment.config.grid.items():
        pairs = [(s, tuple(k for k, _ in s.pairs if k in (1, *ks))) for s in entry.cells]
        specs = tuple(s.model_copy(update={"k": tuple(dict.fromkeys(k))}) for s, k in pairs if k)
        if specs:
            grid[name] = entry.model_copy(update={"cells": specs})
    return replace(experiment, config=experiment.config.model_copy(update={"grid": grid}))


def answers(experiment: Experiment, budget: float) -> list[Answer]:
    """The claims that fit, the cheapest further one first; then more k of them.

    What exists costs nothing. A claim fits if the most GPU-hours that it may take do.
    """
    cost: dict[Key, Range] = {}
    for job in jobs(experiment):
        if job.hours is not None:
            key = job.rule, job.policy, job.suite
            cost[key] = cost.get(key, np.zeros(2)) + job.gpus * job.hours
        elif job.gpus or job.rule == "train":
            raise InputError("--budget: expected verl.device: cuda, and models.<name>.parameters")
    forms, found, ks = list(_forms(experiment)), list[Answer](), dict[str, tuple[int, ...]]()
    while True:
        options = []
        for claim, chosen, needed in forms:
            if claim not in ks or set(chosen) > set(ks[claim]):
                new = needed & cost.keys()
                hours = sum((cost[key] for key in sorted(new)), np.zeros(2))
                options.append(Answer(claim, chosen, new, hours))
        left = budget - sum(one.hours[1] for one in found)
        fitting = [one for one in options if one.hours[1] <= left]
        if not fitting:
            return found
        # Rounded, so that the order of a sum decides between no equal ones.
        found.append(
            min(fitting, key=lambda one: (one.claim in ks, round(one.hours[1], 6), -len(one.ks)))
        )
        ks[found[-1].claim] = found[-1].ks
        cost = {key: hours for key, hours in cost.items() if key not in found[-1].jobs}


def text(experiment: Experiment, budget: float) -> str:
    """The claims and cells of a budget, in lines to print."""
    lines = [f"scale {experiment.scale}, {budget:,.0f} GPU-hours; estimated, not measured:"]
    found = answers(experiment, budget)
    for number, one in enumerate(found, 1):
        of = f" for k = {', '.join(map(str, one.ks))}" if one.ks else ""
        together = as_text([earlier.hours for earlier in found[:number]])
        lines.append(f"{one.claim}{of}, {as_text([one.hours])} GPU-hours, together {together}:")
        lines.append(f"    {CLAIMS[one.claim].title}")
        lines += sorted(f"    {name}" for rule, name, _ in one.jobs if rule == "train")
    answered = {one.claim for one in found}
    if missing := [one for one in answers(experiment, inf) if one.claim not in answered]:
        names, first = ", ".join(dict.fromkeys(one.claim for one in missing)), missing[0]
        lines.append(f"not within the budget: {names}")
        lines.append(f"    {first.claim} needs another {as_text([first.hours])} GPU-hours")
    return "\n".join(lines)
