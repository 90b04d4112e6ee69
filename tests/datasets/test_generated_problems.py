"""The generated problems: splits, answers and worked examples."""

import hashlib
import itertools
import random
import re
from collections import Counter
from collections.abc import Callable, Hashable
from fractions import Fraction

import pytest

from rspo.config.names import LARGER
from rspo.datasets.generated import (
    COUNTDOWN_TEMPLATES,
    FAMILIES,
    RULE_FRACTIONS,
    SPLIT_FRACTIONS,
    TAUGHT,
    generate,
    numbers_of,
    worked_examples,
)
from rspo.policies.tokenizer import build_tokenizer
from rspo.rewards import is_correct

LARGER_FAMILIES = [name for name in FAMILIES if FAMILIES[name].larger]


def prompts(family: str, split: str) -> set[str]:
    return {FAMILIES[family].describe(*numbers)[0] for numbers in numbers_of(family, split)}


def task(prompt: str) -> Hashable:
    """What a prompt asks, whatever the order of its numbers or the scale of its equation.

    The letter of a hidden rule stays: another letter can have another answer.
    """
    numbers = [int(number) for number in re.findall(r"\d+", prompt)]
    if any(word in prompt for word in ("hare", "same number")):
        return "share", *sorted(numbers)
    if any(word in prompt for word in ("number", "tickets")):
        a, b, c = numbers
        return "unknown", Fraction(b, a), Fraction(c, a)
    if "x" in prompt:  # a x + b = c
        a, b, c = numbers
        return "x", Fraction(b, a), Fraction(c, a)
    if "*" in prompt:
        return "*", *sorted(numbers)
    if "=?" not in prompt and "=" in prompt:
        *digits, target = numbers
        return "countdown", *sorted(digits), target
    return prompt


@pytest.mark.parametrize("family", FAMILIES)
def test_splits_share_no_task_and_are_large_enough(family: str) -> None:
    names = [*SPLIT_FRACTIONS, *([LARGER] if family in LARGER_FAMILIES else [])]
    splits = {split: prompts(family, split) for split in names}
    for split in {"test", LARGER} & splits.keys():  # intervals treat problems as independent
        assert len({*map(task, splits[split])}) == len(splits[split])
    for one, other in itertools.combinations(splits.values(), 2):
        assert not {task(prompt) for prompt in one} & {task(prompt) for prompt in other}
    assert len(splits["train"]) >= 800
    assert len(splits["validation"]) >= {"share": 30, "unknown": 90}.get(family, 100)
    fewer = {"multiply": 100, "countdown": 190, "share": 60, "unknown": 190}
    assert len(splits["test"]) >= fewer.get(family, 200)


def test_pretraining_has_no_task_of_a_held_out_problem() -> None:
    taught = {task(prompt) for prompt, _ in worked_examples(60000, seed=0)}
    for family in TAUGHT:
        for split in ("validation", "test", *([LARGER] if family in LARGER_FAMILIES else [])):
            assert not taught & {task(prompt) for prompt in prompts(family, split)}


@pytest.mark.parametrize("family", LARGER_FAMILIES)
def test_larger_prompts_have_a_larger_number_than_any_other_split(family: str) -> None:
    larger = prompts(family, LARGER)
    others = {prompt for split in SPLIT_FRACTIONS for prompt in prompts(family, split)}
    assert len(larger) == len(numbers_of(family, LARGER)) >= 100
    assert not larger & others
    known = {number for prompt in others for number in numbers_in(family, prompt)}
    for prompt in larger:
        assert max(numbers_in(family, prompt)) > max(known)


def numbers_in(family: str, prompt: str) -> list[int]:
    """The number of a prompt that `larger` enlarges: b of linear, the divisor of divide."""
    pattern = {"linear": r"\+(\d+)=", "divide": r"/(\d+)="}[family]
    return [int(number) for number in re.findall(pattern, prompt)]


