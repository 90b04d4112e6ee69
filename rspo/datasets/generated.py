"""Generates families of problems, and the worked examples that teach a base model.

Five families are for the tiny scale. Two families of word problems are for published models.
`ABOUT` says what each family asks.

The rule of a divide or sequence problem is drawn from a hash of its prompt, so a policy cannot
infer the rule of a held-out prompt: the best policy for Pass@1 always uses the most common rule,
and the best policy for Pass@k uses several. These two families are built to separate the two
objectives; the other three of the tiny scale are ordinary.

A hash of the task determines its split, so no two splits share a task. Prompts are the same task if
they differ only in the order of the factors (`84*7=?`, `7*84=?`), in the order of the numbers
(`4,5,8=37`, `8,5,4=37`), or by a common factor of the equation (`8x+2=66`, `4x+1=33`). Word
problems are the same task if they have the same numbers in other words; the words vary so that
prompts have different lengths.

Two families have a further split, `larger`: the summand of every `linear` problem and the divisor
of every `divide` problem in it is larger than in all other splits of the family.
"""

import hashlib
import itertools
import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rspo.config.names import GENERATOR_REVISION, LARGER, Family
from rspo.core.errors import InputError

# What a problem of each family asks, with an example.
ABOUT: dict[Family, str] = {
    "linear": "8x+2=66 asks for x.",
    "multiply": "84*7=? asks for the product.",
    "countdown": "4,5,8=37 asks for an expression that uses 4, 5 and 8 once each and is 37.",
    "divide": "E11/4=? asks for one of six functions of 11 and 4. A hash of the prompt decides "
    "which one: a policy can only learn how often each is right.",
    "sequence": "G19,22,? asks for one of six continuations. A hash of the prompt decides "
    "which one: a policy can only learn how often each is right.",
    "share": "7 friends share 56 apples equally. How many ... does each one get? The answer is 8.",
    "unknown": "A number times 7, plus 12, is 40. What is the number? The answer is 4.",
}
# How often each of the six rules of a divide or sequence problem decides its answer.
RULE_FRACTIONS = (0.36, 0.24, 0.16, 0.11, 0.08, 0.05)
# How often the worked examples of the base model use each rule. They also use a seventh rule, which
# decides the answer of no problem.
RULES_TAUGHT = (0.16, 0.14, 0.14, 0.12, 0.12, 0.12, 0.20)
SPLIT_FRACTIONS = {"train": 0.72, "validation": 0.10, "test": 0.18}
LETTERS = "ABCDEFGH"  # at the beginning of divide and sequence prompts


