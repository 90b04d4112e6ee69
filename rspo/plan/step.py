"""The seconds of a training step on GPUs, phase by phase: estimated, and compared with logs.

The GPUs of a cell share its responses equally. Each samples its part until the longest response
ends: one token of every running response at a time. Of N responses of T tokens on G GPUs, with at
most L tokens, one takes

    seconds of sampling = L * seconds of a token of all + N / G * T * seconds of a response's token

The first term has the tail: it stays the same, however many GPUs share the responses. If only M of
N / G responses may run at a time (`max_num_seqs`), (N / G / M - 1) * T is added to L.
"""

from collections.abc import Iterator
from statistics import fmean

import numpy as np
import yaml

from rspo.config.experiment import Experiment
from rspo.config.schema import Training
from rspo.core.files import read_json_lines
from rspo.plan.assumptions import (
    FORWARD_FLOPS,
    IDLE_SECONDS,
    JUDGE_SPEED,
    KEPT_FRACTION,
    LEFT_TO_VERIFY,
    PROMPT_TOKENS,
    RESPONSE_TOKENS,
    SAMPLER_RESPONSE_SECONDS,
    SAMPLER_STEP_SECONDS,
    UPDATE_FLOPS,
    UPDATE_SECONDS,
    UTILISATION,
    WEIGHT_BYTES,
    WEIGHTS_SECONDS,
    WEIGHTS_SECONDS_PER_BILLION,
)
from rspo.plan.hours import Range, Sizes, as_text, gpus_text, sizes_of
from rspo.status.policies import is_finished
from rspo.training.gpu_memory import actor_rollout_ref

_VERL_CONFIG = "verl.yaml"  # that of `rspo.training.verl.run`, whose import takes seconds
PHASES = ("sampling", "verification", "log-probs", "updates", "weights", "idle")
# The phases that each of the times in training.jsonl covers.
_OF_LOG = {
    "sample": ("sampling",),
    "reward": ("verification",),
    "update": ("log-probs", "updates"),
    "weights": ("weights",),
}


def step_phases(experiment: Experiment, cell: str, sizes: Sizes) -> dict[str, Range]:
    """The seconds of each phase of a training step of a cell, by the names of `PHASES`."""
    of_cell = experiment.for_cell(cell)
    config = of_cell.config
    training = config.training
    responses = training.prompts_per_step * experiment.cell(cell).n
    longest = config.sampling.max_response_tokens
    tokens = min(RESPONSE_TOKENS, longest)
    of_each = responses / sizes.gpus
    at_once = actor_rollout_ref(of_cell, cell)["rollout"]["max_num_seqs"]
    rounds = longest + max(0.0, of_each / at_once - 1) * tokens
    # Dropped responses need neither log-probabilities nor an update.
    read = of_each * (tokens + PROMPT_TOKENS)
    passes = read * _kept(training) * sizes.parameters / (sizes.gpu.flops * UTILISATION)
    updates = training.prompts_per_step // training.prompts_per_update
    unread = LEFT_TO_VERIFY * read if config.verifier == "xverify" else np.zeros(2)
    billions = sizes.parameters / 1e9
    return {
        "sampling": _sampling(sizes, of_each * tokens, rounds),
        "verification": unread / JUDGE_SPEED,
        "log-probs": FORWARD_FLOPS * passes,
        "updates": UPDATE_FLOPS * passes + updates * UPDATE_SECONDS,
        "weights": WEIGHTS_SECONDS + billions * WEIGHTS_SECONDS_PER_BILLION,
        "idle": IDLE_SECONDS,
    }


def _sampling(sizes: Sizes, tokens: float, rounds: float) -> Range:
    """The seconds in which a GPU samples responses with this sum of tokens, until the last ends.

    Args:
        rounds: how often it computes one token of every running response. If all run from the
            start, this is the number of tokens of the longest one, which reaches the limit.
    """
    reading = WEIGHT_BYTES * sizes.parameters / sizes.gpu.bandwidth
    computing = FORWARD_FLOPS * sizes.parameters / sizes.gpu.flops
    of_rounds = rounds * (SAMPLER_STEP_SECONDS + reading)
    seconds: Range = of_rounds + tokens * (SAMPLER_RESPONSE_SECONDS + computing)
    return seconds


def _kept(training: Training) -> Range:
    """The fraction of the responses on which the actor computes."""
    drops = training.drop_zero_weights and training.loss_aggregation != "token-mean"
    return KEPT_FRACTION if drops else np.ones(2)


def step_seconds(experiment: Experiment, cell: str, sizes: Sizes) -> Range:
    """The seconds of a training step of a cell."""
    return np.sum(list(step_phases(experiment, cell, sizes).values()), axis=0)


# --- the table of `rspo plan` ---------------------------------------------------------------------


def table(experiment: Experiment, cells: list[str]) -> list[str]:
    """A line for each kind of cells, with the seconds of each phase; empty without an estimate."""
    kinds: dict[tuple[str, int, int], str] = {}
    for name in cells:
        sizes = sizes_of(experiment, name)
        if sizes is not None:
            cell = experiment.cell(name)
            kinds.setdefault((cell.model, sizes.gpus, cell.n), name)
    if not kinds:
        return []
    heads = "".join(f"{phase:>13}" for phase in PHASES + ("step",))
    lines = [f"{'seconds of a step':34}{heads}"]
    for (model, gpus, n), name in kinds.items():
        sizes = sizes_of(experiment, name)
        assert sizes is not None  # it is in `kinds`
        phases = step_phases(experiment, name, sizes)
        ranges = [phases[phase] for phase in PHASES]
        texts = [as_text([one]) for one in ranges] + [as_text(ranges)]
        title = f"{model}, {gpus_text(gpus)}, n = {n}"
        lines.append(f"{title:34}{''.join(f'{text:>13}' for text in texts)}")
    return lines


def measured(experiment: Experiment) -> Iterator[str]:
    """A line for each model with a finished cell: the seconds in its log, and the estimate.

    Cells that ignore the ends of responses, as those of the trial `stress` do, are left out: the
    estimate is for responses of the usual length.
    """
    seen = set()
    for name, cell in experiment.every_cell.items():
        sizes = sizes_of(experiment, name)
        if sizes is None or cell.model in seen or experiment.is_derived(name):
            continue
        if not is_finished(experiment, name) or _ignores_ends(experiment, name):
            continue
        seen.add(cell.model)
        # The cell may have been trained on another number of GPUs than the config has now.
        settings = yaml.safe_load((experiment.files.folder(name) / _VERL_CONFIG).read_text())
        sizes = sizes._replace(gpus=settings["trainer"]["n_gpus_per_node"])
        phases = step_phases(experiment, name, sizes)
        log = read_json_lines(experiment.files.training_log(name))
        texts = []
        for key, names in _OF_LOG.items():
            seconds = fmean(record["seconds"][key] for record in log)
            estimate = as_text([phases[phase] for phase in names])
            texts.append(f"{' and '.join(names)} {seconds:.1f} ({estimate})")
        yield (
            f"measured in {name} on {gpus_text(sizes.gpus)}, seconds of a step (and the estimate): "
            f"{', '.join(texts)}"
        )


def _ignores_ends(experiment: Experiment, cell: str) -> bool:
    """Whether every response of a training has the full length."""
    rollout = actor_rollout_ref(experiment.for_cell(cell), cell)["rollout"]
    return bool(rollout.get("ignore_eos", False))
