"""The prompts that a policy trains on, and the batch of each step."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from rspo.config.schema import Sampling, Training
from rspo.core.errors import InputError
from rspo.core.seeds import generator_of
from rspo.core.tables import PROBLEMS, read_table
from rspo.policies.prompt_limit import too_long
from rspo.policies.tokenizer import ChatTokenizer


@dataclass(frozen=True)
class Prompts:
    """A set of problems, one item of each list per prompt.

    tokens: the token ids of the prompt.
    questions: the text of the last message, which is the problem.
    answers: the accepted answers.
    families: the kind of problem, which the table calls `benchmark`.
    """

    tokens: list[list[int]]
    questions: list[str]
    answers: list[list[str]]
    families: list[str]

    def select(self, rows: list[int]) -> "Prompts":
        """The prompts of some rows, in the order of `rows`."""
        return Prompts(
            [self.tokens[row] for row in rows],
            [self.questions[row] for row in rows],
            [self.answers[row] for row in rows],
            [self.families[row] for row in rows],
        )


def read_prompts(
    data: Path, tokenizer: ChatTokenizer, sampling: Sampling
) -> tuple[Prompts, list[str]]:
    """Read and tokenize a set of problems.

    Returns: the problems that are short enough; and the ids of the problems that are too long.
    """
    problems = read_table(data, PROBLEMS)
    tokens = tokenizer.prompts([problem["prompt"] for problem in problems])
    prompts = Prompts(
        tokens,
        [problem["prompt"][-1]["content"] for problem in problems],
        [problem["answers"] for problem in problems],
        [problem["benchmark"] for problem in problems],
    )
    left_out = dict.fromkeys(too_long(tokens, sampling))  # a set that keeps the order
    kept = prompts.select([row for row in range(len(problems)) if row not in left_out])
    return kept, [problems[row]["id"] for row in left_out]


def prompts_of_step(families: list[str], training: Training, seed: int, step: int) -> list[int]:
    """Rows of the training set in the batch of a step, counted from 0. The families take turns.

    Every epoch uses each prompt at most once, in a new order. Prompts at the end of an epoch that
    do not fill a batch are left out. The order depends on the training set and the seed, not on the
    objective, so every objective gets the same batches.

    Raises: InputError for a training set that is smaller than a batch.
    """
    steps_per_epoch = len(families) // training.prompts_per_step
    if steps_per_epoch == 0:
        raise InputError(
            f"the training set has {len(families)} problems; "
            f"training.prompts_per_step = {training.prompts_per_step} needs at least as many"
        )
    epoch, position = divmod(step, steps_per_epoch)
    shuffled = torch.randperm(len(families), generator=generator_of(seed, "order", epoch)).numpy()
    # A round-robin over families: order by the rank within the family, then by the position in the
    # shuffle. `family` has the number of the family at each position of the shuffle.
    family = np.unique(families, return_inverse=True)[1][shuffled]
    by_family = np.argsort(family, kind="stable")
    starts = np.searchsorted(family[by_family], family[by_family])  # where each family begins
    ranks = np.empty_like(by_family)  # rank of each position of the shuffle within its family
    ranks[by_family] = np.arange(len(families)) - starts
    order: list[int] = shuffled[np.argsort(ranks, kind="stable")].tolist()
    first = position * training.prompts_per_step
    return order[first : first + training.prompts_per_step]
