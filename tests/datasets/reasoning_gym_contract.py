"""What `rspo.datasets.reasoning_gym` needs of the package; test_reasoning_gym.py runs this file.

The scorers of the package are called here on texts of this file only. They would evaluate some
responses.
"""

import pytest
import reasoning_gym as package

from rspo.datasets.reasoning_gym import TASKS, distinct_problems
from rspo.rewards import is_correct

PLACES = ["whole"]
# The package compares the answers of these tasks as numbers, and those of the others as text.
AS_NUMBERS = ("sums_2", "sums_3", "sums_4", "products_2")


def entries(task: str, count: int = 300) -> list[dict[str, object]]:
    made = TASKS[task]
    return list(package.create_dataset(made.data_set, seed=1, size=count, **made.parameters))


def mutations(answer: str) -> list[str]:
    """Texts near an answer: other numbers, other spellings of the number, and no numbers."""
    number = int(answer)
    others = [number + 1, number - 1, -number, 10 * number, number // 10]
    spellings = [f"+{answer}", f"0{answer}", f"{answer}.0", f"{answer}.00", f"{number:,}"]
    spellings += [f"{answer}e0", f"{answer[:1]},{answer[1:]}", f"--{answer}", f"{answer}."]
    spellings += [f" {answer}", f"{answer} ", f"{answer}\n"]
    texts = ["", " ", "x", f"{answer} {answer}", f"= {answer}", f"{answer} apples", f"({answer})"]
    texts += [f"{answer} + 0", f"{answer}!", "nan", "inf", "None"]
    return list(map(str, others)) + spellings + texts


@pytest.mark.parametrize("task", TASKS)
def test_every_answer_of_the_package_is_the_one_that_we_compute(task: str) -> None:
    assert len(distinct_problems(task)) > 4_000


@pytest.mark.parametrize("task", TASKS)
def test_its_own_answers_are_correct(task: str) -> None:
    scorer = package.get_score_answer_fn(TASKS[task].data_set)
    for entry in entries(task):
        answer = entry["answer"]
        assert scorer(answer=answer, entry=entry) == 1
        assert is_correct([answer], [answer], "exact", extract=PLACES) == [True]


@pytest.mark.parametrize("task", TASKS)
def test_a_response_is_correct_where_the_package_scores_1(task: str) -> None:
    """Of the spellings of a number, only decimal digits with the sign of a negative one count.

    The package also accepts `+046`, `46.0` and `4,6` for the sum 46.
    Spaces around the response and a period at its end are no part of the answer.
    """
    scorer = package.get_score_answer_fn(TASKS[task].data_set)
    counted = {"both": 0, "package only": 0, "neither": 0}
    for entry in entries(task):
        answer = str(entry["answer"])
        for text in mutations(answer) + [answer]:
            ours = is_correct([text], [answer], "exact", extract=PLACES)[0]
            read = text.strip().removesuffix(".")
            theirs = scorer(answer=read, entry=entry) == 1
            if ours:
                assert theirs, text
                counted["both"] += 1
            elif theirs:
                assert task in AS_NUMBERS, text
                assert float(read.replace(",", "")) == int(answer)
                assert read != answer
                counted["package only"] += 1
            else:
                counted["neither"] += 1
    assert min(counted["both"], counted["neither"]) > 0
    assert (counted["package only"] > 0) == (task in AS_NUMBERS)


def test_seeds_of_the_package_do_not_separate_problems() -> None:
    """Why splits follow from a hash."""
    first, second = (
        {one["question"] for one in package.create_dataset("gcd", seed=seed, size=1000)}
        for seed in (0, 1)
    )
    assert len(first & second) > 900
