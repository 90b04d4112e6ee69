"""The prompts that a policy trains on, and which of them each step uses."""

from dataclasses import dataclass
from pathlib import Path

import torch

from rspo.config.schema import Sampling, Training
from rspo.core.errors import InputError
from rspo.core.seeds import generator_of
from rspo.core.tables import PROBLEMS, read_table
from rspo.policies.prompt_limit import too_long
from rspo.policies.tokenizer import ChatTokenizer


@dataclass(frozen=True)
class Prompts:
    """A set of problems: tokens, question, accepted answers and family of each prompt."""

    tokens: list[list[int]]
    questions: list[str]
    answers: list[list[str]]
    families: list[str]

    def of(self, rows: list[int]) -> "Prompts":
        """Some of them, in the order of `rows`."""
        return Prompts(
            [self.tokens[row] for row in rows],
            [self.questions[row] for row in rows],
            [self.answers[row] for row in rows],
            [self.families[row] for row in rows],
        )


def read_prompts(
    data: Path, tokenizer: ChatTokenizer, sampling: Sampling
) -> tuple[Prompts, list[str]]:
    """A set of problems as the policy reads it, and the ids of those too long to be in it."""
    problems = read_table(data, PROBLEMS)
    tokens = tokenizer.prompts([problem["prompt"] for problem in problems])
    left_out = set(too_long(tokens, sampling))
    kept = [place for place in range(len(problems)) if place not in left_out]
    prompts = Prompts(
        [tokens[place] for place in kept],
        [problems[place]["prompt"][-1]["content"] for place in kept],
        [problems[place]["answers"] for place in kept],
        [problems[place]["benchmark"] for place in kept],
    )
    return prompts, [problems[place]["id"] for place in sorted(left_out)]


def prompts_of_step(families: list[str], training: Training, seed: int, step: int) -> list[int]:
    """Rows of the training set that one step uses, families in turn.

    Every epoch goes once through the set in a new order, less what does not fill a last step.
    The order depends on the seed alone, so all methods see the same prompts at the same step.

    Raises: InputError if the set is smaller than one step.
    """
    steps_per_epoch = len(families) // training.prompts_per_step
    if steps_per_epoch == 0:
        raise InputError(
            f"the training set has {len(families)} problems; "
            f"training.prompts_per_step = {training.prompts_per_step} needs at least as many"
        )
    epoch, position = divmod(step, steps_per_epoch)
    shuffled = torch.randperm(len(families), generator=generator_of(seed, "order", epoch)).tolist()
    # Rank within the family, then position in the shuffle: a round-robin over families.
    ranks: dict[str, int] = {}
    keys = []
    for row in shuffled:
        keys.append(ranks.get(families[row], 0))
        ranks[families[row]] = keys[-1] + 1
    order = [row for _, row in sorted(zip(keys, shuffled, strict=True), key=lambda pair: pair[0])]
    first = position * training.prompts_per_step
    return order[first : first + training.prompts_per_step]
