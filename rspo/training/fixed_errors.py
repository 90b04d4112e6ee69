"""Systematic errors of a verifier: on some prompts, it always accepts one wrong answer.

The wrong answer of a prompt is the one that the base policy gives most often, because an error
matters only where the policy finds it. Prompts to which it gives none have no error.
"""

from collections import Counter, defaultdict

import torch

from rspo.core.seeds import generator_of
from rspo.rewards.extraction import last_box
from rspo.training.local import Trainer
from rspo.training.prompts import Prompts
from rspo.training.records import texts_of
from rspo.training.validation import verified_samples

SAMPLES = 32  # of the base policy, to each prompt


def fixed_errors(trainer: Trainer, prompts: Prompts) -> dict[str, str]:
    """The wrong answer that is always accepted, by the text of its prompt.

    Args:
        trainer: with the base policy, before its first step.
        prompts: the training set; a fraction `rewards.false_accepts_fixed` of it has errors, the
            same for every method with the seed of the trainer's cell.
    """
    fraction, seed = trainer.config.rewards.false_accepts_fixed, trainer.cell.seed
    count = len(prompts.tokens)
    drawn = torch.randperm(count, generator=generator_of("fixed errors", seed)).tolist()
    chosen = prompts.of(sorted(drawn[: round(fraction * count)]))
    tokens, correct = verified_samples(trainer, chosen, SAMPLES, "fixed errors")
    wrong: dict[str, Counter[str]] = defaultdict(Counter)
    for place, text in enumerate(texts_of(tokens, trainer.tokenizer)):
        if not correct[place] and (answer := last_box(text)) is not None:
            wrong[chosen.questions[place // SAMPLES]][answer] += 1
    return {question: answers.most_common(1)[0][0] for question, answers in wrong.items()}
