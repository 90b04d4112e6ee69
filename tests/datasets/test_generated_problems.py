"""The generated problems of the tiny scale: splits, answers and worked examples."""

import hashlib
import itertools
import random
import re
from collections import Counter

import pytest

from rspo.core.errors import InputError
from rspo.datasets.generated import (
    COUNTDOWN_TEMPLATES,
    FAMILIES,
    LARGER,
    LARGER_FAMILIES,
    RULE_FRACTIONS,
    SPLIT_FRACTIONS,
    generate,
    numbers_of,
    split_of,
    worked_examples,
)
from rspo.policies.tokenizer import build_tokenizer
from rspo.rewards import is_correct


def prompts(family: str, split: str) -> set[str]:
    return {FAMILIES[family][1](*numbers)[0] for numbers in numbers_of(family, split)}


@pytest.mark.parametrize("family", FAMILIES)
def test_splits_are_disjoint_and_large_enough(family: str) -> None:
    splits = {split: prompts(family, split) for split in SPLIT_FRACTIONS}
    for one, other in itertools.combinations(splits.values(), 2):
        assert not one & other
    assert len(splits["train"]) >= 800
    assert len(splits["validation"]) >= 100
    assert len(splits["test"]) >= 200


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


@pytest.mark.parametrize("family", LARGER_FAMILIES)
def test_larger_prompts_fit_the_limits_and_the_alphabet(family: str) -> None:
    tokenizer = build_tokenizer()
    for numbers in numbers_of(family, LARGER):
        prompt, _ = FAMILIES[family][1](*numbers)
        assert len(prompt) <= 10
        assert tokenizer.decode(tokenizer.encode(prompt).ids) == prompt
        for seed in range(20):  # a worked response, the longest way there is
            response = FAMILIES[family][2](random.Random(seed), *numbers)
            assert len(tokenizer.encode(response).ids) + 1 <= 18


def test_training_data_do_not_change() -> None:
    """A different example or training prompt would change every policy of the tiny scale."""
    examples = hashlib.sha256(repr(worked_examples(60000, 0)).encode()).hexdigest()
    assert examples.startswith("0cacee31fa16e8a3")
    rows = [generate(family, "train", 800) for family in FAMILIES]
    train = hashlib.sha256(repr(rows).encode()).hexdigest()
    assert train.startswith("00fcc3d3fa8b6491")


@pytest.mark.parametrize("family", FAMILIES)
def test_prompts_are_unique_and_in_the_split_of_their_hash(family: str) -> None:
    rows = generate(family, "test", 200)
    texts = [row["prompt"][0]["content"] for row in rows]
    assert len(set(texts)) == len(texts)
    assert {split_of(text) for text in texts} == {"test"}


def same_task(family: str, prompt: str) -> str:
    """The prompt with its factors or digits sorted, because their order does not matter."""
    pattern = {"multiply": r"\d+\*\d+", "countdown": r"\d,\d,\d"}[family]
    return re.sub(pattern, lambda found: " ".join(sorted(re.findall(r"\d+", found[0]))), prompt)


@pytest.mark.parametrize(("family", "twins"), [("multiply", 140), ("countdown", 87)])
def test_the_docs_count_the_test_problems_that_are_reordered_training_problems(
    family: str, twins: int
) -> None:
    train, test = (
        [same_task(family, row["prompt"][0]["content"]) for row in generate(family, split, number)]
        for split, number in (("train", 800), ("test", 200))
    )
    assert sum(task in train for task in test) == twins


@pytest.mark.parametrize(("split", "problems"), [("train", 800), (LARGER, 100)])
def test_linear_answers_solve_the_equation(split: str, problems: int) -> None:
    for row in generate("linear", split, problems):
        a, b, total = map(int, re.split(r"x\+|=", row["prompt"][0]["content"]))
        assert a * int(row["answers"][0]) + b == total


def test_multiply_answers_are_the_product() -> None:
    for row in generate("multiply", "train", 800):
        a, b = row["prompt"][0]["content"].removesuffix("=?").split("*")
        assert int(a) * int(b) == int(row["answers"][0])


def test_every_countdown_problem_has_a_solution_that_the_verifier_accepts() -> None:
    rows = generate("countdown", "train", 800)
    for row in rows:
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
            _, answer = FAMILIES[family][1](letter, a, b)
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


@pytest.mark.parametrize(("split", "problems"), [("test", 200), (LARGER, 100)])
def test_a_divide_answer_is_one_of_the_six_rules(split: str, problems: int) -> None:
    for row in generate("divide", split, problems):
        a, b = map(int, row["prompt"][0]["content"][1:].removesuffix("=?").split("/"))
        assert a % b != 0
        assert int(row["answers"][0]) in {a // b, a // b + 1, a % b, b - a % b, a - b, a + b}


def test_worked_examples_fit_the_limits_and_the_alphabet() -> None:
    tokenizer = build_tokenizer()
    for prompt, response in worked_examples(5000, seed=1):
        assert len(prompt) <= 10
        assert len(tokenizer.encode(response).ids) + 1 <= 18
        assert tokenizer.decode(tokenizer.encode(prompt + response).ids) == prompt + response


def test_worked_examples_are_right_and_wrong_and_never_from_held_out_prompts() -> None:
    examples = worked_examples(5000, seed=1)
    assert {split_of(prompt) for prompt, _ in examples} == {"train"}
    answers = {
        FAMILIES[family][1](*numbers)[0]: FAMILIES[family][1](*numbers)[1]
        for family in FAMILIES
        for numbers in numbers_of(family, "train")
    }
    right = is_correct([r for _, r in examples], [[answers[p]] for p, _ in examples], "exact")
    assert 0.25 < sum(right) / len(right) < 0.55


def test_a_sign_error_in_a_linear_example_is_never_right_by_accident() -> None:
    """An error that is sometimes right would be rewarded and kept by every objective."""
    for prompt, response in worked_examples(20000, seed=2):
        if "x+" in prompt and "+" in response:  # the sign error
            a, rest = prompt.split("x+")
            b, total = rest.split("=")
            x = (int(total) - int(b)) // int(a)
            assert not response.endswith(f"\\boxed{{{x}}}")


def test_requesting_more_problems_than_a_split_has_is_an_error() -> None:
    with pytest.raises(InputError, match=r"test split .* 'multiply' has \d+ problems; 5000 were"):
        generate("multiply", "test", 5000)
