"""Problems that the package reasoning-gym makes, with answers that this module computes again.

The package (Apache-2.0, the extra `gym`) is imported to make problems only: `rspo prepare` and
`rspo pretrain` do so, while training and scoring read what they wrote. Its scorers are never
called, because some of them evaluate the text of a response.

A task is a data set of the package with fixed parameters, such as sums of two terms. The package's
seeds do not separate problems: two seeds share most of them. So a split consists of the distinct
problems whose hash falls into it, and a sum is the same problem whatever the order of its terms.
The same holds for the factors of a product and the numbers of a divisor or a multiple.

Of a task, at least `DISTINCT_PER_USE` times as many distinct problems must exist as the experiment
uses, so that what a policy learns is the task and not a list of answers.
"""

import hashlib
import json
import math
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from rspo.config.experiment import Experiment
from rspo.config.names import REASONING_GYM, GymTask
from rspo.config.schema import ReasoningGym, Start
from rspo.core.errors import InputError
from rspo.datasets.generated import fraction_of_hash, index_of_hash

DRAWS = 40_000  # problems of a task that are drawn, repetitions included
DISTINCT_PER_USE = 10
# The part of the distinct problems that belongs to each split.
SPLITS = {"start": 0.30, "train": 0.40, "validation": 0.10, "test": 0.20}

_NUMBER = re.compile(r"[0-9]+")
_TERM = re.compile(r"([+-]?) ?([0-9]+)")
_SUM = re.compile(r"State the final answer to the following arithmetic problem: (.+) =")
_EXPRESSION = re.compile(r"[0-9]+( [+-] [0-9]+)*")
_PRODUCT = re.compile(
    r"Solve the following multiplication: ([0-9]+(?: \* [0-9]+)+)\. "
    r"Give only the result as your final answer\."
)
_GCD = re.compile(
    r"Find the Greatest Common Divisor \(GCD\) of these numbers: ([0-9]+(?:, [0-9]+)+)\. "
    r"Give only the GCD as your final answer\."
)
_LCM = re.compile(r"Find the Least Common Multiple \(LCM\) of these numbers: ([0-9]+(?:, [0-9]+)+)")


@dataclass(frozen=True)
class Problem:
    """A problem of a task.

    question: the text of the package.
    answer: an integer in decimal digits.
    identity: a text that two problems share if they are the same one.
    """

    question: str
    answer: str
    identity: str


@dataclass(frozen=True)
class Task:
    """A data set of the package with fixed parameters.

    data_set: its name in the package.
    parameters: its parameters in the package, without the seed and the size.
    solve: takes the text of a question and returns the answer and the problem's identity. It
        raises ValueError for a text of another form.
    """

    data_set: str
    parameters: dict[str, int]
    solve: Callable[[str], tuple[int, str]]


def solve_sum(question: str) -> tuple[int, str]:
    """The value of a sum, and its terms in order of size: `12 - 7 + 30` is `-7 +12 +30`."""
    match = _SUM.fullmatch(question)
    if match is None or not _EXPRESSION.fullmatch(match[1]):
        raise ValueError("not a sum of whole numbers")
    terms = [int(sign + digits) for sign, digits in _TERM.findall(match[1])]
    return sum(terms), " ".join(f"{term:+d}" for term in sorted(terms))


def solve_product(question: str) -> tuple[int, str]:
    """The product of the factors, and the factors in order of size."""
    factors = _sorted_numbers(_PRODUCT.fullmatch(question), "a product of whole numbers")
    return math.prod(factors), " ".join(map(str, factors))


def solve_gcd(question: str) -> tuple[int, str]:
    """The greatest common divisor of the numbers, and the numbers in order of size."""
    match = _GCD.fullmatch(question)
    numbers = _sorted_numbers(match, "a question for a greatest common divisor")
    return math.gcd(*numbers), " ".join(map(str, numbers))


def solve_lcm(question: str) -> tuple[int, str]:
    """The least common multiple of the numbers, and the numbers in order of size."""
    match = _LCM.fullmatch(question)
    numbers = _sorted_numbers(match, "a question for a least common multiple")
    return math.lcm(*numbers), " ".join(map(str, numbers))


def _sorted_numbers(match: re.Match[str] | None, kind: str) -> list[int]:
    """The numbers in the first group of a question that matches its form, in order of size.

    Raises: ValueError if the question does not match, with the kind of question in the message.
    """
    if match is None:
        raise ValueError(f"not {kind}")
    return sorted(int(number) for number in _NUMBER.findall(match[1]))


def _two_digits(terms: int) -> dict[str, int]:
    """Parameters of the package for some whole numbers with two digits each."""
    return {"min_terms": terms, "max_terms": terms, "min_digits": 2, "max_digits": 2}


TASKS: dict[GymTask, Task] = {
    "sums_2": Task("chain_sum", _two_digits(2), solve_sum),
    "sums_3": Task("chain_sum", _two_digits(3), solve_sum),
    "sums_4": Task("chain_sum", _two_digits(4), solve_sum),
    "products_2": Task("products", _two_digits(2), solve_product),
    "gcd": Task("gcd", {}, solve_gcd),
    "lcm": Task("lcm", {"max_value": 200}, solve_lcm),
}


def rows_of(experiment: Experiment, source: ReasoningGym) -> tuple[list[dict[str, Any]], str]:
    """The problems of a data set as rows of the problems table, with the tasks in turn.

    Returns: the rows; and the SHA-256 of their questions and answers, in hex.

    Raises: InputError if the package is missing, has another version or gives a wrong answer; and
        if a task has too few distinct problems.
    """
    by_task = []
    for task in source.tasks:
        require_distinct(experiment, task)
        chosen = problems_of(task, source.split, source.problems, source.answer_share)
        by_task.append([_row(task, source.split, number, one) for number, one in chosen])
    rows = [row for rows in zip(*by_task, strict=True) for row in rows]
    pairs = [(row["prompt"][0]["content"], row["answers"][0]) for row in rows]
    return rows, digest_of(pairs)


