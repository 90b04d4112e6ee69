"""Checks of slurm/config.yaml against the experiment, without SLURM."""

import math
from collections.abc import Iterator

from rspo.config.experiment import Experiment
from rspo.slurm.launch import Finding, Kind, Launch, is_training
from rspo.slurm.plan import plan
from rspo.slurm.profile import PROFILE, RULES, Request, format_hours
from rspo.training.verl.disk import checkpoint_bytes

# Between the signal and the time limit, the running step and a checkpoint must finish. SLURM checks
# time limits about twice a minute.
LEAST_SIGNAL_SECONDS = 60
USUAL_SIGNAL_SECONDS = 600
START_MINUTES = 30  # for loading models, starting engines, and some steps
STEPS = 4  # a long step takes as long as this many average ones
CHECKPOINT_BYTES_PER_SECOND = 1e9


def missing_gpus(launch: Launch) -> Iterator[Finding]:
    """Rules that run models on GPUs and request none; their entry may be missing.

    With `verl.device: cpu`, vLLM may work on CPUs too.
    """
    config = launch.experiment.config
    on_cpus = config.engine == "verl" and not launch.experiment.trains_on_gpus
    needing = {}
    if launch.experiment.trains_on_gpus:
        rule = "train_on_nodes" if launch.experiment.nodes > 1 else "train"
        needing[rule] = "training (verl.device: cuda)"
    if config.sampler == "vllm":
        needing["sample"] = "sampling (sampler: vllm)"
    own = "a judge of its own (xverify.url: null)"
    needing |= {
        rule: own for rule in launch.starting_judges if rule not in ("train", "train_on_nodes")
    }
    for rule, work in needing.items():
        if not launch.runs(rule) or launch.request(rule).requests_gpus:
            continue
        if on_cpus:
            yield Finding(
                Kind.INFO,
                f"{PROFILE}: {RULES}.{rule} requests no GPU: {work} runs on CPUs, as training does "
                "(verl.device: cpu)",
            )
        else:
            several = rule == "train_on_nodes"
            how = "--gpus-per-node=TYPE:NUMBER in its slurm_extra" if several else "its gres"
            yield Finding(
                Kind.ERROR,
                f"{PROFILE}: {RULES}.{rule} requests no GPU, but {work} needs them: set {how}",
            )


def gpus_of_ranks(launch: Launch) -> Iterator[Finding]:
    """Whether a training job has one GPU per rank: verl refuses fewer."""
    settings = launch.experiment.config.verl
    if not launch.experiment.trains_on_gpus or settings is None:
        return
    for request in filter(is_training, launch.used):
        if request.gpus and request.gpus != settings.ranks_per_node:
            too_few = request.gpus < settings.ranks_per_node
            yield Finding(
                Kind.ERROR if too_few else Kind.WARNING,
                f"{request.key} requests {request.gpus} GPUs of a node, and verl.ranks_per_node = "
                f"{settings.ranks_per_node} uses one each: set both to the same number",
            )


def signals(launch: Launch) -> Iterator[Finding]:
    """Whether training jobs are asked to stop early enough before their time limit."""
    needed = _seconds_to_stop(launch.experiment)
    for request in filter(is_training, launch.used):
        yield from _signal(request, needed)


def _signal(request: Request, needed: int) -> Iterator[Finding]:
    seconds, minutes = request.signal_seconds, request.minutes
    least = math.ceil((seconds or 0) / 60) + START_MINUTES
    option = f"--signal=USR1@{max(needed, USUAL_SIGNAL_SECONDS)}"
    if seconds is None:
        yield Finding(
            Kind.WARNING,
            f"{request.key}.slurm_extra has no --signal=USR1@SECONDS: SLURM would kill a job "
            f"at its time limit without a checkpoint; set '{option}'",
        )
    elif minutes is not None and minutes * 60 <= seconds:
        yield Finding(
            Kind.ERROR,
            f"{request.key}.runtime = {format_hours(minutes)} is no longer than the "
            f"{seconds} seconds of --signal: every job would be asked to stop at its "
            f"start; set {format_hours(least)} or more",
        )
    elif minutes is not None and minutes < least:
        yield Finding(
            Kind.WARNING,
            f"{request.key}.runtime = {format_hours(minutes)}: --signal comes {seconds} seconds "
            "earlier, perhaps before the models are loaded and a step is done, so that jobs would "
            f"requeue themselves without progress; set {format_hours(least)} or more",
        )
    elif seconds < needed and (request.minutes or 0) > 10:
        yield Finding(
            Kind.WARNING,
            f"{request.key}.slurm_extra: {seconds} seconds before the time limit are too few "
            f"for a step and a checkpoint; set '{option}'",
        )


def sampling_time(launch: Launch) -> Iterator[Finding]:
    """Whether the longest sampling ends within all tries; a job does not requeue itself."""
    request = launch.request("sample")
    if not launch.runs("sample") or request.minutes is None or not request.requests_gpus:
        return  # without a GPU, `missing_gpus` reports it
    hours = max(plan(launch.experiment).sampling.hours or [0.0])
    retries = int(launch.profile.get("retries") or 0)
    if hours * 60 > request.minutes * (retries + 1):
        needed = math.ceil(hours * 60 / request.minutes) - 1
        yield Finding(
            Kind.WARNING,
            f"{request.key}.runtime = {format_hours(request.minutes)}: the longest sampling may "
            f"take {hours:.1f} h, and retries = {retries} resumes it {retries} times: set a longer "
            f"runtime, or retries: {needed}",
        )


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


def unused_gpus(launch: Launch) -> Iterator[Finding]:
    """Requests for GPUs that the jobs do not use."""
    reasons = _reasons_for_no_gpu(launch.experiment)
    for request in launch.used:
        if request.gpus and (reason := reasons.get(request.rule)):
            # Sampling and training need no GPUs only for tiny models.
            yield Finding(
                Kind.WARNING if request.rule == "score" else Kind.INFO,
                f"{request.key} requests {request.gres}, which is not needed: {reason}; "
                "remove that line",
            )


def _reasons_for_no_gpu(experiment: Experiment) -> dict[str, str]:
    """By rule: why it needs no GPUs, if it needs none."""
    config = experiment.config
    reasons: dict[str, str] = {}
    if not experiment.trains_on_gpus:
        engine = "engine: local" if config.engine == "local" else "verl.device: cpu"
        reasons |= dict.fromkeys(("train", "train_on_nodes"), f"training runs on CPUs ({engine})")
    if config.sampler == "torch":
        reasons["sample"] = "sampling runs on CPUs (sampler: torch)"
    if not config.starts_judge(config.verifier):
        judged = config.needs_judge(config.verifier)
        why = "xverify.url names a running one" if judged else "the verifier needs none"
        reasons["score"] = f"scoring starts no judge model ({why})"
    return reasons


def expressions(launch: Launch) -> Iterator[Finding]:
    """Values that cannot be checked."""
    for request in launch.used:
        for name, value in request.expressions:
            yield Finding(
                Kind.INFO,
                f"{request.key}.{name} = {value!r} is an expression, which Snakemake evaluates "
                "for each job: not checked",
            )


def hub_access(launch: Launch) -> Iterator[Finding]:
    """Whether jobs connect to the hub."""
    if "HF_HUB_OFFLINE=1" not in str(launch.profile.get("precommand")):
        yield Finding(
            Kind.INFO,
            f"{PROFILE}: precommand has no export HF_HUB_OFFLINE=1: jobs connect to the hub "
            "although they need nothing from it, and hang on nodes without internet access",
        )
