"""`rspo plan`: estimates the jobs, GPU-hours and disk space of the files that do not exist yet.

The estimates use `models.<name>.expected` and slurm/config.yaml:

    training    steps times seconds per step times the GPUs of a job. On N nodes, N times faster: a
                lower bound.
    evaluation  every response has the maximum length, generated at the model's tokens per second on
                one GPU: an upper bound. Each job starts its engine once, which takes LOAD_MINUTES.
    scoring     the judge reads PREFILL_TOKENS_PER_SECOND of the same responses: an upper bound.
                Each job loads the judge once. Without a judge of its own, no estimate.
    disk        policies, 4 bytes per sampled token, and checkpoints (`rspo.training.verl.disk`) for
                every cell that trains at the same time.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rspo.config.experiment import Experiment
from rspo.config.schema import Expected
from rspo.datasets.prepare import problems_of_file
from rspo.slurm.profile import DEFAULT, format_hours, read_profile
from rspo.status.policies import is_finished
from rspo.training.verl import disk

TOKEN_BYTES = 4
# Estimate of the time to load a model into vLLM and capture its CUDA graphs.
LOAD_MINUTES = 2
# Assumption of docs/verl.md for the judge xVerify-0.5B on one GPU.
PREFILL_TOKENS_PER_SECOND = 50_000


@dataclass(frozen=True)
class Jobs:
    """Jobs of one kind that remain.

    gpus: of one job, on all its nodes; 0: on CPUs.
    hours: of each job, without the time to load a model; None: no estimate.
    """

    number: int
    gpus: int
    hours: list[float] | None

    @property
    def work(self) -> str:
        """Such as `47 GPU-hours, 1.7 h the longest`."""
        hours = self.hours or [0.0]
        return f"{self.gpus * sum(hours):,.0f} GPU-hours, {max(hours):.3g} h the longest"

    def __str__(self) -> str:
        gpus = f"{self.gpus} GPU{'s' * (self.gpus > 1)}" if self.gpus else "CPUs"
        return f"{self.number} jobs on {gpus}"


@dataclass(frozen=True)
class Plan:
    """What remains to be done for an experiment; None: no estimate.

    training: of cells. A cell longer than the time limit takes several jobs.
    limit_hours: time limit of a training job.
    tables: jobs without a model: data sets and curves.
    policy_bytes: of policies and samples.
    checkpoint_bytes: of the largest cell, old and new checkpoint.
    """

    training: Jobs
    sampling: Jobs
    scoring: Jobs
    limit_hours: float | None
    tables: int
    policy_bytes: float | None
    checkpoint_bytes: float | None

    @property
    def training_jobs(self) -> int | None:
        if self.training.hours is None or not self.limit_hours:
            return None
        return sum(max(1, math.ceil(hours / self.limit_hours)) for hours in self.training.hours)


def plan(experiment: Experiment) -> Plan:
    """Estimate the work for all files that do not exist yet.

    Raises: InputError if slurm/config.yaml is invalid.
    """
    config = experiment.config
    _, requests = read_profile()
    rule = "train" if experiment.nodes == 1 else "train_on_nodes"
    train, sample, score = (requests.get(r, requests[DEFAULT]) for r in (rule, "sample", "score"))
    cells = [name for name in experiment.cells if not is_finished(experiment, name)]
    drawn = _tokens_of_jobs(experiment, experiment.samples, cells)
    scored = _tokens_of_jobs(experiment, experiment.scores, cells)
    curves = [
        (policy, suite)
        for policy, suite in experiment.evaluations
        if policy in cells or not experiment.curves(policy, suite).is_file()
    ]
    prepared = [name for name in experiment.data_sets if not experiment.problems(name).is_file()]
    models = [_expected(experiment, name) for name in cells]
    tokens = [(_expected(experiment, policy), count) for policy, count in drawn]
    known = [model for model in models if model is not None]
    rates = [(model.tokens_per_second, count) for model, count in tokens if model is not None]
    complete = len(known) == len(models) and len(rates) == len(tokens)
    steps, judges = config.training.steps, config.starts_judge(config.verifier)
    cell_hours = [steps * model.step_seconds / 3600 / experiment.nodes for model in known]
    sampling_hours = [count / rate / 3600 for rate, count in rates]
    scoring_hours = [count / PREFILL_TOKENS_PER_SECOND / 3600 for _, count in scored]
    policies = sum(disk.policy_bytes(model.parameters) for model in known)
    peak = max((disk.peak_bytes(model.parameters) for model in known), default=0.0)
    training_gpus = train.gpus * experiment.nodes if experiment.trains_on_gpus else 0
    sampling_gpus = sample.gpus if config.sampler == "vllm" else 0
    return Plan(
        Jobs(len(cells), training_gpus, cell_hours if complete else None),
        Jobs(len(drawn), sampling_gpus, sampling_hours if complete else None),
        Jobs(len(scored), score.gpus if judges else 0, scoring_hours if judges else None),
        train.minutes / 60 if train.minutes else None,
        len(curves) + len(prepared),
        policies + sum(TOKEN_BYTES * count for _, count in drawn) if complete else None,
        peak if complete else None,
    )


def _tokens_of_jobs(
    experiment: Experiment, path: Callable[..., Path], untrained: Sequence[str]
) -> list[tuple[str, int]]:
    """The policy of each job, and the tokens of the responses that it samples or scores."""
    jobs = []
    for policy, suite in experiment.evaluations:
        tokens = sum(_tokens(experiment, name) for name in experiment.benchmarks_of(suite))
        jobs += [
            (policy, tokens)
            for block in experiment.blocks()
            if policy in untrained or not path(policy, suite, block).is_file()
        ]
    return jobs


def _expected(experiment: Experiment, policy: str) -> Expected | None:
    return experiment.config.models[experiment.model_of(policy)].expected


def _tokens(experiment: Experiment, benchmark: str) -> int:
    """Tokens of one block of responses to a benchmark, each of the maximum length."""
    data_set, config = experiment.data_set(benchmark), experiment.config
    if data_set.hub is not None:
        problems = max(data_set.hub.accepted_rows)
    elif data_set.file is not None:
        problems = len(problems_of_file(experiment, benchmark))
    else:
        assert data_set.generated is not None  # a data set has one source
        problems = len(data_set.generated.families) * data_set.generated.problems
    problems = min(problems, config.evaluation.problems or problems)
    return problems * config.evaluation.block * config.sampling.max_response_tokens


def text(experiment: Experiment) -> str:
    """The plan in lines to print."""
    work = plan(experiment)
    hours, limit, disk_bytes = work.training.hours, work.limit_hours, work.policy_bytes
    source = " (durations: from models.<name>.expected, not measured)" if hours is not None else ""
    unknown = "duration unknown (set models.<name>.expected)"
    training = str(work.training).replace("jobs", "cells")
    lines = [f"scale {experiment.scale}, files that do not exist yet{source}:"]
    if hours is None:
        lines.append(f"training         {training}: {unknown}")
    else:
        n = experiment.nodes
        bound = f" (lower bound: as if {n} nodes were {n} times as fast as one)" if n > 1 else ""
        jobs = (
            f", {work.training_jobs} jobs of at most {format_hours(60 * limit)}"
            if hours and limit
            else ""
        )
        lines.append(f"training         {training}: {work.training.work}{bound}{jobs}")
    reads = f" ({PREFILL_TOKENS_PER_SECOND:,} tokens/s, not measured)"
    lines.append(_evaluation("evaluation", work.sampling, unknown, "", "policies"))
    lines.append(_evaluation("scoring", work.scoring, "duration unknown", reads, "the judge"))
    lines.append(f"without a model  {work.tables} jobs: data sets and curves")
    if hours:
        one, most = _days(sum(hours)), _days(max(hours))
        lines.append(
            f"training takes   {one} with one cell at a time, {most} with all in parallel; "
            "excluding queue time"
        )
    if disk_bytes is not None and work.checkpoint_bytes is not None:
        lines.append(
            f"disk             {disk_bytes / 1e9:,.0f} GB for policies and samples, and "
            f"{work.checkpoint_bytes / 1e9:,.0f} GB for each cell while it trains"
        )
    return "\n".join(lines)


def _evaluation(name: str, jobs: Jobs, unknown: str, speed: str, model: str) -> str:
    if jobs.hours is None:
        return f"{name:16} {jobs}: {unknown}"
    return (
        f"{name:16} {jobs}: at most {jobs.work}{speed}, and "
        f"{jobs.number * LOAD_MINUTES / 60:.1f} GPU-hours to load {model} "
        f"({LOAD_MINUTES} minutes each, not measured)"
    )


def _days(hours: float) -> str:
    return f"{hours:.0f} h" if hours < 48 else f"{hours / 24:.1f} days"
