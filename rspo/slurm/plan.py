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
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rspo.config.experiment import Experiment
from rspo.config.schema import Expected
from rspo.core.errors import InputError
from rspo.datasets.prepare import problems_of_file
from rspo.slurm.cluster import NodeGroup, Slurm
from rspo.slurm.profile import DEFAULT, Request, read_profile
from rspo.status.policies import is_finished
from rspo.training.verl import disk

TOKEN_BYTES = 4
# Estimate of the time to load a model into vLLM and capture its CUDA graphs.
LOAD_MINUTES = 2
# Assumption of docs/verl.md for the judge xVerify-0.5B on one GPU.
PREFILL_TOKENS_PER_SECOND = 50_000
_ASSUMED_LOAD = f"{LOAD_MINUTES} minutes each, not measured"


@dataclass(frozen=True)
class Plan:
    """What remains to be done for an experiment, in hours and bytes; None: no estimate."""

    cells: int
    cell_gpus: int  # of all nodes of a job; 0: on CPUs, as in the next two
    nodes: int  # of a training job
    cell_hours: list[float] | None  # of each cell
    limit_hours: float | None  # time limit of a training job
    samplings: int  # jobs: policies x suites
    sampling_gpus: int  # of one job
    sampling_hours: list[float] | None  # of each on one GPU, without loading the policy
    scorings: int  # jobs
    scoring_gpus: int  # of one job
    scoring_hours: list[float] | None  # of each on one GPU, without loading the judge
    tables: int  # jobs without a model: data sets and curves
    policy_bytes: float | None  # policies and samples
    checkpoint_bytes: float | None  # of the largest cell, old and new checkpoint

    @property
    def training_jobs(self) -> int | None:
        """Number of training jobs: a cell longer than the time limit takes several."""
        if self.cell_hours is None or not self.limit_hours:
            return None
        return sum(max(1, math.ceil(hours / self.limit_hours)) for hours in self.cell_hours)


def plan(experiment: Experiment) -> Plan:
    """Estimate the work for all files that do not exist yet.

    Raises: InputError if slurm/config.yaml is invalid.
    """
    config = experiment.config
    _, requests = read_profile()
    request = _training_request(experiment, requests)
    cells = [name for name in experiment.cells if not is_finished(experiment, name)]
    drawn = _missing(experiment, experiment.samples, cells)
    curves = [
        (policy, suite)
        for policy, suite in experiment.evaluations
        if policy in cells or not experiment.curves(policy, suite).is_file()
    ]
    prepared = [name for name in experiment.data_sets if not experiment.problems(name).is_file()]
    models = [_expected(experiment, name) for name in cells]
    known = [model for model in models if model is not None]
    tokens = [
        (_expected(experiment, policy), _tokens_of(experiment, tables)) for policy, tables in drawn
    ]
    scored = _missing(experiment, experiment.scores, cells)
    judges = config.starts_judge(config.verifier)
    all_known = len(known) == len(models) and all(model for model, _ in tokens)
    return Plan(
        len(cells),
        request.gpus * experiment.nodes if experiment.trains_on_gpus else 0,
        experiment.nodes,
        [_training_hours(experiment, model) for model in known] if all_known else None,
        request.minutes / 60 if request.minutes else None,
        len(drawn),
        requests.get("sample", requests[DEFAULT]).gpus if config.sampler == "vllm" else 0,
        [count / model.tokens_per_second / 3600 for model, count in tokens if model is not None]
        if all_known
        else None,
        len(scored),
        requests.get("score", requests[DEFAULT]).gpus if judges else 0,
        [_tokens_of(experiment, tables) / PREFILL_TOKENS_PER_SECOND / 3600 for _, tables in scored]
        if judges
        else None,
        len(curves) + len(prepared),
        sum(disk.policy_bytes(model.parameters) for model in known)
        + sum(TOKEN_BYTES * count for _, count in tokens)
        if all_known
        else None,
        max((disk.peak_bytes(model.parameters) for model in known), default=0.0)
        if all_known
        else None,
    )


def _missing(
    experiment: Experiment, path: Callable[..., Path], untrained: Sequence[str]
) -> list[tuple[str, list[tuple[str, int]]]]:
    """The policy of each job, and its tables that do not exist or whose policy is untrained."""
    jobs = []
    for policy, suite in experiment.evaluations:
        tables = [
            (benchmark, block)
            for block in experiment.blocks()
            if policy in untrained or not path(policy, suite, block).is_file()
            for benchmark in experiment.benchmarks_of(suite)
        ]
        if tables:
            jobs.append((policy, tables))
    return jobs


def _training_hours(experiment: Experiment, model: Expected) -> float:
    return experiment.config.training.steps * model.step_seconds / 3600 / experiment.nodes


def _training_request(experiment: Experiment, requests: dict[str, Request]) -> Request:
    rule = "train" if experiment.nodes == 1 else "train_on_nodes"
    return requests.get(rule, requests[DEFAULT])


