"""Simulated errors of a verifier: random ones, and systematic ones on planted responses."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rspo.config.schema import Rewards
from rspo.policies.sampler import Responses
from rspo.policies.tokenizer import ChatTokenizer, save_tokenizer
from rspo.rewards import verify
from rspo.training import validation
from rspo.training.local import Trainer
from rspo.training.prompts import Prompts
from rspo.training.simulated_errors import (
    SimulatedErrors,
    fixed_errors,
    simulated_errors,
    with_wrong_verdicts,
)
from tests.support import tiny_world
from tests.support.rollouts import make_model

CELL = "small--rspo-pass--k4--n16--s0"


def box(answer: str) -> str:
    return f"\\boxed{{{answer}}}"


def planted(tokenizer: ChatTokenizer, texts: list[str]) -> Responses:
    """Finished responses with these texts."""
    rows = [[*tokens, tokenizer.end] for tokens in tokenizer.encode(texts)]
    lengths = torch.tensor([len(row) for row in rows])
    padded = [row + [tokenizer.pad] * (int(lengths.max()) - len(row)) for row in rows]
    zeros = torch.zeros(len(rows), int(lengths.max()))
    return Responses(torch.tensor(padded), lengths, torch.ones(len(rows)) > 0, zeros, zeros)


def exact(texts: list[str], answers: list[list[str]], **_: Any) -> Any:
    return verify(texts, answers, verifier="exact")


def make_trainer(tmp_path: Path, **rewards: float) -> Trainer:
    world = tiny_world.load(tmp_path, rewards=rewards)
    if not (tmp_path / "tokenizer.json").exists():
        save_tokenizer(tmp_path, 10, 28)
    tokenizer = ChatTokenizer(tmp_path)
    return Trainer(world.config, world.cell(CELL), make_model(), tokenizer, exact)


def prompts_of(count: int) -> Prompts:
    """Prompts 0=?, 1=?, ... with their number as the answer, and as their first token."""
    numbers = range(count)
    answers = [[str(number)] for number in numbers]
    return Prompts(
        [[number] for number in numbers],
        [f"{number}=?" for number in numbers],
        answers,
        ["linear"] * count,
    )


@pytest.mark.parametrize(("name", "flipped"), [("false_accepts", False), ("false_rejects", True)])
def test_wrong_verdicts_flip_their_rate_of_one_kind_of_verdict(name: str, flipped: bool) -> None:
    correct = np.arange(40_000) % 4 == 0
    settings = Rewards(length_discount=0, **{name: 0.1})
    accepted = with_wrong_verdicts(correct, settings, 0, 1)
    changed = accepted != correct
    assert not changed[correct != flipped].any()
    assert changed[correct == flipped].mean() == pytest.approx(0.1, abs=0.012)  # 4 errors or more
    assert (with_wrong_verdicts(correct, settings, 0, 1) == accepted).all()
    assert (with_wrong_verdicts(correct, settings, 0, 2) != accepted).any()


@pytest.mark.parametrize("chunk", [3, 32])
def test_the_most_common_wrong_answer_is_the_error_of_a_fraction_of_the_prompts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    monkeypatch.setattr(validation, "CHUNK", chunk)
    trainer = make_trainer(tmp_path, false_accepts_fixed=0.5)

    def sample(tokens: list[list[int]], n: int, *seed: object) -> Responses:
        """Half of the responses are right, and the most common wrong one has no answer.

        To prompt 5, all others have no answer.
        """
        texts = []
        for (number,) in tokens:
            wrong = [box(str(number + 100))] * 5 + [box(str(number + 1))] * 3
            wrong = ["7"] * 8 if number == 5 else wrong
            rest = n - n // 2 - len(wrong)
            texts += [box(str(number))] * (n // 2) + ["7"] * rest + wrong
        return planted(trainer.tokenizer, texts)

    monkeypatch.setattr(trainer, "sample", sample)
    found = fixed_errors(trainer, prompts_of(40))
    assert len(found) in (19, 20)  # prompt 5 may be among the 20, and has no wrong answer
    assert "5=?" not in found
    assert found == {
        f"{number}=?": str(number + 100) for number in range(40) if f"{number}=?" in found
    }


def test_the_prompts_are_those_of_the_seed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for seed in (0, 0, 1):
        trainer = make_trainer(tmp_path, false_accepts_fixed=0.25)
        object.__setattr__(trainer.cell, "seed", seed)

        def sample(
            tokens: list[list[int]], n: int, *_: object, one: Trainer = trainer
        ) -> Responses:
            return planted(one.tokenizer, [box("99")] * (n * len(tokens)))

        monkeypatch.setattr(trainer, "sample", sample)
        found.append(fixed_errors(trainer, prompts_of(40)))
    assert len(found[0]) == len(found[2]) == 10
    assert found[0] == found[1] != found[2]


def test_the_wrong_answer_of_a_prompt_is_rewarded_there_and_does_not_count_as_correct(
    tmp_path: Path,
) -> None:
    trainer = make_trainer(tmp_path, false_accepts_fixed=0.5)
    rewards = trainer.config.rewards
    trainer.accept = SimulatedErrors(rewards, 0, trainer.tokenizer, {"1=?": "8"}).accept
    texts = [box("8"), box("0"), "8", *[box("2")] * 13]  # of each of three prompts
    batch = prompts_of(3)
    correct, rewards = trainer.reward(batch, planted(trainer.tokenizer, texts * 3), 0)
    expected = np.zeros((3, 16))
    expected[0, 1] = expected[2, 3:] = 1
    assert (correct == expected).all()
    expected[1, 0] = 1
    assert (rewards == expected).all()


def test_without_systematic_errors_the_random_ones_are_those_of_the_seed_and_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = make_trainer(tmp_path, false_accepts=0.5)
    monkeypatch.delattr(Trainer, "sample")  # the base policy is not asked
    errors = simulated_errors(trainer, prompts_of(3))
    assert errors.wrong_answers == {}
    correct = np.zeros(48, dtype=bool)
    tokens = [[trainer.tokenizer.end]] * 48
    accepted = errors.accept(prompts_of(3), [0] * 48, tokens, correct, 7)
    seed = trainer.cell.seed
    assert (accepted == with_wrong_verdicts(correct, trainer.config.rewards, seed, 7)).all()
    assert accepted.any()
