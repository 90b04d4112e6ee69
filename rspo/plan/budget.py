"""`rspo plan --budget HOURS`: the claims that a number of GPU-hours answers, the cheapest first.

A claim can be tested with fewer cells than the grid has: with some of the values of k, so that only
the cells of these k are trained. Such a choice is a "form" of the claim here.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from math import inf
from typing import NamedTuple

import numpy as np

from rspo.analysis.claims import CLAIMS, evaluations, planned
from rspo.analysis.comparisons import Comparison
from rspo.config.experiment import Experiment
from rspo.core.errors import InputError
from rspo.plan.hours import Range, as_text
from rspo.plan.jobs import jobs

# Identifies jobs: their rule, policy and suite. The suite of a training is empty. All blocks of an
# evaluation have the same key.
Key = tuple[str, str, str]


class Answer(NamedTuple):
    """A form of a claim, with the jobs that it needs and their GPU-hours.

    ks: the values of k, among those for which the grid trains; empty if the claim needs none.
    jobs: the jobs that remain. In a list of answers, jobs of earlier answers are left out.
    hours: the GPU-hours of these jobs.
    """

    claim: str
    ks: tuple[int, ...]
    jobs: frozenset[Key]
    hours: Range


def _forms(experiment: Experiment) -> Iterator[tuple[str, tuple[int, ...], frozenset[Key]]]:
    """Yield all forms of all claims that the grid can test.

    Yields: a claim, its values of k, and all jobs that it needs, finished ones included.
    """
    # k = 1 is the k of objectives without one, whose cells every choice includes.
    ks = sorted({cell.k for cell in experiment.cells.values()} - {1})
    # All subsets of the other k, those with fewer k first.
    choices = [choice for number in range(len(ks) + 1) for choice in combinations(ks, number)]
    for chosen in choices:
        part = _with_k(experiment, chosen)
        by_claim: dict[str, list[Comparison]] = {}
        # `planned` also returns why the other claims cannot be tested.
        for comparison in planned(part)[0]:
            if comparison.decides:
                by_claim.setdefault(comparison.claim, []).append(comparison)
        for claim, comparisons in by_claim.items():
            policies = {name for comparison in comparisons for name in comparison.policies}
            cells = policies & part.cells.keys()
            # A claim that does not need all of the chosen k is yielded with the smaller choice.
            if {part.cell(name).k for name in cells} - {1} == set(chosen):
                needed: set[Key] = {("train", name, "") for name in cells}
                for policy, suite in evaluations(comparisons, part):
                    needed |= {("sample", policy, suite), ("score", policy, suite)}
                yield claim, chosen, frozenset(needed)


def _with_k(experiment: Experiment, ks: tuple[int, ...]) -> Experiment:
    """The experiment with only those cells of the grid whose k is 1 or in `ks`."""
    grid = {}
    for name, entry in experiment.config.grid.items():
        specs = []
        for spec in entry.cells:
            kept = [k for k, _ in spec.pairs if k == 1 or k in ks]
            if kept:
                specs.append(spec.model_copy(update={"k": tuple(dict.fromkeys(kept))}))
        if specs:
            grid[name] = entry.model_copy(update={"cells": tuple(specs)})
    return replace(experiment, config=experiment.config.model_copy(update={"grid": grid}))


def answers(experiment: Experiment, budget: float) -> list[Answer]:
    """The claims that fit into a budget of GPU-hours, each with some values of k.

    A greedy choice: each step adds the cheapest claim that is not answered yet. When no such claim
    fits, further k of the answered claims follow. Finished jobs cost nothing. A claim fits if the
    most GPU-hours that it may take fit.

    Raises: InputError if the hours of a job are not known.
    """
    cost = _gpu_hours(experiment)
    forms = list(_forms(experiment))
    chosen_answers: list[Answer] = []
    answered: dict[str, tuple[int, ...]] = {}  # the k of each answered claim

    def rank(answer: Answer) -> tuple[bool, float, int]:
        # New claims first, then low costs, then many k. Rounding makes equal costs equal, whatever
        # the order in which their parts were added.
        return answer.claim in answered, round(answer.hours[1], 6), -len(answer.ks)

    while True:
        options = []
        for claim, ks, needed in forms:
            if claim not in answered or set(ks) > set(answered[claim]):
                new = needed & cost.keys()  # `cost` has only the jobs that remain
                hours = sum((cost[key] for key in sorted(new)), np.zeros(2))
                options.append(Answer(claim, ks, new, hours))
        left = budget - sum(answer.hours[1] for answer in chosen_answers)
        fitting = [answer for answer in options if answer.hours[1] <= left]
        if not fitting:
            return chosen_answers
        cheapest = min(fitting, key=rank)
        chosen_answers.append(cheapest)
        answered[cheapest.claim] = cheapest.ks
        # Later answers get the jobs of this one for nothing.
        cost = {key: hours for key, hours in cost.items() if key not in cheapest.jobs}


def _gpu_hours(experiment: Experiment) -> dict[Key, Range]:
    """The GPU-hours of the jobs that remain, summed over the blocks of an evaluation.

    Raises: InputError if the hours of a training, or of another job that needs GPUs, are not known.
    """
    gpu_hours: dict[Key, Range] = {}
    for job in jobs(experiment):
        if job.hours is not None:
            key = (job.rule, job.policy, job.suite)
            gpu_hours[key] = gpu_hours.get(key, np.zeros(2)) + job.gpus * job.hours
        elif job.gpus or job.rule == "train":
            raise InputError("--budget: expected verl.device: cuda, and models.<name>.parameters")
    return gpu_hours


def text(experiment: Experiment, budget: float) -> str:
    """The text that `rspo plan --budget` prints: the claims that fit, with the cells to train."""
    lines = [f"scale {experiment.scale}, {budget:,.0f} GPU-hours; estimated, not measured:"]
    affordable = answers(experiment, budget)
    for number, answer in enumerate(affordable, 1):
        ks = f" for k = {', '.join(map(str, answer.ks))}" if answer.ks else ""
        hours = as_text([answer.hours])
        together = as_text([earlier.hours for earlier in affordable[:number]])
        lines.append(f"{answer.claim}{ks}, {hours} GPU-hours, together {together}:")
        lines.append(f"    {CLAIMS[answer.claim].title}")
        lines += sorted(f"    {name}" for rule, name, _ in answer.jobs if rule == "train")
    answered = {answer.claim for answer in affordable}
    # With an infinite budget, all claims that the grid can test are answered.
    missing = [answer for answer in answers(experiment, inf) if answer.claim not in answered]
    if missing:
        names = ", ".join(dict.fromkeys(answer.claim for answer in missing))
        lines.append(f"not within the budget: {names}")
        first = missing[0]
        lines.append(f"    {first.claim} needs another {as_text([first.hours])} GPU-hours")
    return "\n".join(lines)
