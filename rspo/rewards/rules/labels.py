"""Labels in words: `maximum: 2, minimum: 1`, `A: 1, B: 2`, `(1) 5; (2) 7`, `the roots are 1 and 2`.

A label becomes the name in an equation, `maximum = 2`. Words that change the value are no label.
"""

from itertools import pairwise

from rspo.rewards.rules import units
from rspo.rewards.rules.notation import TEXT, Tokens

_ENDS = {":", TEXT + "is", "is"}
_ARE = ("are", TEXT + "are")
_SAME = {r"\max": "maximum", r"\min": "minimum", "max": "maximum", "min": "minimum"}
_LEFT_OUT = {"the", "value"}
_ROMAN = ("i", "ii", "iii", "iv", "v", "vi")
_OPERATORS = {"+", "-", "*", "/", "^", "=", "!", ":", ","}


def labelled(tokens: Tokens, ends: frozenset[str] = frozenset(_ENDS)) -> Tokens:
    """An equation instead of a label of words and a value; any other tokens as they are."""
    if ends.isdisjoint(tokens):
        return tokens
    end = next(place for place, token in enumerate(tokens) if token in ends)
    words = [token for token in tokens[:end] if token not in _SAME]
    if not end or not all(map(units.is_word, words)) or _have_meaning(words):
        return tokens
    return (*_name(tokens[:end]), "=", *tokens[end + 1 :])


def of_list(items: list[Tokens]) -> list[Tokens]:
    """The items of a list as equations if all have labels, and without an introduction."""
    items = [_without_introduction(items[0]), *items[1:]]
    equations = [_labelled_item(item, place) for place, item in enumerate(items)]
    return items if any(one is None for one in equations) else [one for one in equations if one]


def parts(tokens: Tokens) -> list[Tokens]:
    """The items of `(1) 5 (2) 7` and `(a) 5 (b) 7`, with their labels; none for other tokens."""
    starts: list[int] = []
    for place in range(len(tokens)):
        if tokens[place : place + 3] in _part_labels(len(starts)):
            starts.append(place)
    if len(starts) < 2 or starts[0]:
        return []
    items = [tokens[one:other] for one, other in pairwise([*starts, len(tokens)])]
    return items if all(_labelled_item(item, i) for i, item in enumerate(items)) else []


def _part_labels(place: int) -> tuple[Tokens, ...]:
    names = (str(place + 1), chr(ord("a") + place), _ROMAN[place] if place < len(_ROMAN) else "")
    return tuple(("(", mark + name, ")") for name in names for mark in ("", TEXT))


def _labelled_item(item: Tokens, place: int) -> Tokens | None:
    equation = labelled(item, frozenset({*_ENDS, "="}))
    if equation != item:
        return equation
    if item[1:2] == (":",) and len(item) > 2 and len(item[0]) == 1 and item[0].isalpha():
        return (item[0], "=", *item[2:])
    if item[:3] in _part_labels(place) and item[3:4] and item[3] not in _OPERATORS:
        return (f"{TEXT}part{place + 1}", "=", *item[3:])
    return None


def _without_introduction(item: Tokens) -> Tokens:
    """Without `the roots are`."""
    end = next((place for place, token in enumerate(item) if token in _ARE), 0)
    words = item[:end]
    if not any(map(units.is_word, words)) or _have_meaning([*words]):
        return item
    return item[end + 1 :] if all(word.lstrip(TEXT).isalpha() for word in words) else item


def _have_meaning(words: list[str]) -> bool:
    return any(units.has_meaning(word.removeprefix(TEXT)) for word in words)


def _name(words: Tokens) -> Tokens:
    names = [word.removeprefix(TEXT).lower() for word in words]
    return tuple(TEXT + _SAME.get(name, name) for name in names if name not in _LEFT_OUT)
