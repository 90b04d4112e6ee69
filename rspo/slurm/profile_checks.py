"""Checks of slurm/config.yaml against the experiment, without SLURM."""

import math
from collections.abc import Iterator

from rspo.config.experiment import Experiment
from rspo.plan.hours import sizes_of, step_seconds
from rspo.slurm.launch import ERROR, WARNING, Finding, Launch
from rspo.slurm.profile import PROFILE, RULES, format_hours
from rspo.training.verl.disk import CHECKPOINT

# Between the signal and the time limit, the running step and a checkpoint must finish. SLURM checks
# time limits about twice a minute.
LEAST_SIGNAL_SECONDS = 60
USUAL_SIGNAL_SECONDS = 600
START_MINUTES = 30  # for loading models, starting engines, and some steps
STEPS = 4  # a long step takes as long as this many average ones
CHECKPOINT_BYTES_PER_SECOND = 1e9


def missing_gpus(launch: Launch) -> Iterator[Finding]:
    """Rules that run models on GPUs and request none; their entry may be missing."""
    config = launch.experiment.config
    if config.engine == "verl" and not launch.experiment.trains_on_gpus:
        return  # verl.device: cpu: vLLM may work on CPUs too
    needing = {}
    if launch.experiment.trains_on_gpus:
        needing["train"] = "training (verl.device: cuda)"
    if config.sampler == "vllm":
        needing["sample"] = "sampling (sampler: vllm)"
    own = "a judge of its own (xverify.url: null)"
    needing |= {rule: own for rule in launch.starting_judges if rule != "train"}
    for rule, work in needing.items():
        if launch.runs(rule) and not launch.request(rule).requests_gpus:
            yield Finding(
                ERROR,
                f"{PROFILE}: {RULES}.{rule} requests no GPU, but {work} needs them: set its gres",
            )


def gpus_of_ranks(launch: Launch) -> Iterator[Finding]:
    """Whether a training job has one GPU per rank: verl refuses fewer."""
    settings, request = launch.experiment.config.verl, launch.entry("train")
    if not launch.experiment.trains_on_gpus or settings is None or request is None:
        return
    if request.gpus and request.gpus != settings.ranks:
        yield Finding(
            ERROR if request.gpus < settings.ranks else WARNING,
            f"{request.key} requests {request.gpus} GPUs, and verl.ranks = {settings.ranks} uses "
            "one each: set both to the same number",
        )


def signals(launch: Launch) -> Iterator[Finding]:
    """Whether training jobs are asked to stop early enough before their time limit."""
    needed = _seconds_to_stop(launch.experiment)
    option = f"--signal=USR1@{max(needed, USUAL_SIGNAL_SECONDS)}"
    if (request := launch.entry("train")) is None:
        return
    seconds, minutes = request.signal_seconds, request.minutes or math.inf
    least = math.ceil((seconds or 0) / 60) + START_MINUTES
    if seconds is None:
        yield Finding(
            WARNING,
            f"{request.key}.slurm_extra has no --signal=USR1@SECONDS: SLURM would kill a job at "
            f"its time limit without a checkpoint; set '{option}'",
        )
    elif minutes < least:
        yield Finding(
            ERROR if minutes * 60 <= seconds else WARNING,
            f"{request.key}.runtime = {format_hours(minutes)}: --signal comes {seconds} seconds "
            "before the time limit, perhaps before a step is done, so that jobs requeue "
            f"themselves without progress; set {format_hours(least)} or more",
        )
    elif seconds < needed and request.minutes:
        yield Finding(
            WARNING,
            f"{request.key}.slurm_extra: {seconds} seconds before the time limit are too few for "
            f"a step and a checkpoint; set '{option}'",
        )


def _seconds_to_stop(experiment: Experiment) -> int:
    """Seconds for a long step and a checkpoint of the slowest cell, by estimate."""
    needed = [
        STEPS * step_seconds(experiment, name, sizes).mean()
        + CHECKPOINT * sizes.parameters / CHECKPOINT_BYTES_PER_SECOND
        for name in experiment.cells
        if (sizes := sizes_of(experiment, name))
    ]
    return math.ceil(max([LEAST_SIGNAL_SECONDS, *needed]))
