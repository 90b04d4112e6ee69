r"""What an equation says: the name on its left, the value on its right."""

from collections.abc import Callable
from fractions import Fraction

from rspo.rewards.mathematics import answers, values
from rspo.rewards.mathematics.answers import Answer, Relation
from rspo.rewards.mathematics.expressions import TooDeep, Unreadable, read
from rspo.rewards.mathematics.notation import TEXT, Tokens

STATING = {"=", r"\in", r"\approx"}
_NAME_SIGNS = {"(", ")", ",", "{", "}", "'", "_", "|", ":", "/"}


def is_name(tokens: Tokens) -> bool:
    r"""One symbol, also with index or argument: x, x_1, f(x), (x, y), |AB|, \angle ABC."""
    plain = [token for token in tokens if token not in _NAME_SIGNS]
    names = [token for token in plain if not token.isdigit()]
    if not names or tokens[0][0].isdigit():
        return False
    length = any(name.isupper() and len(name) > 1 for name in names) or "\\vec" in names
    if "|" in tokens and not length:
        return False  # |x| = 7 leaves the sign of x open; a length |AB| does not
    if not all(token.isalpha() or token.startswith(("\\", TEXT)) for token in names):
        return False
    return "_" in tokens or "(" in tokens or len(plain) == len(names)


def is_label(tokens: Tokens) -> bool:
    """What may stand on the left of a value: anything with a symbol and no number of its own."""
    return is_name(tokens) or (
        "|" not in tokens
        and any(token.isalpha() or token.startswith("\\") for token in tokens)
        and not any(token[0].isdigit() for token in tokens)
    )


def value(relation: Relation, is_label: Callable[[Tokens], bool]) -> Answer | None:
    """What an equation gives a name: 5 for x = 5, and for x = 2 + 3 = 5."""
    if not set(relation.signs) <= STATING:
        return None
    first, last = relation.members[0], relation.members[-1]
    chained = len(relation.members) > 2 and any(map(is_label, relation.members[1:-1]))
    if is_label(first) or chained or _equal(first, last):
        return answers.read(last)
    if relation.signs == (r"\approx",) and _close(first, last):
        return answers.read(first)
    return None


def _equal(one: Tokens, other: Tokens) -> bool:
    """Whether two formulas without variables have the same value."""
    try:
        left, right = read(one), read(other)
    except (Unreadable, TooDeep):
        return False
    return not (values.symbols(left) | values.symbols(right)) and values.same(left, right)


def _close(exact: Tokens, rounded: Tokens) -> bool:
    """Whether a decimal is at all near what it is said to approximate."""
    value, centre = values.constant(exact), values.constant(rounded)
    if value is None or not isinstance(centre, Fraction):
        return False
    return values.within(value, centre, abs(centre) / 20)
