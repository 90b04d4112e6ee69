"""Two families of problems in words, for published models.

| family  | prompt                                                           | answer |
|---------|------------------------------------------------------------------|--------|
| share   | `7 friends share 56 apples equally. How many ... does each get?` | 8      |
| unknown | `A number times 7, plus 12, is 40. What is the number?`          | 4      |

The words vary, so prompts have different lengths. The numbers alone are the task: prompts with the
same numbers in other words are in one split. As in `8x+2=66`, a common factor of the numbers of
`unknown` does not make another task.
"""

import itertools
import math
from collections.abc import Iterator

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


def share_all() -> Iterator[tuple[int, ...]]:
    """Number of people, number of things each, and the numbers of three choices of words."""
    words = (range(len(choices)) for choices in (_SHARED, _THINGS, _WHO))
    yield from itertools.product(range(2, 13), range(2, 31), *words)


def share(people: int, each: int, sentence: int, things: int, who: int) -> tuple[str, str]:
    """Prompt and answer."""
    prompt = _SHARED[sentence].format(
        total=people * each, people=people, things=_THINGS[things], who=_WHO[who]
    )
    return prompt, str(each)


def share_task(people: int, each: int, *words: int) -> str:
    return f"{people * each} shared among {people}"


def unknown_all() -> Iterator[tuple[int, ...]]:
    """Factor, unknown, summand, and the number of the sentence."""
    yield from itertools.product(range(2, 10), range(2, 13), range(1, 21), range(len(_UNKNOWN)))


def unknown(a: int, x: int, b: int, sentence: int) -> tuple[str, str]:
    """Prompt and answer."""
    return _UNKNOWN[sentence].format(a=a, b=b, total=a * x + b), str(x)


def unknown_task(a: int, x: int, b: int, sentence: int) -> str:
    common = math.gcd(a, b)  # divides the total, too
    return f"{a // common} times {x} plus {b // common}"
