"""Reads labels of values: `maximum: 2, minimum: 1`, `A: 1, B: 2`, `(1) 5; (2) 7`.

A label becomes the name in an equation, `maximum = 2`. Words that change the value are no label. An
introduction, such as `the solutions are` before `1 and 2`, is removed.
"""

from itertools import pairwise

from rspo.rewards.rules import units
from rspo.rewards.rules.notation import TEXT, Tokens

_ENDS = {":", TEXT + "is", "is"}  # tokens after a label
_ENDS_OF_ITEMS = _ENDS | {"="}  # tokens after the label of an item of a list
_ARE = {"are", TEXT + "are"}  # tokens after an introduction
_SOLUTIONS = {"roots", "zeros", "zeroes"}  # not the root or the zero of `has_meaning`
# Tokens of a label, and the word that stands for them in the name.
_SAME = {r"\max": "maximum", r"\min": "minimum", "max": "maximum", "min": "minimum"}
_LEFT_OUT = {"the", "value"}  # words of a label that are not part of the name
_ROMAN = ("i", "ii", "iii", "iv", "v", "vi")
# After (1), these begin no value: (1) + 5 is a sum.
_OPERATORS = {"+", "-", "*", "/", "^", "=", "!", ":", ","}


def as_equation(tokens: Tokens, ends: set[str] = _ENDS) -> Tokens:
    """Write a label and a value as an equation; any other tokens stay as they are.

    Args:
        ends: tokens that may end a label. The first of them in `tokens` does.
    """
    end = _first_place(tokens, ends)
    if end is None:
        return tokens
    words = tuple(token for token in tokens[:end] if token not in _SAME)
    if end == 0 or not all(map(units.is_word, words)) or _have_meaning(words):
        return tokens
    return _name(tokens[:end]) + ("=",) + tokens[end + 1 :]


def equations_of(items: list[Tokens]) -> list[Tokens]:
    """The items of a list without its introduction, as equations if every item has a label."""
    items = [_without_introduction(items[0])] + items[1:]
    equations = []
    for place, item in enumerate(items):
        equation = _labelled_item(item, place)
        if equation is None:
            return items
        equations.append(equation)
    return equations


def parts(tokens: Tokens) -> list[Tokens]:
    """The items of `(1) 5 (2) 7` or `(a) 5 (b) 7`, with their labels.

    Returns: an empty list for other tokens.
    """
    starts: list[int] = []
    for place in range(len(tokens)):
        if tokens[place : place + 3] in _part_labels(len(starts)):
            starts.append(place)
    if len(starts) < 2 or starts[0] > 0:
        return []
    borders = starts + [len(tokens)]
    items = [tokens[start:end] for start, end in pairwise(borders)]
    return items if all(_labelled_item(item, i) for i, item in enumerate(items)) else []


def _part_labels(place: int) -> list[Tokens]:
    """The possible labels of the part with this index: (1), (a) and (i) for index 0.

    The name may be a token of a formula or of running text.
    """
    names = [str(place + 1), chr(ord("a") + place)]
    names.append(_ROMAN[place] if place < len(_ROMAN) else "")
    labels: list[Tokens] = []
    for name in names:
        labels.append(("(", name, ")"))
        labels.append(("(", TEXT + name, ")"))
    return labels


def _labelled_item(item: Tokens, place: int) -> Tokens | None:
    """The item with this index as an equation; None if it has no label.

    A label is words, as in `maximum: 2`; one letter and a colon; or the number of a part.
    """
    equation = as_equation(item, _ENDS_OF_ITEMS)
    if equation != item:
        return equation
    if item[1:2] == (":",) and len(item) > 2 and len(item[0]) == 1 and item[0].isalpha():
        return item[:1] + ("=",) + item[2:]
    if item[:3] in _part_labels(place) and item[3:4] and item[3] not in _OPERATORS:
        return (f"{TEXT}part{place + 1}", "=") + item[3:]
    return None


def _without_introduction(item: Tokens) -> Tokens:
    """Remove an introduction such as `the solutions are`."""
    end = _first_place(item, _ARE)
    if end is None:
        return item
    words = item[:end]
    qualifying = tuple(word for word in words if word.removeprefix(TEXT).lower() not in _SOLUTIONS)
    if not any(map(units.is_word, words)) or _have_meaning(qualifying):
        return item
    return item[end + 1 :] if all(word.lstrip(TEXT).isalpha() for word in words) else item


def _first_place(tokens: Tokens, wanted: set[str]) -> int | None:
    """The index of the first of the wanted tokens; None if there is none."""
    for place, token in enumerate(tokens):
        if token in wanted:
            return place
    return None


def _have_meaning(words: Tokens) -> bool:
    return any(units.has_meaning(word.removeprefix(TEXT)) for word in words)


def _name(words: Tokens) -> Tokens:
    """The words of a label as the name of an equation: `the Max value` becomes `maximum`."""
    names = [word.removeprefix(TEXT).lower() for word in words]
    return tuple(TEXT + _SAME.get(name, name) for name in names if name not in _LEFT_OUT)