def worked_examples(experiment: Experiment, start: Start) -> list[tuple[str, str]]:
    """Pairs of a question and its answer for a supervised start, with the tasks in turn.

    Raises: InputError as `rows_of`.
    """
    by_task = []
    for task in start.tasks:
        require_distinct(experiment, task)
        chosen = problems_of(task, "start", start.problems, start.answer_share)
        by_task.append([(problem.question, problem.answer) for _, problem in chosen])
    return [pair for pairs in zip(*by_task, strict=True) for pair in pairs]


def digest_of(pairs: Sequence[tuple[str, str]]) -> str:
    """SHA-256 of questions and answers in order, in hex: one line of JSON for each pair."""
    digest = hashlib.sha256()
    for question, answer in pairs:
        digest.update(json.dumps([question, answer]).encode() + b"\n")
    return digest.hexdigest()


def _row(task: str, split: str, number: int, problem: Problem) -> dict[str, Any]:
    return {
        "id": f"{task}/{split}/{number}",
        "benchmark": task,
        "prompt": [{"role": "user", "content": problem.question}],
        "answers": [problem.answer],
        "source": f"reasoning-gym/{task}/{split}",
        "revision": REASONING_GYM,
        "row": number,
    }


def problems_of(
    task: GymTask, split: str, count: int, answer_share: float
) -> list[tuple[int, Problem]]:
    """The first problems of a split of a task, in the order of a hash.

    A problem is left out if its answer is that of `answer_share` of the `count` problems already: a
    policy that writes one answer to every question is right for no more of them.

    Returns: pairs of the number of the problem in the split and the problem.

    Raises: InputError if the split has too few such problems.
    """
    most = max(1, math.floor(answer_share * count))
    answers: Counter[str] = Counter()
    chosen: list[tuple[int, Problem]] = []
    for number, problem in enumerate(split_of(task, split)):
        if answers[problem.answer] < most and len(chosen) < count:
            answers[problem.answer] += 1
            chosen.append((number, problem))
    if len(chosen) < count:
        raise InputError(
            f"reasoning_gym: the split {split!r} of the task {task!r} has {len(chosen)} problems "
            f"of which at most {most} share an answer (answer_share = {answer_share}); "
            f"{count} were requested"
        )
    return chosen


def split_of(task: GymTask, split: str) -> list[Problem]:
    """All distinct problems of a split, in the order of a hash of what they ask."""
    names = list(SPLITS)
    fractions = list(SPLITS.values())
    mine = []
    for problem in distinct_problems(task):
        key = f"{task} {problem.identity}"
        if names[index_of_hash("split " + key, fractions)] == split:
            mine.append((fraction_of_hash("order " + key), problem))
    return [problem for _, problem in sorted(mine, key=lambda pair: pair[0])]


def require_distinct(experiment: Experiment, task: GymTask) -> None:
    """Raises: InputError if too few distinct problems of a task exist for all data sets together.

    The supervised start of each model has the same problems, so it counts once.
    """
    used = 0
    for data_set in experiment.data_sets.values():
        source = data_set.reasoning_gym
        if source is not None and task in source.tasks:
            used += source.problems
    starts = [model.start for model in experiment.config.models.values()]
    used += max(
        (one.problems for one in starts if one is not None and task in one.tasks), default=0
    )
    distinct = len(distinct_problems(task))
    if distinct < DISTINCT_PER_USE * used:
        raise InputError(
            f"config/{experiment.scale}.yaml: the data sets and the start use {used} problems of "
            f"the reasoning_gym task {task!r}, of which {distinct} distinct ones exist; allowed: "
            f"at most {distinct // DISTINCT_PER_USE}"
        )


@cache
def distinct_problems(task: GymTask) -> tuple[Problem, ...]:
    """The distinct problems among the first `DRAWS` of a task; of equal ones, the first.

    Raises: InputError as `rows_of`.
    """
    first: dict[str, Problem] = {}
    for question, answer in _drawn(task):
        problem = require_computed(task, question, answer)
        first.setdefault(problem.identity, problem)
    return tuple(first.values())


def require_computed(task: GymTask, question: str, answer: object) -> Problem:
    """The problem that a question asks, if the package's answer is the one that we compute.

    Raises: InputError for another answer, and for a question of another form.
    """
    try:
        value, identity = TASKS[task].solve(question)
    except ValueError as error:
        raise InputError(f"reasoning-gym, task {task!r}: {question!r:.80}: {error}") from None
    if answer != str(value):
        raise InputError(
            f"reasoning-gym, task {task!r}: {question!r:.80} has the answer {answer!r:.40}; "
            f"expected {str(value)!r}"
        )
    return Problem(question, str(value), identity)


def _drawn(task: GymTask) -> Iterator[tuple[str, object]]:
    """Yield questions and answers that the package makes with its seed 0."""
    _require_package()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)  # of cellpylib, which the package imports
        from reasoning_gym import create_dataset

    made = TASKS[task]
    for entry in create_dataset(made.data_set, seed=0, size=DRAWS, **made.parameters):
        yield entry["question"], entry["answer"]


def _require_package() -> None:
    """Raises: InputError unless the package is installed in the version of the extra `gym`."""
    try:
        installed = version("reasoning-gym")
    except PackageNotFoundError:
        installed = "none"
    if installed != REASONING_GYM:
        raise InputError(
            f"reasoning_gym needs the package reasoning-gym {REASONING_GYM}, installed: "
            f"{installed}; `pip install -e '.[gym]'` installs it"
        )
