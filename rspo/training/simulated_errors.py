"""A simulated verifier that errs, for the studies of wrong verdicts.

Rewards follow its wrong verdicts. The records and the validation report the right verdicts.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from rspo.config.names import BOX_ONLY
from rspo.config.schema import Rewards
from rspo.core.seeds import generator_of
from rspo.policies.tokenizer import ChatTokenizer
from rspo.rewards.extraction import text_answer
from rspo.training.local import Trainer
from rspo.training.prompts import Prompts
from rspo.training.rewards import texts_of
from rspo.training.validation import verified_samples

# Responses of the base policy to each prompt that is chosen for a systematic error.
_SAMPLES = 32


@dataclass(frozen=True)
class SimulatedErrors:
    """Accepts the responses that a verifier with errors would accept.

    settings: the rates of the random errors.
    seed: the seed of the cell, which also seeds the random errors.
    tokenizer: the tokenizer of the policy.
    wrong_answers: for the text of a prompt, the wrong answer to it that is always accepted.
    extract: where the answer may stand in a response.
    """

    settings: Rewards
    seed: int
    tokenizer: ChatTokenizer
    wrong_answers: Mapping[str, str]
    extract: tuple[str, ...] = BOX_ONLY

    def accept(
        self,
        batch: Prompts,
        rows: Sequence[int],
        tokens: Sequence[Sequence[int]],
        correct: NDArray[np.bool_],
        step: int,
    ) -> NDArray[np.bool_]:
        """Decide which responses to reward as correct ones.

        Args:
            batch: the prompts of the step.
            rows: for each response, the row of its prompt in `batch`.
            tokens: the token ids of each response.
            correct: (len(tokens),) whether each response is correct.
            step: counted from 0.

        Returns: (len(tokens),) whether to reward each response as a correct one.
        """
        accepted = with_wrong_verdicts(correct, self.settings, self.seed, step)
        if not self.wrong_answers:
            return accepted
        texts = texts_of(tokens, self.tokenizer)
        always = []
        for row, text in zip(rows, texts, strict=True):
            answer = self.wrong_answers.get(batch.questions[row])
            always.append(answer is not None and text_answer(text, self.extract) == answer)
        return accepted | np.array(always)


def simulated_errors(trainer: Trainer, prompts: Prompts) -> SimulatedErrors:
    """Make the simulated verifier that the config of a trainer asks for.

    The arguments are those of `fixed_errors`.
    """
    settings = trainer.config.rewards
    wrong_answers: dict[str, str] = {}
    if settings.false_accepts_fixed:
        wrong_answers = fixed_errors(trainer, prompts)
    extract = trainer.config.extract
    return SimulatedErrors(settings, trainer.cell.seed, trainer.tokenizer, wrong_answers, extract)


def with_wrong_verdicts(
    correct: NDArray[np.bool_], settings: Rewards, *seed: str | int
) -> NDArray[np.bool_]:
    """Flip verdicts at the config's rates, independently for each response.

    Args:
        correct: (responses,) whether each response is correct.
        seed: parts of the seed of the random numbers.
    """
    if not settings.false_accepts and not settings.false_rejects:
        return correct
    draws = torch.rand(len(correct), generator=generator_of("wrong verdicts", *seed))
    rates = np.where(correct, settings.false_rejects, settings.false_accepts)
    # The exclusive or flips the verdicts whose draw is below their rate.
    return correct ^ (draws.numpy() < rates)


def fixed_errors(trainer: Trainer, prompts: Prompts) -> dict[str, str]:
    """Choose systematic errors: for some prompts, a wrong answer that is always accepted.

    The accepted answer is the wrong answer that the base policy gives most often, because an error
    matters only if the policy gives such an answer. Prompts to which the base policy gives no wrong
    answer have no error.

    Args:
        trainer: a trainer with the base policy, before its first step.
        prompts: the training set; a fraction `rewards.false_accepts_fixed` of it has errors, the
            same for every method with the seed of the trainer's cell.

    Returns: the accepted wrong answer by the text of its prompt.
    """
    fraction = trainer.config.rewards.false_accepts_fixed
    count = len(prompts.tokens)
    generator = generator_of("fixed errors", trainer.cell.seed)
    drawn = torch.randperm(count, generator=generator).tolist()
    chosen = prompts.select(sorted(drawn[: round(fraction * count)]))
    tokens, correct = verified_samples(trainer, chosen, _SAMPLES, "fixed errors")
    wrong: dict[str, Counter[str]] = defaultdict(Counter)
    for place, text in enumerate(texts_of(tokens, trainer.tokenizer)):
        answer = text_answer(text, trainer.config.extract)
        if not correct[place] and answer is not None:
            # The responses are in the order of the prompts, _SAMPLES to each.
            question = chosen.questions[place // _SAMPLES]
            wrong[question][answer] += 1
    return {question: answers.most_common()[0][0] for question, answers in wrong.items()}
