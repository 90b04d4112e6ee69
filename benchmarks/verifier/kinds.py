"""The kind of an answer: integer, fraction, expression, interval or set, ...

The kind follows from the answer alone, so that a user can find out which kinds a data set has.
"""

import re
from fractions import Fraction

from rspo.rewards.extraction import last_box
from rspo.rewards.rules import numerals, prose, relations, units, values
from rspo.rewards.rules.answers import (
    REVERSED,
    Answer,
    Collected,
    Formula,
    Interval,
    Listed,
    Matrix,
    Ordered,
    Relation,
    Union,
    Without,
    read,
)
from rspo.rewards.rules.notation import Tokens, repaired, spellings

KINDS = (
    "integer",
    "fraction",
    "decimal",
    "other constant",
    "expression",
    "equation",
    "interval or set",
    "list or tuple",
    "matrix",
    "choice",
    "text",
)
_CHOICE = re.compile(r"(?:\\text\{|\$)?\(?[A-J]\)?[}$]?")


def kind_of(answer: str) -> str:
    """The kind of an answer, one of `KINDS`.

    Units, percent signs and the name in `x = 5` do not count. A formula that the rules cannot parse
    is an expression.
    """
    text = (last_box(answer) or answer).strip()
    if _CHOICE.fullmatch(text):
        return "choice"
    stated = prose.formula_in(repaired(text), only=True)
    return _kind(read(spellings(stated)[-1]))  # the last reading keeps commas


def _kind(shape: Answer) -> str:
    if isinstance(shape, Matrix):
        return "matrix"
    if isinstance(shape, Interval | Union | Without | Collected):
        return "interval or set"
    if isinstance(shape, Relation):
        return _kind_of_relation(shape)
    if isinstance(shape, Listed | Ordered):
        items = [item for item in shape.items if isinstance(item, Relation)]
        bounds = any(_kind_of_relation(item) == "interval or set" for item in items)
        return "interval or set" if bounds else "list or tuple"
    assert isinstance(shape, Formula)
    return _kind_of_formula(shape.tokens)


def _kind_of_relation(relation: Relation) -> str:
    signs = set(relation.signs)
    if signs <= {"=", r"\approx"}:
        value = relations.value(relation, relations.is_name)
        if value is None or isinstance(value, Relation):
            return "equation"
        kind = _kind(value)
        return "equation" if kind in ("expression", "text") else kind
    if signs <= REVERSED.keys() | {r"\in"}:
        return "interval or set"
    return "expression"


def _kind_of_formula(tokens: Tokens) -> str:
    tokens, _ = units.split(numerals.in_digits(tokens))
    if any(units.is_word(token) for token in tokens):
        return "text"
    number = numerals.decimal(tokens)
    if number is not None:
        return "decimal" if number.digits else "integer"
    value = values.constant(tokens)
    if isinstance(value, Fraction) and value.denominator > 1:
        return "fraction"
    if value is not None:
        return "other constant"
    return "expression"
