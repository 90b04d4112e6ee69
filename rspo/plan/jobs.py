"""`rspo plan`: estimates jobs, GPU-hours, time and disk space of the files that do not exist yet.

Disk space is that of policies, 4 bytes per sampled token, and checkpoints
(`rspo.training.verl.disk`) for every cell that trains at the same time.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rspo.config.experiment import Experiment
from rspo.datasets.prepare import problems_of_file
from rspo.plan.hours import (
    EVALUATION,
    NOT_STEPS,
    READING,
    START,
    Range,
    as_text,
    evaluation_tokens,
    sampling_seconds,
    sizes_of,
    step_seconds,
)
from rspo.status.policies import is_finished
from rspo.training.verl import disk

TOKEN_BYTES = 4
RULES = {"train": "training", "sample": "sampling", "score": "scoring"}


class Job(NamedTuple):
    """A job that remains. gpus: 0 on CPUs. hours: None without an estimate. tokens: at most."""

    rule: str
    policy: str
    suite: str
    gpus: int
    hours: Range | None
    tokens: float = 0


def jobs(experiment: Experiment) -> list[Job]:
    """The jobs with a model of all files that do not exist yet."""
    config, found, cells = experiment.config, list[Job](), unfinished(experiment)
    for cell in cells:
        sizes = sizes_of(experiment, cell)
        steps = config.training.steps / 3600 * NOT_STEPS
        hours = steps * step_seconds(experiment, cell, sizes) if sizes else None
        found.append(Job("train", cell, "", sizes.ranks if sizes else 0, hours))
    for policy, suite, tokens in _blocks(experiment, experiment.samples, cells):
        sizes = sizes_of(experiment, policy)
        hours = (sampling_seconds(sizes, tokens, EVALUATION) + START) / 3600 if sizes else None
        found.append(Job("sample", policy, suite, int(bool(sizes)), hours, tokens[1]))
    for policy, suite, tokens in _blocks(experiment, experiment.scores, cells):
        hours = (tokens / READING + START) / 3600 if config.starts_judge else None
        found.append(Job("score", policy, suite, int(config.starts_judge), hours))
    return found


def hours_of(jobs: Sequence[Job], rule: str) -> list[Range]:
    """The hours of all jobs of a rule; empty if one has no estimate."""
    hours = [job.hours for job in jobs if job.rule == rule]
    known = [one for one in hours if one is not None]
    return known if len(known) == len(hours) else []


def unfinished(experiment: Experiment) -> list[str]:
    return [name for name in experiment.cells if not is_finished(experiment, name)]


def parameters(experiment: Experiment) -> list[int]:
    """Of the model of each unfinished cell that has `parameters`."""
    models = [experiment.config.models[experiment.model_of(c)] for c in unfinished(experiment)]
    return [model.parameters for model in models if model.parameters is not None]


def disk_bytes(experiment: Experiment) -> tuple[float, float] | None:
    """Space of policies and samples, and of the largest cell's checkpoints; None if unknown."""
    sizes = parameters(experiment)
    if len(sizes) < len(unfinished(experiment)) or not sizes:
        return None
    samples = TOKEN_BYTES * sum(job.tokens for job in jobs(experiment))
    return samples + disk.POLICY * sum(sizes), disk.PEAK * max(sizes)


def _blocks(
    experiment: Experiment, path: Callable[..., Path], untrained: Sequence[str]
) -> list[tuple[str, str, Range]]:
    """Policy, suite and tokens of each block that is not sampled or scored yet."""
    numbers = {
        suite: sum(_responses(experiment, name) for name in experiment.benchmarks_of(suite))
        for _, suite in experiment.evaluations
    }
    return [
        (policy, suite, evaluation_tokens(experiment, numbers[suite]))
        for policy, suite in experiment.evaluations
        for block in experiment.blocks()
        if policy in untrained or not path(policy, suite, block).is_file()
    ]


def _responses(experiment: Experiment, benchmark: str) -> int:
    """Responses of one block to a benchmark."""
    data_set, config = experiment.data_set(benchmark), experiment.config
    if data_set.hub is not None:
        problems = max(data_set.hub.rows)
    elif data_set.file is not None:
        problems = len(problems_of_file(experiment, benchmark))
    else:
        assert data_set.generated is not None  # a data set has one source
        problems = len(data_set.generated.families) * data_set.generated.problems
    return min(problems, config.evaluation.problems or problems) * config.evaluation.block


def text(experiment: Experiment) -> str:
    """The plan in lines to print."""
    work, cells = jobs(experiment), unfinished(experiment)
    lines = [
        f"scale {experiment.scale}, files that do not exist yet; estimated, not measured:",
        f"{'':14}{'jobs':>6}{'GPUs each':>11}{'GPU-hours':>18}{'longest':>18}",
    ]
    longest, total = np.zeros(2), np.zeros(2)
    for rule, name in RULES.items():
        of_rule, hours = [job for job in work if job.rule == rule], hours_of(work, rule)
        gpus = max((job.gpus for job in of_rule), default=0)
        if hours:
            total, longest = total + gpus * sum(hours), longest + np.max(hours, axis=0)
        used = as_text([gpus * one for one in hours]) if hours or not of_rule else "?"
        one = f"{as_text([np.max(hours, axis=0)])} h" if hours else ""
        lines.append(f"{name:14}{len(of_rule):6}{gpus:11}{used:>18}{one:>18}".rstrip())
    if gpus := max((job.gpus for job in work), default=0):
        lines.append(
            f"together {as_text([total])} GPU-hours: {as_text([total / gpus])} h on {gpus} GPUs, "
            f"{as_text([longest])} h if all cells run at the same time"
        )
    if cells and not hours_of(work, "train"):
        lines.append("unknown duration: set verl.device: cuda and models.<name>.parameters")
    if space := disk_bytes(experiment):
        lines.append(
            f"disk: {space[0] / 1e9:,.0f} GB for policies and samples, "
            f"and {space[1] / 1e9:,.0f} GB for each cell while it trains"
        )
    return "\n".join(lines)
