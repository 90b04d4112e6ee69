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
            wrong = [box(str(number + 1))] * 3 + [box(str(number + 100))] * 5
            wrong = ["7"] * 8 if number == 5 else wrong
            rest = n - n // 2 - len(wrong)
            texts += [box(str(number))] * (n // 2) + ["7"] * rest + wrong
        return planted(trainer.tokenizer, texts)

    monkeypatch.setattr(trainer, "sample", sample)
    errors = simulated_errors(trainer, prompts_of(40))
    answers = errors.wrong_answers
    assert len(answers) in (19, 20)  # prompt 5 may be among the 20, and has no wrong answer
    assert "5=?" not in answers
    assert answers == {
        f"{number}=?": str(number + 100) for number in range(40) if f"{number}=?" in answers
    }
    assert errors.tokenizer is trainer.tokenizer


def test_wrong_answers_are_read_where_the_config_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = make_trainer(tmp_path, false_accepts_fixed=0.5)
    elsewhere = trainer.config.model_copy(update={"extract": ("last-number",)})
    monkeypatch.setattr(trainer, "config", elsewhere)

    def sample(tokens: list[list[int]], n: int, *_: object) -> Responses:
        return planted(trainer.tokenizer, ["x=99"] * (n * len(tokens)))

    monkeypatch.setattr(trainer, "sample", sample)
    prompts = prompts_of(2)
    errors = simulated_errors(trainer, prompts)
    ((question, answer),) = errors.wrong_answers.items()
    assert answer == "99"
    tokens = trainer.tokenizer.encode(["x=99", "x=98", box("99")])
    rows = [prompts.questions.index(question)] * 3
    accepted = errors.accept(prompts, rows, tokens, np.zeros(3, dtype=bool), 0)
    assert accepted.tolist() == [True, False, False]


def test_the_errors_are_those_that_the_published_studies_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Rewards(length_discount=0, false_accepts=0.5)
    accepted = with_wrong_verdicts(np.zeros(12, dtype=bool), settings, 0, 1)
    assert np.flatnonzero(accepted).tolist() == [2, 5, 6, 11]
    trainer = make_trainer(tmp_path, false_accepts_fixed=0.25)
    seeds = []

    def sample(tokens: list[list[int]], n: int, *seed: object) -> Responses:
        seeds.append(seed)
        return planted(trainer.tokenizer, [box("99")] * (n * len(tokens)))

    monkeypatch.setattr(trainer, "sample", sample)
    questions = fixed_errors(trainer, prompts_of(40))
    assert list(questions) == [f"{number}=?" for number in (9, 13, 17, 25, 26, 29, 33, 34, 35, 38)]
    assert seeds == [("fixed errors", 0)]


def test_the_prompts_are_those_of_the_seed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    errors = []
    for seed in (0, 0, 1):
        trainer = make_trainer(tmp_path, false_accepts_fixed=0.25)
        object.__setattr__(trainer.cell, "seed", seed)

        def sample(
            tokens: list[list[int]], n: int, *_: object, one: Trainer = trainer
        ) -> Responses:
            return planted(one.tokenizer, [box("99")] * (n * len(tokens)))

        monkeypatch.setattr(trainer, "sample", sample)
        errors.append(fixed_errors(trainer, prompts_of(40)))
    assert len(errors[0]) == len(errors[2]) == 10
    assert errors[0] == errors[1] != errors[2]


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
