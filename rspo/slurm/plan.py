"""`rspo plan`: estimates the jobs, GPU-hours and disk space of the files that do not exist yet.

The estimates use `models.<name>.expected` and slurm/config.yaml:

    training    steps times seconds per step times the GPUs of a job.
    evaluation  every response has the maximum length, generated at the model's tokens per second on
                one GPU: an upper bound.
    scoring     the judge reads PREFILL_TOKENS_PER_SECOND of the same responses: an upper bound.
                Without a judge of its own, no estimate.
    loading     each job of evaluation and scoring loads its model once, which takes LOAD_MINUTES.
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
from rspo.slurm.profile import DEFAULT, read_profile
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

    gpus: of one job; 0: on CPUs.
    hours: of each job; None: no estimate.
    """

    gpus: int
    hours: list[float | None]

    @property
    def number(self) -> int:
        return len(self.hours)

    @property
    def known_hours(self) -> list[float]:
        """Empty if a job has no estimate."""
        known = [hours for hours in self.hours if hours is not None]
        return known if len(known) == self.number else []

    def row(self, name: str) -> str:
        """A row of the table that `text` returns."""
        hours = self.known_hours
        total = f"{self.gpus * sum(hours):,.0f}" if hours else "?" if self.number else "0"
        longest = f"{max(hours):.3g} h" if hours else ""
        return f"{name:20}{self.number:6}{self.gpus:11}{total:>11}{longest:>13}".rstrip()


@dataclass(frozen=True)
class Plan:
    """What remains to be done for an experiment.

    training: of cells. A cell longer than the time limit takes several jobs.
    others: jobs without a model: data sets and curves.
    training_jobs: jobs of all cells; None: no time limit or no estimate.
    """

    training: Jobs
    sampling: Jobs
    scoring: Jobs
    others: Jobs
    training_jobs: int | None


def plan(experiment: Experiment) -> Plan:
    """Estimate the work for all files that do not exist yet.

    Raises: InputError if slurm/config.yaml is invalid.
    """
    config = experiment.config
    _, requests = read_profile()
    rules = ("train", "sample", "score")
    train, sample, score = (requests.get(rule, requests[DEFAULT]) for rule in rules)
    cells = _unfinished(experiment)
    curves = [
        (policy, suite)
        for policy, suite in experiment.evaluations
        if policy in cells or not experiment.curves(policy, suite).is_file()
    ]
    prepared = [name for name in experiment.data_sets if not experiment.problems(name).is_file()]
    load, judges = LOAD_MINUTES / 60, config.starts_judge(config.verifier)
    training = Jobs(
        train.gpus if experiment.trains_on_gpus else 0,
        [
            config.training.steps * model.step_seconds / 3600 if model else None
            for model in (_expected(experiment, name) for name in cells)
        ],
    )
    sampling = Jobs(
        sample.gpus if config.sampler == "vllm" else 0,
        [
            load + tokens / model.tokens_per_second / 3600 if model else None
            for policy, tokens in _tokens_of_jobs(experiment, experiment.samples, cells)
            for model in [_expected(experiment, policy)]
        ],
    )
    scoring = Jobs(
        score.gpus if judges else 0,
        [
            load + tokens / PREFILL_TOKENS_PER_SECOND / 3600 if judges else None
            for _, tokens in _tokens_of_jobs(experiment, experiment.scores, cells)
        ],
    )
    hours, limit = training.known_hours, train.minutes
    jobs = sum(max(1, math.ceil(cell * 60 / limit)) for cell in hours) if limit and hours else None
    return Plan(training, sampling, scoring, Jobs(0, [None] * len(curves + prepared)), jobs)


def disk_bytes(experiment: Experiment) -> tuple[float, float] | None:
    """Space of policies and samples, and of the largest cell's old and new checkpoint.

    None if there is no cell to train, or no estimate.
    """
    cells = _unfinished(experiment)
    models = [model for name in cells if (model := _expected(experiment, name)) is not None]
    if len(models) < len(cells) or not cells:
        return None
    drawn = _tokens_of_jobs(experiment, experiment.samples, cells)
    policies = sum(disk.policy_bytes(model.parameters) for model in models)
    samples = sum(TOKEN_BYTES * tokens for _, tokens in drawn)
    return policies + samples, max(disk.peak_bytes(model.parameters) for model in models)


def _unfinished(experiment: Experiment) -> list[str]:
    return [name for name in experiment.cells if not is_finished(experiment, name)]


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
    work, space = plan(experiment), disk_bytes(experiment)
    lines = [
        f"scale {experiment.scale}, files that do not exist yet; estimated, not measured:",
        f"{'':20}{'jobs':>6}{'GPUs each':>11}{'GPU-hours':>11}{'longest':>13}",
        work.training.row("training"),
        work.sampling.row("sampling, at most"),
        work.scoring.row("scoring, at most"),
        f"{'data, curves':20}{work.others.number:6}{0:11}",
    ]
    if work.training_jobs is not None and work.training_jobs > work.training.number:
        lines.append(f"with the time limit, training takes {work.training_jobs} jobs")
    if work.training.number and not work.training.known_hours:
        lines.append("duration of training and sampling unknown: set models.<name>.expected")
    if space:
        lines.append(
            f"disk: {space[0] / 1e9:,.0f} GB for policies and samples, "
            f"and {space[1] / 1e9:,.0f} GB for each cell while it trains"
        )
    return "\n".join(lines)
