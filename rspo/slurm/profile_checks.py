"""Checks of slurm/config.yaml against the experiment, without SLURM."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from rspo.config.experiment import Experiment
from rspo.slurm.profile import DEFAULT, PROFILE, RULES, Request
from rspo.training.verl.disk import checkpoint_bytes

# Between the signal and the time limit, the running step and a checkpoint must finish. SLURM checks
# time limits about twice a minute.
LEAST_SIGNAL_SECONDS = 60
USUAL_SIGNAL_SECONDS = 600
START_MINUTES = 20  # for loading models, starting engines, and some steps
STEPS = 4  # a long step takes as long as this many average ones
CHECKPOINT_BYTES_PER_SECOND = 1e9


def problems(experiment: Experiment, requests: dict[str, Request]) -> Iterator[str]:
    """What must change in the profile or the config, a line each."""
    yield from _config(experiment)
    yield from _missing_gpus(experiment, requests)
    yield from _signals(experiment, used_requests(experiment, requests))


def notes(
    experiment: Experiment, profile: Mapping[str, Any], requests: dict[str, Request]
) -> Iterator[str]:
    """What may change: unused GPUs, and jobs that connect to the hub."""
    reasons = _reasons_for_no_gpu(experiment)
    for request in used_requests(experiment, requests):
        if request.gpus and (reason := reasons.get(request.rule)):
            yield f"{request.key} requests {request.gres}, which is not needed: {reason}"
    if "HF_HUB_OFFLINE=1" not in str(profile.get("precommand")):
        yield (
            f"{PROFILE}: precommand has no export HF_HUB_OFFLINE=1: jobs connect to the hub "
            "although they need nothing from it, and hang on nodes without internet access"
        )


def used_requests(experiment: Experiment, requests: dict[str, Request]) -> list[Request]:
    """The requests of rules that this experiment runs."""
    unused = "train" if experiment.nodes > 1 else "train_on_nodes"
    return [request for request in requests.values() if request.rule != unused]


def is_training(request: Request) -> bool:
    return request.rule in ("train", "train_on_nodes")


def _config(experiment: Experiment) -> Iterator[str]:
    """Settings with which every training job would fail at its start."""
    config = experiment.config
    judge = config.xverify if config.needs_judge(config.verifier) else None
    if experiment.trains_on_gpus and judge is not None and judge.url is None:
        yield (
            f"config/{experiment.scale}.yaml: xverify.url is null: training needs the address of "
            "a running judge (the policy uses all GPUs of its job), or a verifier without a judge"
        )


def _missing_gpus(experiment: Experiment, requests: dict[str, Request]) -> Iterator[str]:
    """Rules that run models on GPUs and request none; their entry may be missing."""
    needing = {}
    if experiment.trains_on_gpus:
        rule = "train_on_nodes" if experiment.nodes > 1 else "train"
        needing[rule] = "training (verl.device: cuda)"
    if experiment.config.sampler == "vllm":
        needing["sample"] = "sampling (sampler: vllm)"
    needing |= dict.fromkeys(_judging(experiment), "a judge of its own (xverify.url: null)")
    for rule, work in needing.items():
        if not requests.get(rule, requests[DEFAULT]).requests_gpus:
            several = rule == "train_on_nodes"
            how = "--gpus-per-node=TYPE:NUMBER in its slurm_extra" if several else "its gres"
            yield f"{PROFILE}: {RULES}.{rule} requests no GPU, but {work} needs them: set {how}"


def _judging(experiment: Experiment) -> Iterator[str]:
    """Rules besides training whose jobs start a judge server."""
    config = experiment.config
    if config.xverify is None or config.xverify.url is not None:
        return
    if config.needs_judge(config.agreement.against):
        yield "agreement"
    if config.needs_judge(config.verifier):
        yield "score"
        if config.gradients is not None:
            yield "gradients"


def _signals(experiment: Experiment, used: list[Request]) -> Iterator[str]:
    """Whether training jobs are asked to stop early enough before their time limit."""
    needed = _seconds_to_stop(experiment)
    option = f"--signal=USR1@{max(needed, USUAL_SIGNAL_SECONDS)}"
    for request in used:
        seconds = request.signal_seconds
        if not is_training(request):
            continue
        if seconds is None:
            yield (
                f"{request.key}.slurm_extra has no --signal=USR1@SECONDS: SLURM would kill a job "
                f"at its time limit without a checkpoint; set '{option}'"
            )
        elif request.minutes is not None and request.minutes * 60 <= seconds:
            least = math.ceil(seconds / 60) + START_MINUTES
            yield (
                f"{request.key}.runtime = {format_hours(request.minutes)} is no longer than the "
                f"{seconds} seconds of --signal: every job would be asked to stop at its "
                f"start; set {format_hours(least)} or more"
            )
        elif seconds < needed and (request.minutes or 0) > 10:
            yield (
                f"{request.key}.slurm_extra: {seconds} seconds before the time limit are too few "
                f"for a step and a checkpoint; set '{option}'"
            )


def _reasons_for_no_gpu(experiment: Experiment) -> dict[str, str]:
    """By rule: why it needs no GPUs, if it needs none."""
    config = experiment.config
    reasons: dict[str, str] = {}
    if not experiment.trains_on_gpus:
        engine = "engine: local" if config.engine == "local" else "verl.device: cpu"
        reason = f"training runs on CPUs ({engine}); remove that line"
        reasons |= {"train": reason, "train_on_nodes": reason}
    if config.sampler == "torch":
        reasons["sample"] = "sampling runs on CPUs (sampler: torch); remove that line"
    judged = config.needs_judge(config.verifier)
    if not judged or (config.xverify is not None and config.xverify.url is not None):
        why = "xverify.url names a running one" if judged else "the verifier needs none"
        reasons["score"] = f"scoring starts no judge model ({why}); remove that line"
    return reasons


def _seconds_to_stop(experiment: Experiment) -> int:
    """Seconds for a long step and a checkpoint of the slowest model (`models.<name>.expected`)."""
    models = {experiment.model_of(name) for name in experiment.cells}
    known = [expected for name in models if (expected := experiment.config.models[name].expected)]
    needed = [
        STEPS * model.step_seconds
        + checkpoint_bytes(model.parameters) / CHECKPOINT_BYTES_PER_SECOND
        for model in known
    ]
    return math.ceil(max([LEAST_SIGNAL_SECONDS, *needed]))


def format_hours(minutes: float) -> str:
    return f"{minutes / 60:g}h" if minutes >= 60 else f"{minutes:g}m"