def fraction_of_hash(text: str) -> float:
    """A number in [0, 1), computed from a hash of the text, so it is the same on every machine."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") / 2**64


def index_of_hash(text: str, fractions: Sequence[float]) -> int:
    """An index, chosen with these probabilities by a hash of the text."""
    position = fraction_of_hash(text)
    for index, fraction in enumerate(fractions):
        if position < fraction:
            return index
        position -= fraction
    return len(fractions) - 1  # rounding may leave the sum of the fractions below 1


def boxed(answer: object) -> str:
    r"""The final answer of a response, in \boxed{...}."""
    return f"\\boxed{{{answer}}}"


Numbers = tuple[Any, ...]  # what defines a problem of a family, such as a, x and b of a*x + b


@dataclass(frozen=True)
class FamilyOfProblems:
    """The functions that define a family.

    all: yields the numbers of every problem, except those of the split `larger`.
    describe: takes the numbers of a problem and returns its prompt and answer.
    task: takes the numbers and returns a text that two problems share if they are the same task.
    example: takes a random generator and the numbers, and returns a worked example, correct or not,
        for the base model of the tiny scale; None for families in words.
    larger: yields the numbers of the split `larger`; None if the family has no such split.
    """

    all: Callable[[], Iterator[Numbers]]
    describe: Callable[..., tuple[str, str]]
    task: Callable[..., str]
    example: Callable[..., str] | None = None
    larger: Callable[[], Iterator[Numbers]] | None = None


def _linear_all(b: range = range(1, 21)) -> Iterator[Numbers]:
    """Factor, unknown and summand of an equation."""
    yield from itertools.product(range(2, 10), range(2, 13), b)


def _linear(a: int, x: int, b: int) -> tuple[str, str]:
    return f"{a}x+{b}={a * x + b}", str(x)


def _linear_task(a: int, x: int, b: int) -> str:
    common = math.gcd(a, b)  # divides the total, too
    return _linear(a // common, x, b // common)[0]


def _linear_larger() -> Iterator[Numbers]:
    """Equations with larger summands, except those that a common factor makes smaller."""
    for a, x, b in _linear_all(range(21, 30)):
        if math.gcd(a, b) == 1:
            yield a, x, b


def _linear_example(draw: random.Random, a: int, x: int, b: int) -> str:
    """A solution with its steps, only the answer, or one of two mistakes."""
    total = a * x + b
    kind = draw.random()
    if kind < 0.25:
        return f"{total}-{b}={a * x}/{a}=" + boxed(x)
    if kind < 0.45:
        return boxed(x)
    if kind < 0.70:  # sign error; rounded up, so that it is never right by accident
        return f"{total}+{b}={total + b}/{a}=" + boxed(-(-(total + b) // a))
    return f"{total}/{a}=" + boxed(-(-total // a))  # forgets b


def _multiply_all() -> Iterator[Numbers]:
    """The two factors, and whether the prompt has them in the other order."""
    yield from itertools.product(range(12, 100), range(3, 10), (False, True))


def _multiply(a: int, b: int, swapped: bool) -> tuple[str, str]:
    prompt = f"{b}*{a}=?" if swapped else f"{a}*{b}=?"
    return prompt, str(a * b)


def _multiply_example(draw: random.Random, a: int, b: int, swapped: bool) -> str:
    """A solution with its steps, only the answer, or a mistake."""
    tens = a // 10 * b
    ones = a % 10 * b
    kind = draw.random()
    if kind < 0.25:
        return f"{tens * 10}+{ones}=" + boxed(a * b)
    if kind < 0.70:
        return boxed(a * b)
    return f"{tens}+{ones}=" + boxed(tens + ones)  # place-value error


# Expressions of three numbers, as text and as a function. A target is the value of one of them, so
# every problem has a solution.
COUNTDOWN_TEMPLATES: tuple[tuple[str, Callable[[int, int, int], int]], ...] = (
    ("{a}+{b}+{c}", lambda a, b, c: a + b + c),
    ("{a}+{b}-{c}", lambda a, b, c: a + b - c),
    ("{a}-{b}+{c}", lambda a, b, c: a - b + c),
    ("{a}*{b}+{c}", lambda a, b, c: a * b + c),
    ("{a}*{b}-{c}", lambda a, b, c: a * b - c),
    ("{a}*{c}+{b}", lambda a, b, c: a * c + b),
    ("{a}*{c}-{b}", lambda a, b, c: a * c - b),
    ("{b}*{c}+{a}", lambda a, b, c: b * c + a),
    ("{b}*{c}-{a}", lambda a, b, c: b * c - a),
    ("({a}+{b})*{c}", lambda a, b, c: (a + b) * c),
)


def _countdown_all() -> Iterator[Numbers]:
    """Three numbers and a target that some template reaches."""
    for digits in itertools.product(range(2, 10), repeat=3):
        targets = {value(*digits) for _, value in COUNTDOWN_TEMPLATES}
        for target in sorted(targets):
            if target > 0:
                yield digits + (target,)


def _countdown(a: int, b: int, c: int, target: int) -> tuple[str, str]:
    prompt = f"{a},{b},{c}={target}"
    return prompt, prompt  # the prompt is the answer, with which the verifier checks any expression


def _countdown_example(draw: random.Random, a: int, b: int, c: int, target: int) -> str:
    """In half of the examples, an expression that reaches the target; in the rest, any expression.

    An expression is a template with the three numbers.
    """
    templates = COUNTDOWN_TEMPLATES
    if draw.random() < 0.5:
        templates = tuple(
            (text, value) for text, value in COUNTDOWN_TEMPLATES if value(a, b, c) == target
        )
    template, _ = draw.choice(templates)
    return boxed(template.format(a=a, b=b, c=c))


def _hidden_rule(
    all: Callable[[], Iterator[Numbers]],
    prompt: str,
    rules: Callable[[int, int], list[tuple[str, int]]],
    larger: Callable[[], Iterator[Numbers]] | None = None,
) -> FamilyOfProblems:
    """Make a family whose answers follow from a rule that a hash of the prompt chooses.

    Its numbers are a letter, which only changes the hash, and two integers a and b.

    Args:
        all, larger: as in `FamilyOfProblems`.
        prompt: text with {letter}, {a} and {b}.
        rules: takes a and b, and returns the six rules, most common first (`RULE_FRACTIONS`), as
            pairs of an expression and its value. A seventh rule, which no problem follows, is the
            one that the base model is taught most often (`RULES_TAUGHT`).
    """

    def task(letter: str, a: int, b: int) -> str:
        return prompt.format(letter=letter, a=a, b=b)

    def describe(letter: str, a: int, b: int) -> tuple[str, str]:
        text = task(letter, a, b)
        _, value = rules(a, b)[index_of_hash("rule " + text, RULE_FRACTIONS)]
        return text, str(value)

    def example(draw: random.Random, letter: str, a: int, b: int) -> str:
        expression, value = draw.choices(rules(a, b), weights=RULES_TAUGHT)[0]
        return boxed(value) if draw.random() < 0.4 else f"{expression}=" + boxed(value)

    return FamilyOfProblems(all, describe, task, example, larger)


def _divide_all(divisors: range = range(3, 10)) -> Iterator[Numbers]:
    """A letter, a dividend and a divisor that does not divide it, so that the rules differ."""
    for letter, a, b in itertools.product(LETTERS, range(10, 70), divisors):
        if a > b and a % b:
            yield letter, a, b


def _divide_rules(a: int, b: int) -> list[tuple[str, int]]:
    """The rules of `divide` as expressions with their values, see `_hidden_rule`."""
    rest = a % b
    return [
        (f"{a}/{b}", a // b),
        (f"{a}/{b}+1", a // b + 1),
        (f"{a}%{b}", rest),
        (f"{b}-{a}%{b}", b - rest),
        (f"{a}-{b}", a - b),
        (f"{a}+{b}", a + b),
        (f"{b}", b),
    ]


def _sequence_all() -> Iterator[Numbers]:
    """A letter and the first two numbers of an increasing sequence."""
    for letter, a in itertools.product(LETTERS, range(2, 21)):
        for b in range(a + 2, 26):
            yield letter, a, b


def _sequence_rules(a: int, b: int) -> list[tuple[str, int]]:
    """The rules of `sequence` as expressions with their values, see `_hidden_rule`."""
    return [
        (f"2*{b}-{a}", 2 * b - a),
        (f"{a}+{b}", a + b),
        (f"2*{b}", 2 * b),
        (f"{b}+1", b + 1),
        (f"{a}", a),
        (f"{b}-1", b - 1),
        (f"{b}-{a}", b - a),
    ]


_SHARED = (
    "Share {total} {things} equally among {people} {who}. How many {things} does each of them get?",
    "{people} {who} share {total} {things} equally. How many {things} does each one get?",
    "There are {total} {things} for {people} {who}. If all get the same number, what is it?",
)
_THINGS = ("apples", "books", "marbles", "postage stamps")
_WHO = ("children", "friends", "school classes")
_UNKNOWN = (
    "A number times {a}, plus {b}, is {total}. What is the number?",
    "I multiply my number by {a} and add {b}. The result is {total}. What is my number?",
    "{a} tickets and a map for {b} dollars cost {total} dollars together. How many dollars does "
    "one ticket cost?",
)


def _share_all() -> Iterator[Numbers]:
    """Number of people, number of things for each, and the indices of a sentence and its words."""
    words = (range(len(choices)) for choices in (_SHARED, _THINGS, _WHO))
    yield from itertools.product(range(2, 13), range(2, 31), *words)


def _share(people: int, each: int, sentence: int, things: int, who: int) -> tuple[str, str]:
    prompt = _SHARED[sentence].format(
        total=people * each, people=people, things=_THINGS[things], who=_WHO[who]
    )
    return prompt, str(each)


def _unknown_all() -> Iterator[Numbers]:
    """Factor, unknown, summand, and the index of the sentence."""
    yield from itertools.product(range(2, 10), range(2, 13), range(1, 21), range(len(_UNKNOWN)))


def _unknown(a: int, x: int, b: int, sentence: int) -> tuple[str, str]:
    return _UNKNOWN[sentence].format(a=a, b=b, total=a * x + b), str(x)


def _unknown_task(a: int, x: int, b: int, sentence: int) -> str:
    common = math.gcd(a, b)  # divides the total, too
    return f"{a // common} times {x} plus {b // common}"


FAMILIES = {
    "linear": FamilyOfProblems(
        _linear_all, _linear, _linear_task, _linear_example, larger=_linear_larger
    ),
    "multiply": FamilyOfProblems(
        _multiply_all, _multiply, lambda a, b, swapped: f"{a}*{b}=?", _multiply_example
    ),
    "countdown": FamilyOfProblems(
        _countdown_all,
        _countdown,
        lambda a, b, c, target: "{},{},{}={}".format(*sorted((a, b, c)), target),
        _countdown_example,
    ),
    "divide": _hidden_rule(
        _divide_all, "{letter}{a}/{b}=?", _divide_rules, lambda: _divide_all(range(10, 16))
    ),
    "sequence": _hidden_rule(_sequence_all, "{letter}{a},{b},?", _sequence_rules),
    "share": FamilyOfProblems(
        _share_all, _share, lambda people, each, *words: f"{people * each} shared among {people}"
    ),
    "unknown": FamilyOfProblems(_unknown_all, _unknown, _unknown_task),
}
# The families of the tiny scale, which have worked examples.
TAUGHT = [name for name, family in FAMILIES.items() if family.example is not None]


def numbers_of(family: str, split: str) -> list[Numbers]:
    """The numbers of each problem in a split of a family, in a fixed random order.

    The test split and the split `larger` have only one prompt of each task, because standard errors
    assume that problems are independent. The same holds for the validation split of word problems.

    Raises: InputError for the split `larger` of a family that has none.
    """
    problems = FAMILIES[family]
    if split == LARGER:
        if problems.larger is None:
            raise InputError(f"the generated family {family!r} has no split {LARGER!r}")
        chosen = list(problems.larger())
    else:
        splits = list(SPLIT_FRACTIONS)
        fractions = list(SPLIT_FRACTIONS.values())
        chosen = []
        for numbers in problems.all():
            task = problems.task(*numbers)
            if splits[index_of_hash("split " + task, fractions)] == split:
                chosen.append(numbers)
    chosen.sort(key=lambda numbers: fraction_of_hash("order " + problems.describe(*numbers)[0]))
    if split == "train" or (split == "validation" and problems.example is not None):
        return chosen
    first_of_task: dict[str, Numbers] = {}
    for numbers in chosen:
        first_of_task.setdefault(problems.task(*numbers), numbers)
    return list(first_of_task.values())


def generate(family: str, split: str, problems: int) -> list[dict[str, Any]]:
    """Rows of the problems table: the first `problems` problems of a family's split.

    Raises: InputError if the split has fewer problems.
    """
    chosen = numbers_of(family, split)
    if problems > len(chosen):
        raise InputError(
            f"the {split} split of the generated family {family!r} has {len(chosen)} problems; "
            f"{problems} were requested"
        )
    rows = []
    for row, numbers in enumerate(chosen[:problems]):
        prompt, answer = FAMILIES[family].describe(*numbers)
        rows.append(
            {
                "id": f"{family}/{split}/{row}",
                "benchmark": family,
                "prompt": [{"role": "user", "content": prompt}],
                "answers": [answer],
                "source": f"generated/{family}/{split}",
                "revision": str(GENERATOR_REVISION),
                "row": row,
            }
        )
    return rows


def worked_examples(count: int, seed: int) -> list[tuple[str, str]]:
    """Draw worked examples of the training split, for a base model.

    Returns: pairs of a prompt and a response. The families take turns.
    """
    draw = random.Random(seed)
    pools = {family: numbers_of(family, "train") for family in TAUGHT}
    examples = []
    for family in itertools.islice(itertools.cycle(TAUGHT), count):
        numbers = draw.choice(pools[family])
        prompt, _ = FAMILIES[family].describe(*numbers)
        example = FAMILIES[family].example
        assert example is not None  # by the definition of TAUGHT
        examples.append((prompt, example(draw, *numbers)))
    return examples