def test_training_data_do_not_change() -> None:
    """A different example or training prompt would change every policy of the tiny scale."""
    examples = hashlib.sha256(repr(worked_examples(60000, 0)).encode()).hexdigest()
    assert examples.startswith("0f179f2f56a0786b")
    rows = [generate(family, "train", 800) for family in TAUGHT]
    train = hashlib.sha256(repr(rows).encode()).hexdigest()
    assert train.startswith("24460208cbd34871")


# What the numbers of a prompt, in order, and the answer must satisfy.
SOLVES: dict[str, Callable[[list[int], int], bool]] = {
    "linear": lambda numbers, x: numbers[0] * x + numbers[1] == numbers[2],
    "multiply": lambda numbers, product: numbers[0] * numbers[1] == product,
    "share": lambda numbers, each: min(numbers) * each == max(numbers),
    "unknown": lambda numbers, x: numbers[0] * x + numbers[1] == numbers[2],
    "divide": lambda numbers, value: value in six_rules(*numbers),
}


def six_rules(a: int, b: int) -> set[int]:
    return {a // b, a // b + 1, a % b, b - a % b, a - b, a + b}


@pytest.mark.parametrize("family", SOLVES)
def test_answers_are_right(family: str) -> None:
    rows = generate(family, "train", 800)
    rows += generate(family, LARGER, 100) if family in LARGER_FAMILIES else []
    assert len({row["prompt"][0]["content"] for row in rows}) == len(rows)
    for row in rows:
        numbers = [int(one) for one in re.findall(r"\d+", row["prompt"][0]["content"])]
        assert SOLVES[family](numbers, int(row["answers"][0]))


@pytest.mark.parametrize("split", ["train", "test"])
def test_every_countdown_problem_has_a_solution_that_the_verifier_accepts(split: str) -> None:
    for row in generate("countdown", split, {"train": 800, "test": 190}[split]):
        numbers, target = row["prompt"][0]["content"].split("=")
        a, b, c = map(int, numbers.split(","))
        solutions = [
            text.format(a=a, b=b, c=c)
            for text, value in COUNTDOWN_TEMPLATES
            if value(a, b, c) == int(target)
        ]
        assert solutions
        responses = [f"\\boxed{{{solution}}}" for solution in solutions]
        assert all(is_correct(responses, [row["answers"]] * len(responses), "exact"))


@pytest.mark.parametrize("family", ["divide", "sequence"])
def test_hidden_rules_have_their_fractions_whatever_the_letter_of_the_prompt(family: str) -> None:
    """The most common rule holds for about 36 % of the prompts with each letter."""
    hits: Counter[str] = Counter()
    totals: Counter[str] = Counter()
    for split in SPLIT_FRACTIONS:
        for letter, a, b in numbers_of(family, split):
            _, answer = FAMILIES[family].describe(letter, a, b)
            most_common = a // b if family == "divide" else 2 * b - a
            others = [a % b, b - a % b, a - b, a + b, a // b + 1]
            if family == "divide" and most_common in others:
                continue  # two rules agree: the answer does not tell which one holds
            if family == "sequence" and most_common in (a + b, 2 * b, b + 1, a, b - 1):
                continue
            totals[letter] += 1
            hits[letter] += int(answer) == most_common
    assert sum(hits.values()) / sum(totals.values()) == pytest.approx(RULE_FRACTIONS[0], abs=0.03)
    for letter in totals:
        assert hits[letter] / totals[letter] == pytest.approx(RULE_FRACTIONS[0], abs=0.12)


def test_prompts_and_examples_fit_the_limits_and_the_alphabet() -> None:
    tokenizer, draw = build_tokenizer(), random.Random(1)
    pairs = worked_examples(5000, seed=1)
    for family in LARGER_FAMILIES:
        for numbers in numbers_of(family, LARGER):
            prompt, _ = FAMILIES[family].describe(*numbers)
            pairs += [(prompt, FAMILIES[family].example(draw, *numbers)) for _ in range(20)]
    for prompt, response in pairs:
        assert len(prompt) <= 10
        assert len(tokenizer.encode(response).ids) + 1 <= 18
        assert tokenizer.decode(tokenizer.encode(prompt + response).ids) == prompt + response
