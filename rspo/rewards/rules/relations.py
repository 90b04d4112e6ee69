r"""Reads equations: what is a name, and which value an equation gives to it."""

from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise

from rspo.rewards.rules import answers, units, values
from rspo.rewards.rules.answers import Answer, Formula, Relation
from rspo.rewards.rules.expressions import TooDeep, Unreadable, read
from rspo.rewards.rules.notation import TEXT, Tokens
from rspo.rewards.rules.numerals import decimal

STATING = {"=", r"\in", r"\approx"}  # signs after which a value is stated
# Signs that a name may contain in addition to letters: f(x), x_{1}, y', |AB|.
_NAME_SIGNS = {"(", ")", ",", "{", "}", "'", "_", "|"}
_OPERATORS = {r"\int", r"\sum", r"\prod", r"\lim", r"\iint", r"\oint"}  # see `is_quantity`
# An equation for such a function of a name, as \sqrt{x} = 3, does not give the value of the name.
_NOT_IN_NAMES = {r"\sqrt", r"\frac", r"\binom", r"\ln", r"\log", r"\lg", r"\exp", r"\pm", r"\mp"}


def is_name(tokens: Tokens) -> bool:
    """Whether the tokens are one symbol or a ratio of two: x, x_1, f(x), (x, y), |AB|, S_1:S_2."""
    if tokens[1:7] == ("^", "{", "-", "1", "}", "("):  # f^{-1}(x), read as f(x)
        tokens = tokens[:1] + tokens[6:]
    if tokens[:1] == (r"\frac",):
        return _are_names(_arguments(tokens[1:]))
    return _are_names(answers.split(tokens, (":", "/")))


def _are_names(parts: list[Tokens]) -> bool:
    """Whether all parts are names, and all are different."""
    return len(set(parts)) == len(parts) and all(map(_is_one_name, parts))


def _is_one_name(tokens: Tokens) -> bool:
    """Whether the tokens are one symbol, which may have an index, an argument or bars."""
    plain = [token for token in tokens if token not in _NAME_SIGNS]
    names = [token for token in plain if not token.isdigit()]
    if any(units.changes_value(name.removeprefix(TEXT)) for name in names):
        return False
    if not names or tokens[0][0].isdigit() or not _NOT_IN_NAMES.isdisjoint(names):
        return False
    # AB in capitals is a segment, and \vec a vector: between bars, they denote a length.
    length = any(name.isupper() and len(name) > 1 for name in names) or r"\vec" in names
    if "|" in tokens and not length:
        return False  # |x| = 7 does not determine the sign of x; a length |AB| is positive
    if not all(token.isalpha() or token.startswith(("\\", TEXT)) for token in names):
        return False
    return "_" in tokens or "(" in tokens or len(plain) == len(names)


def is_quantity(tokens: Tokens) -> bool:
    """Whether these tokens denote a quantity, so that a response may give only its value.

    A quantity is a name, an integral, a sum, a product, a limit or a probability.
    """
    probability = tokens[:1] == ("P",) and answers.enclosed(tokens[1:])
    return is_name(tokens) or probability or tokens[0] in _OPERATORS


def is_label(tokens: Tokens) -> bool:
    """Whether a response may write these tokens before a value: a name, or a sum of names."""
    parts = answers.split(tokens, ("+", "-"))
    return is_name(tokens) or (len(parts) > 1 and _are_names(parts))


def _arguments(tokens: Tokens) -> list[Tokens]:
    """The contents of the groups in braces that make up the tokens."""
    ends = [-1]
    depth = 0
    for index, token in enumerate(tokens):
        depth += (token == "{") - (token == "}")
        if depth == 0:
            ends.append(index)
    # A group starts after the end of the previous group, and its content after its brace.
    return [tokens[before + 2 : end] for before, end in pairwise(ends)]


def value(relation: Relation, may_be_named: Callable[[Tokens], bool]) -> Answer | None:
    """The value that an equation gives to a name: 5 for x = 5, and for x = 2 + 3 = 5.

    Args:
        may_be_named: whether tokens may be the name, `is_quantity` or `is_label`.

    Returns: None if the equation does not give a value.
    """
    first = relation.members[0]
    last = stated(relation)
    if last is None:
        return None
    if any(map(may_be_named, relation.members[:-1])) or _equal(first, last):
        return answers.read(last)
    if relation.signs == (r"\approx",) and _close(first, last):  # 1/3 ~ 0.33 states 1/3
        return answers.read(first)
    return None


def stated(relation: Relation) -> Tokens | None:
    r"""The last member of an equation, or the set after `x \in`; None for anything else.

    A formula after \in must be a set such as \mathbb{R}.
    """
    last = relation.members[-1]
    if not set(relation.signs) <= STATING:
        return None
    if r"\in" in relation.signs and isinstance(answers.read(last), Formula):
        return last if r"\mathbb" in last else None
    return last


def names_two_values(relation: Relation) -> bool:
    """Whether an equation gives two different numbers, as x = 8 = 7 does.

    An intermediate calculation such as 3 + 4 does not count, even if it is wrong.
    """
    last = relation.members[-1]
    if relation.signs[-1:] != ("=",):
        return False
    for member in relation.members[:-1]:
        if decimal(member) is not None and _is_constant(last) and not _equal(member, last):
            return True
    return False


def _is_constant(tokens: Tokens) -> bool:
    """Whether the tokens are a formula without variables."""
    try:
        return not values.symbols(read(tokens))
    except (Unreadable, TooDeep):
        return False


def _equal(tokens: Tokens, other_tokens: Tokens) -> bool:
    """Whether two formulas without variables have the same value."""
    if not (_is_constant(tokens) and _is_constant(other_tokens)):
        return False
    return values.same(read(tokens), read(other_tokens))


def _close(exact: Tokens, rounded: Tokens) -> bool:
    """Whether a decimal is within 5 % of the exact value that it approximates."""
    value = values.constant(exact)
    centre = values.constant(rounded)
    if value is None or not isinstance(centre, Fraction):
        return False
    return values.within(value, centre, abs(centre) / 20)
