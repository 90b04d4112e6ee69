r"""The verifier `exact`: text comparison and integer arithmetic in this process.

The content of the last \boxed{} must equal the answer, ignoring surrounding spaces. An answer of
the form `4,5,8=37` is a countdown task. It accepts any expression over + - * and parentheses that
uses each of the numbers exactly once and equals the target.
"""

import re
from collections.abc import Sequence

from rspo.rewards.extraction import last_box
from rspo.rewards.verdict import CORRECT, INCORRECT, NO_ANSWER, Verdict

_COUNTDOWN = re.compile(r"([0-9]+(?:,[0-9]+)*)=(-?[0-9]+)")
_TOKEN = re.compile(r"[0-9]+|[-+*()]")
# Characters of a countdown expression. This bounds the parser's recursion.
_LONGEST_EXPRESSION = 100


def verify(responses: Sequence[str], answers: Sequence[tuple[str, ...]]) -> list[Verdict]:
    """Verdicts of `exact`."""
    return [
        _verify_one(response, accepted)
        for response, accepted in zip(responses, answers, strict=True)
    ]


def _verify_one(response: str, accepted: tuple[str, ...]) -> Verdict:
    prediction = last_box(response)
    if prediction is None:
        return Verdict(NO_ANSWER)
    right = any(_accepts(answer.strip(), prediction) for answer in accepted)
    return Verdict(CORRECT if right else INCORRECT)


def _accepts(answer: str, prediction: str) -> bool:
    task = _COUNTDOWN.fullmatch(answer)
    if task is None:
        return prediction == answer
    return solves_countdown(task[1].split(","), int(task[2]), prediction)


def solves_countdown(numbers: Sequence[str], target: int, expression: str) -> bool:
    """Whether an expression uses each number exactly once and equals the target.

    The grammar, in which spaces are ignored:

        sum     = product (("+" | "-") product)*
        product = factor ("*" factor)*
        factor  = "-" factor | number | "(" sum ")"

    Anything else, or more than 100 characters, is not a solution.
    """
    if len(expression) > _LONGEST_EXPRESSION:
        return False
    compact = expression.replace(" ", "")
    tokens = _TOKEN.findall(compact)
    if len("".join(tokens)) != len(compact):
        return False
    # Checked before any arithmetic, so that only the numbers of the task are multiplied.
    if sorted(token for token in tokens if token.isdigit()) != sorted(numbers):
        return False
    try:
        value, rest = _sum(tokens, 0)
    except IndexError:  # the expression ends where a number is expected
        return False
    except _NotAnExpression:
        return False
    return rest == len(tokens) and value == target


class _NotAnExpression(Exception):
    pass


def _sum(tokens: list[str], at: int) -> tuple[int, int]:
    """Value of the longest sum that starts at a token, and the index after it."""
    value, at = _product(tokens, at)
    while at < len(tokens) and tokens[at] in "+-":
        sign = 1 if tokens[at] == "+" else -1
        term, at = _product(tokens, at + 1)
        value += sign * term
    return value, at


def _product(tokens: list[str], at: int) -> tuple[int, int]:
    value, at = _factor(tokens, at)
    while at < len(tokens) and tokens[at] == "*":
        factor, at = _factor(tokens, at + 1)
        value *= factor
    return value, at


def _factor(tokens: list[str], at: int) -> tuple[int, int]:
    token = tokens[at]
    if token == "-":
        value, at = _factor(tokens, at + 1)
        return -value, at
    if token == "(":
        value, at = _sum(tokens, at + 1)
        if tokens[at] != ")":
            raise _NotAnExpression
        return value, at + 1
    if not token.isdigit():
        raise _NotAnExpression
    return int(token), at + 1
