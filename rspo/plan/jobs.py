"""`rspo plan`: estimate jobs, GPU-hours, time and disk space of the files that do not exist yet.

The disk holds the policies, the samples, and the checkpoints of the cells that train at the same
time (`rspo.training.verl.checkpoints`).
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rspo.config.experiment import Experiment
from rspo.datasets.prepare import problems_of_file
from rspo.plan.assumptions import EVALUATION_START_SECONDS, JUDGE_SPEED, TRAINING_OVERHEAD
from rspo.plan.hours import Range, as_text, evaluation_tokens, gpus_text, sampling_seconds, sizes_of
from rspo.plan.step import measured, step_seconds, table
from rspo.status.policies import is_finished
from rspo.training.verl.checkpoints import PEAK_BYTES_PER_PARAMETER, POLICY_BYTES_PER_PARAMETER

TOKEN_BYTES = 4  # the disk space of a sampled token, which is stored as text
RULE_TITLES = {"train": "training", "sample": "sampling", "score": "scoring"}


class Job(NamedTuple):
    """A job that remains.

    suite: the suite of an evaluation; empty for a training.
    gpus: the number of GPUs that the job needs; 0 if it runs on CPUs.
    hours: the hours that it takes; None if they cannot be estimated.
    tokens: the largest number of tokens that it may sample.
    """

    rule: str
    policy: str
    suite: str
    gpus: int
    hours: Range | None
    tokens: float = 0


def jobs(experiment: Experiment) -> list[Job]:
    """The jobs that remain: trainings, and samplings and scorings of blocks.

    The jobs of other rules, such as `curves`, run no model and take little time.
    """
    cells = unfinished(experiment)
    remaining = [_training(experiment, cell) for cell in cells]
    for policy, suite, tokens in _blocks(experiment, experiment.files.samples, cells):
        remaining.append(_sampling(experiment, policy, suite, tokens))
    for policy, suite, tokens in _blocks(experiment, experiment.files.scores, cells):
        remaining.append(_scoring(experiment, policy, suite, tokens))
    return remaining


def _training(experiment: Experiment, cell: str) -> Job:
    """The job that trains a cell."""
    sizes = sizes_of(experiment, cell)
    if sizes is None:
        return Job("train", cell, "", gpus=0, hours=None)
    # The hours of the training for each second that a step takes.
    steps = experiment.for_cell(cell).config.training.steps
    hours_per_step_second = steps / 3600 * TRAINING_OVERHEAD
    hours = hours_per_step_second * step_seconds(experiment, cell, sizes)
    return Job("train", cell, "", sizes.gpus, hours)


def _sampling(experiment: Experiment, policy: str, suite: str, tokens: Range) -> Job:
    """The job that samples a block with a number of tokens."""
    sizes = sizes_of(experiment, policy)
    if sizes is None:
        return Job("sample", policy, suite, gpus=0, hours=None, tokens=tokens[1])
    seconds = sampling_seconds(sizes, tokens) + EVALUATION_START_SECONDS
    return Job("sample", policy, suite, gpus=1, hours=seconds / 3600, tokens=tokens[1])


def _scoring(experiment: Experiment, policy: str, suite: str, tokens: Range) -> Job:
    """The job that scores a block. It needs a GPU only if it starts a judge model."""
    if not experiment.config.starts_judge:
        return Job("score", policy, suite, gpus=0, hours=None)
    seconds = tokens / JUDGE_SPEED + EVALUATION_START_SECONDS
    return Job("score", policy, suite, gpus=1, hours=seconds / 3600)


def hours_of(jobs: Sequence[Job], rule: str) -> list[Range]:
    """The hours of each job of a rule; empty if the hours of any of them are unknown."""
    hours = [job.hours for job in jobs if job.rule == rule]
    known = [estimate for estimate in hours if estimate is not None]
    return known if len(known) == len(hours) else []


def unfinished(experiment: Experiment) -> list[str]:
    """The cells of the grid that are not trained yet."""
    return [name for name in experiment.cells if not is_finished(experiment, name)]


def parameters(experiment: Experiment) -> list[int]:
    """The number of parameters of each unfinished cell, without cells for which it is unknown."""
    numbers = []
    for cell in unfinished(experiment):
        model = experiment.config.models[experiment.model_of(cell)]
        if model.parameters is not None:
            numbers.append(model.parameters)
    return numbers


def disk_bytes(experiment: Experiment) -> tuple[float, float] | None:
    """The disk space of what remains, in bytes.

    Returns: the space of all policies and samples, and the space of the checkpoints of the largest
        cell while it trains; None if nothing is left to train or a model's size is unknown.
    """
    sizes = parameters(experiment)
    if len(sizes) < len(unfinished(experiment)) or not sizes:
        return None
    samples = TOKEN_BYTES * sum(job.tokens for job in jobs(experiment))
    policies = POLICY_BYTES_PER_PARAMETER * sum(sizes)
    return samples + policies, PEAK_BYTES_PER_PARAMETER * max(sizes)


def _blocks(
    experiment: Experiment, path: Callable[..., Path], untrained: Sequence[str]
) -> list[tuple[str, str, Range]]:
    """The policy, suite and tokens of each block whose file does not exist yet.

    Args:
        path: returns the file of a block from policy, suite and block: samples or scores.
        untrained: policies whose blocks must be made in any case, even if files of an earlier
            training exist.
    """
    # Responses of one block, by suite.
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
    """The number of responses in one block to the problems of a benchmark."""
    data_set = experiment.data_set(benchmark)
    evaluation = experiment.config.evaluation
    if data_set.hub is not None:
        problems = max(data_set.hub.rows)  # the config allows several numbers of rows
    elif data_set.file is not None:
        problems = len(problems_of_file(experiment, benchmark))
    else:
        assert data_set.made_problems is not None  # a data set has one source
        problems = data_set.made_problems
    return min(problems, evaluation.problems or problems) * evaluation.block


def text(experiment: Experiment) -> str:
    """The text that `rspo plan` prints."""
    work = jobs(experiment)
    lines = [
        f"scale {experiment.scale}, files that do not exist yet; estimated, not measured:",
        f"{'':14}{'jobs':>6}{'GPUs each':>11}{'GPU-hours':>18}{'longest':>18}",
    ]
    longest_hours = np.zeros(2)
    gpu_hours = np.zeros(2)
    for rule, title in RULE_TITLES.items():
        of_rule = [job for job in work if job.rule == rule]
        count = len(of_rule)
        numbers = sorted({job.gpus for job in of_rule}) or [0]
        gpus = " or ".join(map(str, numbers))
        hours = hours_of(work, rule)
        # Hours are unknown if there are jobs without an estimate, and 0 if there are no jobs.
        used = "?" if count else as_text([])
        longest = ""
        if hours:
            of_jobs = [job.gpus * of_job for job, of_job in zip(of_rule, hours, strict=True)]
            gpu_hours = gpu_hours + sum(of_jobs)
            # If all cells run at the same time, each rule takes as long as its longest job.
            longest_hours = longest_hours + np.max(hours, axis=0)
            used = as_text(of_jobs)
            longest = f"{as_text([np.max(hours, axis=0)])} h"
        lines.append(f"{title:14}{count:6}{gpus:>11}{used:>18}{longest:>18}".rstrip())
    if most := max((job.gpus for job in work), default=0):
        lines.append(
            f"together {as_text([gpu_hours])} GPU-hours: {as_text([gpu_hours / most])} h on "
            f"{gpus_text(most)}, {as_text([longest_hours])} h if all cells run at the same time"
        )
    if unfinished(experiment) and not hours_of(work, "train"):
        lines.append("unknown duration: set verl.device: cuda and models.<name>.parameters")
    if space := disk_bytes(experiment):
        lines.append(
            f"disk: {space[0] / 1e9:,.0f} GB for policies and samples, "
            f"and {space[1] / 1e9:,.0f} GB for each cell while it trains"
        )
    lines += table(experiment, unfinished(experiment))
    lines += measured(experiment)
    return "\n".join(lines)