def _expected(experiment: Experiment, policy: str) -> Expected | None:
    return experiment.config.models[experiment.model_of(policy)].expected


def _tokens_of(experiment: Experiment, tables: Sequence[tuple[str, int]]) -> int:
    return sum(_tokens(experiment, benchmark) for benchmark, _ in tables)


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
    """The plan in lines to print; on a SLURM cluster, with the wall time there."""
    work = plan(experiment)
    lines = [
        f"scale {experiment.scale}, files that do not exist yet{_source(work)}:",
        _training(work),
        _evaluation(work),
        _scoring(work),
        f"without a model  {work.tables} jobs: data sets and curves",
    ]
    if work.cell_hours:
        at_a_time = _cells_at_a_time(experiment) if Slurm.is_here() else None
        lines.append(_wall_time(work.cell_hours, at_a_time))
    if work.policy_bytes is not None and work.checkpoint_bytes is not None:
        lines.append(
            f"disk             {work.policy_bytes / 1e9:,.0f} GB for policies and samples, and "
            f"{work.checkpoint_bytes / 1e9:,.0f} GB for each cell while it trains"
        )
    return "\n".join(lines)


def _source(work: Plan) -> str:
    known = work.cell_hours is not None
    return " (durations: from models.<name>.expected, not measured)" if known else ""


def _training(work: Plan) -> str:
    line = f"training         {work.cells} cells on {_processors(work.cell_gpus)}"
    if work.cell_hours is None:
        return f"{line}: duration unknown (set models.<name>.expected)"
    hours = work.cell_gpus * sum(work.cell_hours)
    longest = max(work.cell_hours, default=0.0)
    jobs = ""
    if work.cells and (limit := work.limit_hours):
        at_most = f"{limit:.4g} h" if limit >= 1 else f"{60 * limit:.3g} min"
        jobs = f", {work.training_jobs} jobs of at most {at_most}"
    bound = ""
    if work.nodes > 1:
        bound = f" (lower bound: as if {work.nodes} nodes were {work.nodes} times as fast as one)"
    return f"{line}: {hours:,.0f} GPU-hours, {longest:.3g} h the longest{bound}{jobs}"


def _evaluation(work: Plan) -> str:
    line = f"evaluation       {work.samplings} jobs on {_processors(work.sampling_gpus)}"
    if work.sampling_hours is None:
        return f"{line}: duration unknown (set models.<name>.expected)"
    hours, longest = sum(work.sampling_hours), max(work.sampling_hours, default=0.0)
    return (
        f"{line}: at most {hours:,.0f} GPU-hours, {longest:.1f} h the longest, and "
        f"{_load_hours(work.samplings)} to load policies ({_ASSUMED_LOAD})"
    )


def _processors(gpus: int) -> str:
    return "CPUs" if not gpus else "1 GPU" if gpus == 1 else f"{gpus} GPUs"


def _load_hours(jobs: int) -> str:
    return f"{jobs * LOAD_MINUTES / 60:.1f} GPU-hours"


def _scoring(work: Plan) -> str:
    line = f"scoring          {work.scorings} jobs on {_processors(work.scoring_gpus)}"
    if work.scoring_hours is None:
        return f"{line}: duration unknown"
    hours, longest = sum(work.scoring_hours), max(work.scoring_hours, default=0.0)
    return (
        f"{line}: at most {hours:,.0f} GPU-hours, {longest:.1f} h the longest "
        f"({PREFILL_TOKENS_PER_SECOND:,} tokens/s, not measured), and "
        f"{_load_hours(work.scorings)} to load the judge ({_ASSUMED_LOAD})"
    )


def _wall_time(hours: list[float], at_a_time: int | None) -> str:
    """Wall time of all cells, which train independently of each other."""
    one, most = sum(hours), max(hours)
    line = (
        f"training takes   {_days(one)} with one cell at a time, {_days(most)} with all in parallel"
    )
    if at_a_time:
        most = max(most, one / at_a_time)
        line += f"; on this cluster, with {at_a_time} at a time, {_days(most)}"
    return f"{line}; excluding queue time"


def _days(hours: float) -> str:
    return f"{hours:.0f} h" if hours < 48 else f"{hours / 24:.1f} days"


def _cells_at_a_time(experiment: Experiment) -> int | None:
    """Cells that an otherwise idle cluster can train in parallel; None if SLURM does not answer."""
    request = _training_request(experiment, read_profile()[1])
    try:
        return parallel_jobs(Slurm().nodes, request) // experiment.nodes
    except InputError:
        return None


def parallel_jobs(nodes: Sequence[NodeGroup], request: Request) -> int:
    """Number of one-node jobs with this request that run in parallel on idle nodes."""
    by_partition: Counter[str] = Counter()
    for group in nodes:
        if not request.partition or group.partition in request.partitions:
            per_node = group.gpus_of(request.gpu_type) // request.gpus if request.gpus else 1
            by_partition[group.partition] += group.count * per_node
    # Without a partition in the request, take the largest: a node may be in several partitions.
    return max(by_partition.values(), default=0)
