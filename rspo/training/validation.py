"""Pass@k and Max@k of a policy on held-out problems, while it trains.

The policy does not train on these problems, and the sampling of their responses has its own seeds.
The local engine therefore trains the same policy, bit for bit, with and without validation.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rspo.config.experiment import Experiment
from rspo.config.schema import Config, Training, Validation
from rspo.core.errors import InputError
from rspo.core.files import digest
from rspo.core.seeds import generator_of
from rspo.estimators import max_at_k, pass_at_k
from rspo.pipeline import tasks
from rspo.pipeline.run import require_current
from rspo.policies.prompt_limit import report_too_long
from rspo.policies.tokenizer import ChatTokenizer
from rspo.training.local import Trainer
from rspo.training.prompts import Prompts, read_prompts
from rspo.training.rewards import named_rewards, tokens_of, verify_tokens

CHUNK = 32  # problems whose responses are sampled together; each chunk has its own seed


def is_due(step: int, training: Training) -> bool:
    """Whether to validate after `step`, counted from 1.

    Validation follows every `validation.every` steps and the last step, if the config has the key.
    """
    every = training.validation.every
    return every is not None and (step % every == 0 or step == training.last_step)


def held_out_prompts(experiment: Experiment, tokenizer: ChatTokenizer) -> Prompts | None:
    """Draw the problems that every cell is validated on; None if the config has no validation.

    Raises: InputError if too few of the problems are short enough.
    """
    training = experiment.config.training
    sampling = experiment.config.sampling
    if training.validation.every is None:
        return None
    data = experiment.files.problems("validation")
    require_current(tasks.prepare(experiment, "validation"), data)
    wanted = training.validation.problems
    prompts, left_out = read_prompts(data, tokenizer, sampling)
    report_too_long(left_out, sampling, "left out of validation")
    if wanted > len(prompts.tokens):
        raise InputError(
            f"training.validation.problems = {wanted}; {data} has {len(prompts.tokens)} that are "
            "short enough"
        )
    drawn = torch.randperm(len(prompts.tokens), generator=generator_of("validation"))
    return prompts.select(sorted(drawn[:wanted].tolist()))


def validate(trainer: Trainer, step: int, held_out: Prompts) -> dict[str, dict[str, float]]:
    """Validate after `step`, counted from 0; returns what the line of training.jsonl gets."""
    samples = trainer.config.training.validation.samples
    tokens, correct = verified_samples(trainer, held_out, samples, "validation", step)
    return validation_record(correct, tokens, trainer.tokenizer, trainer.config)


def verified_samples(
    trainer: Trainer, prompts: Prompts, samples: int, *seed: str | int
) -> tuple[list[list[int]], NDArray[np.bool_]]:
    """Sample responses to prompts and verify them.

    Args:
        samples: number of responses to each prompt.
        seed: parts of the seed of the sampling; the first problem of a chunk is added to them.

    Returns: the token ids of each response, prompt by prompt; and whether each response is correct,
        (prompts * samples,).
    """
    tokens: list[list[int]] = []
    for first in range(0, len(prompts.tokens), CHUNK):
        part = prompts.tokens[first : first + CHUNK]
        tokens += tokens_of(trainer.sample(part, samples, *seed, first))
    rows = [row for row in range(len(prompts.tokens)) for _ in range(samples)]
    return tokens, verify_tokens(tokens, rows, prompts, trainer.tokenizer, trainer.verify)


def validation_record(
    correct: NDArray[np.bool_],
    responses: Sequence[Sequence[int]],
    tokenizer: ChatTokenizer,
    config: Config,
) -> dict[str, dict[str, float]]:
    """The part of a line of training.jsonl that a validation adds: means over the problems.

    It has Pass@k and Max@k for every power of two up to the number of samples per problem. Max@k
    uses `evaluation.reward`, as in the curves, and not the reward that the cell trains on.

    Args:
        correct: (problems * samples,) whether each response is correct, problem by problem.
        responses: the token ids of each response, in the same order.
    """
    samples = config.training.validation.samples
    rewards = named_rewards(config.evaluation.reward, correct, responses, tokenizer, config)
    counts = correct.reshape(-1, samples).sum(axis=1)
    rewards = rewards.reshape(-1, samples)
    ks = [2**power for power in range(samples.bit_length())]
    passed = {f"pass_at_{k}": float(pass_at_k(samples, counts, k).mean()) for k in ks}
    best = {f"max_at_{k}": float(max_at_k(rewards, k).mean()) for k in ks}
    return {"validation": passed | best}


def validation_note(validation: Validation, problems: Path) -> dict[str, Any]:
    """How a training was validated, as a note of its provenance.

    The validation does not change the policy and is not among its settings, so this is a note.

    Args:
        problems: the file with the set of problems.
    """
    if validation.every is None:
        return {}
    set_of_problems = {"set": digest(problems)}
    return {"validation": validation.model_dump(mode="json") | set_of_problems}
