"""Pass@k and Max@k of a policy on held-out problems, while it trains.

Nothing is learnt from them, and their random numbers are their own: the local engine's policy is
the same, bit for bit, with them and without.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rspo.config.experiment import Experiment
from rspo.config.schema import Config, Training
from rspo.core.errors import InputError
from rspo.core.files import sha256
from rspo.core.seeds import generator_of
from rspo.evaluation.estimators import max_at_k, pass_at_k
from rspo.policies.prompt_limit import report_too_long
from rspo.policies.tokenizer import ChatTokenizer
from rspo.rewards import length_discounted
from rspo.training.prompts import Prompts, read_prompts


def is_due(step: int, training: Training) -> bool:
    """Whether a policy is validated after a step, counted from 1: every so many, and the last."""
    every = training.validation.every
    return every is not None and (step % every == 0 or step == training.steps)


def held_out_prompts(experiment: Experiment, tokenizer: ChatTokenizer) -> Prompts | None:
    """The problems that every cell is validated on, drawn once; None if none is validated.

    Raises: InputError if the validation set is missing or too small.
    """
    training, sampling = experiment.config.training, experiment.config.sampling
    if training.validation.every is None:
        return None
    data, wanted = experiment.problems("validation"), training.validation.problems
    if not data.is_file():
        command = experiment.command("prepare", "validation")
        raise InputError(f"{data}: no such file; `{command}` makes it")
    prompts, left_out = read_prompts(data, tokenizer, sampling)
    report_too_long(left_out, sampling, "left out of validation")
    if wanted > len(prompts.tokens):
        raise InputError(
            f"training.validation.problems = {wanted}; {data} has {len(prompts.tokens)} that are "
            "short enough"
        )
    drawn = torch.randperm(len(prompts.tokens), generator=generator_of("validation"))
    return prompts.of(sorted(drawn[:wanted].tolist()))


def validation_record(
    correct: NDArray[np.bool_], lengths: Sequence[int], config: Config
) -> dict[str, dict[str, float]]:
    """What training.jsonl says of one validation: means over the problems, as in the curves.

    Pass@k, and Max@k of the length-discounted reward whatever the cell's own is, for every power
    of two up to the samples of a problem.

    Args:
        correct: responses in the order of their problems, (problems * samples,).
        lengths: of the same, in tokens.
    """
    samples, limit = config.training.validation.samples, config.sampling.max_response_tokens
    rewards = length_discounted(correct, lengths, limit, config.rewards.length_discount)
    counts, rewards = correct.reshape(-1, samples).sum(axis=1), rewards.reshape(-1, samples)
    ks = [2**power for power in range(samples.bit_length())]
    passed = {f"pass_at_{k}": float(pass_at_k(samples, counts, k).mean()) for k in ks}
    best = {f"max_at_{k}": float(max_at_k(rewards, k).mean()) for k in ks}
    return {"validation": passed | best}


def log_origin(experiment: Experiment, origin: dict[str, Any]) -> tuple[dict[str, Any], list[Path]]:
    """What training.jsonl was made from besides what the policy was: settings, and inputs."""
    validation = experiment.config.training.validation
    if validation.every is None:
        return origin, []
    data = experiment.problems("validation")
    settings = validation.model_dump(mode="json") | {"set": sha256(data)}
    return origin | {"validation": settings}, [data]
