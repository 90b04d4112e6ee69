"""Check slurm/config.yaml against the experiment, without asking SLURM."""

import math
from collections.abc import Iterator

from rspo.slurm.launch import ERROR, WARNING, Finding, Launch, gpus_by_model, work_on_gpus
from rspo.slurm.profile import PROFILE, RULES, format_hours

# The recommended option: SLURM sends SIGUSR1 600 seconds before the time limit. In this time, a job
# must finish its training step and write a checkpoint.
SIGNAL = "--signal=USR1@600"
START_MINUTES = 30  # for loading models, starting servers, and some steps


def missing_gpus(launch: Launch) -> Iterator[Finding]:
    """Find rules that run models on GPUs but request none; their entry may be missing."""
    for rule, work in work_on_gpus(launch.experiment).items():
        if launch.runs(rule) and not launch.request(rule).requests_gpus:
            yield Finding(
                ERROR,
                f"{PROFILE}: {RULES}.{rule} requests no GPU, but {work} needs them: set its gres",
            )


def gpus_of_cells(launch: Launch) -> Iterator[Finding]:
    """Check whether a training can get the GPUs of its cell; verl refuses fewer."""
    request = launch.entry("train")
    if not launch.experiment.trains_on_gpus or request is None:
        return
    gpus = gpus_by_model(launch.experiment)
    for model, number in gpus.items():
        if 0 < request.gpus < number:
            yield Finding(
                ERROR,
                f"{request.key} requests {request.gpus} GPUs, and a cell of {model} trains on "
                f"{number}: set gres to the GPUs of a node, or models.{model}.gpus (or verl.ranks) "
                "to fewer",
            )
    if request.requests_gpus and not request.gpus and len(set(gpus.values())) > 1:
        yield Finding(
            WARNING,
            f"{request.key} requests as many GPUs for every cell, because only gres and "
            "--gpus-per-node have a number that is adapted: models train on "
            f"{', '.join(map(str, sorted(set(gpus.values()))))} GPUs",
        )


def signals(launch: Launch) -> Iterator[Finding]:
    """Check whether SLURM asks training jobs to stop, early enough but not at their start."""
    request = launch.entry("train")
    if request is None:
        return
    seconds = request.signal_seconds
    minutes = request.minutes or math.inf
    # Between its start and the signal, a job must come so far that the training makes progress.
    least = math.ceil((seconds or 0) / 60) + START_MINUTES
    if seconds is None:
        yield Finding(
            WARNING,
            f"{request.key}.slurm_extra has no --signal=USR1@SECONDS: SLURM would kill a job at "
            f"its time limit without a checkpoint; set '{SIGNAL}'",
        )
    elif minutes < least:
        yield Finding(
            ERROR if minutes * 60 <= seconds else WARNING,
            f"{request.key}.runtime = {format_hours(minutes)}: --signal comes {seconds} seconds "
            "before the time limit, perhaps before a step is done, so that jobs requeue "
            f"themselves without progress; set {format_hours(least)} or more",
        )
