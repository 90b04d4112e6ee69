r"""The verifier `exact`: text comparison and integer arithmetic in this process.

The content of the last \boxed{}, even if that is empty, must equal the answer, ignoring surrounding
spaces. An answer of the form `4,5,8=37` is a countdown task: its numbers are 4, 5 and 8, and its
target is 37. Any expression of + - * and parentheses that uses each number exactly once and equals
the target is then correct.
"""

import ast
import operator
import re
from collections.abc import Callable, Sequence

from rspo.config.names import BOX_ONLY
from rspo.rewards.extraction import text_answer
from rspo.rewards.verdict import CORRECT, INCORRECT, NO_ANSWER, Verdict

_COUNTDOWN = re.compile(r"([0-9]+(?:,[0-9]+)*)=(-?[0-9]+)")  # the numbers and the target
_CHARACTERS = re.compile(r"[-+*()0-9]*")  # an expression without spaces
_LONGEST_EXPRESSION = 100  # characters; this bounds the recursion of `_value`
_OPERATIONS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
}


def verify(
    responses: Sequence[str],
    answers: Sequence[tuple[str, ...]],
    extract: Sequence[str] = BOX_ONLY,
) -> list[Verdict]:
    """The verdict on each response, in order.

    Equal pairs of a response and an answer are verified once, because small policies repeat
    themselves.

    Args:
        answers: the accepted forms of each answer.
        extract: see `rspo.rewards.verify`.
    """
    pairs = list(zip(responses, answers, strict=True))
    verdicts = {}
    for response, accepted in dict.fromkeys(pairs):
        verdicts[response, accepted] = _verdict(text_answer(response, extract), accepted)
    return [verdicts[pair] for pair in pairs]


def _verdict(prediction: str | None, accepted: tuple[str, ...]) -> Verdict:
    if prediction is None:
        return Verdict(NO_ANSWER)
    correct = any(_accepts(answer.strip(), prediction) for answer in accepted)
    return Verdict(CORRECT if correct else INCORRECT)


def _accepts(answer: str, prediction: str) -> bool:
    """Whether a prediction is the answer, or solves the countdown task that the answer states."""
    task = _COUNTDOWN.fullmatch(answer)
    if task is None:
        return prediction == answer
    return solves_countdown(task[1].split(","), int(task[2]), prediction)


def solves_countdown(numbers: Sequence[str], target: int, expression: str) -> bool:
    """Whether an expression uses each number exactly once and equals the target.

    An expression consists of the numbers, the operators + - *, parentheses and spaces, and has at
    most 100 characters. A minus may also be a sign, as in -(1 - 8). The expression is parsed, but
    never executed.
    """
    compact = expression.replace(" ", "")
    if len(expression) > _LONGEST_EXPRESSION or not _CHARACTERS.fullmatch(compact):
        return False
    # Checked before any arithmetic, so that only the numbers of the task are multiplied.
    if sorted(re.findall("[0-9]+", compact)) != sorted(numbers):
        return False
    try:
        # Python cannot parse 04: remove zeros at the beginning of a number.
        decimal = re.sub(r"\b0+(?=[0-9])", "", compact)
        return _value(ast.parse(decimal, mode="eval").body) == target
    except (SyntaxError, _NotAnExpression):
        return False


class _NotAnExpression(Exception):
    """The syntax tree has an operation or operand that a countdown expression may not have."""


def _value(node: ast.expr) -> int:
    """The value of a syntax tree of integers, minus signs and `_OPERATIONS`.

    Raises: _NotAnExpression for any other node.
    """
    match node:
        case ast.Constant(value=int(value)):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATIONS:
            return _OPERATIONS[type(op)](_value(left), _value(right))
    raise _NotAnExpression
