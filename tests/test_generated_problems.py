"""The tiny world: what its splits, answers and worked examples must be."""

import itertools
from collections import Counter

import pytest

from rspo.datasets.generated import (
    COUNTDOWN_TEMPLATES,
    FAMILIES,
    RULE_SHARES,
    SPLIT_SHARES,
    generate,
    numbers_of,
    split_of,
    worked_examples,
)
from rspo.errors import InputError
from rspo.policies.tokenizer import build_tokenizer
from rspo.rewards import is_correct


def prompts(family: str, split: str) -> set[str]:
    return {FAMILIES[family][1](*numbers)[0] for numbers in numbers_of(family, split)}


@pytest.mark.parametrize("family", FAMILIES)
def test_splits_are_disjoint_and_large_enough(family: str) -> None:
    splits = {split: prompts(family, split) for split in SPLIT_SHARES}
    for one, other in itertools.combinations(splits.values(), 2):
        assert not one & other
    assert len(splits["train"]) >= 800
    assert len(splits["validation"]) >= 100
    assert len(splits["test"]) >= 200


@pytest.mark.parametrize("family", FAMILIES)
def test_a_prompt_stands_once_and_in_the_split_of_its_hash(family: str) -> None:
    rows = generate(family, "test", 200)
    texts = [row["prompt"][0]["content"] for row in rows]
    assert len(set(texts)) == len(texts)
    assert {split_of(text) for text in texts} == {"test"}


def test_linear_answers_solve_the_equation() -> None:
    for row in generate("linear", "train", 800):
        left, total = row["prompt"][0]["content"].split("=")
        a, b = left.split("x+")
        assert int(a) * int(row["answers"][0]) + int(b) == int(total)


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
def test_hidden_rules_come_in_their_shares_and_do_not_follow_from_the_letter(family: str) -> None:
    """The commonest rule holds about 36 % of the time whatever the prompt's letter."""
    hits: Counter[str] = Counter()
    totals: Counter[str] = Counter()
    for split in SPLIT_SHARES:
        for letter, a, b in numbers_of(family, split):
            _, answer = FAMILIES[family][1](letter, a, b)
            commonest = a // b if family == "divide" else 2 * b - a
            others = [a % b, b - a % b, a - b, a + b, a // b + 1]
            if family == "divide" and commonest in others:
                continue  # two rules agree: the answer does not tell which one holds
            if family == "sequence" and commonest in (a + b, 2 * b, b + 1, a, b - 1):
                continue
            totals[letter] += 1
            hits[letter] += int(answer) == commonest
    assert sum(hits.values()) / sum(totals.values()) == pytest.approx(RULE_SHARES[0], abs=0.03)
    for letter in totals:
        assert hits[letter] / totals[letter] == pytest.approx(RULE_SHARES[0], abs=0.12)


def test_a_divide_answer_is_one_of_the_six_rules() -> None:
    for row in generate("divide", "test", 200):
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


def test_asking_for_more_problems_than_there_are_is_an_error() -> None:
    with pytest.raises(InputError, match=r"test split .* 'multiply' has \d+ problems; 5000 were"):
        generate("multiply", "test", 5000)
