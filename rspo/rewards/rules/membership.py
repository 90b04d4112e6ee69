r"""Decides whether two sets of real numbers with constant ends have the same members.

They do if they agree at every end of either set, between neighbouring ends, and beyond the
outermost ends. The comparison therefore needs no normal form: `(0, 1] \cup (1, 2)` is `(0, 2)`, and
`1 < |x| < 3` is `(-3, -1) \cup (1, 3)`.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import mpmath

from rspo.rewards.rules import answers, relations, values
from rspo.rewards.rules.answers import (
    INEQUALITIES,
    INFINITY,
    MINUS_INFINITY,
    REVERSED,
    Answer,
    Collected,
    Formula,
    Interval,
    Listed,
    Ordered,
    Relation,
    Union,
    Without,
)
from rspo.rewards.rules.notation import Tokens

_MOST_ENDS = 60  # largest number of ends of both sets together
_DIGITS = 60  # precision of numbers, in decimal digits
_CLOSE = "1e-40"  # numbers that differ by less are equal
# Usual names of complex numbers. A range of |z| is then a set of values of |z|, not of z.
_COMPLEX = {"z", "w"}
_BOUNDS = INEQUALITIES | {r"\neq"}

Real = Any  # a real number of mpmath, which has no type hints
Has = Callable[[Real], bool]  # whether a set has a number as a member


class _NotASet(Exception):
    """An answer is not a set of real numbers with constant ends."""


def same(gold: Answer, prediction: Answer) -> bool:
    """Whether both are sets of real numbers with constant ends and have the same members."""
    if not (_may_be_set(gold) and _may_be_set(prediction)):
        return False
    with mpmath.workdps(_DIGITS):
        side = _Side()
        other_side = _Side()
        try:
            has = side.membership(gold)
            other_has = other_side.membership(prediction)
        except _NotASet:
            return False
        ends = side.ends + other_side.ends
        # Sets of different unknowns, x > 1 and y > 1, are different answers.
        if len(side.names | other_side.names) > 1 or len(ends) > _MOST_ENDS:
            return False
        return all(has(point) == other_has(point) for point in _points(ends))


def _may_be_set(answer: Answer) -> bool:
    """Whether an answer may be a set of numbers. A list of pairs is a list of points instead."""
    if isinstance(answer, Relation):
        return not _BOUNDS.isdisjoint(answer.signs) or r"\in" in answer.signs
    if isinstance(answer, Listed):
        return any(not isinstance(item, Ordered) and _may_be_set(item) for item in answer.items)
    return isinstance(answer, Interval | Union | Without | Ordered)


def _points(ends: list[Real]) -> Iterator[Real]:
    """Every end, and points between and beyond them."""
    ends = sorted(ends) or [mpmath.mpf(0)]
    yield ends[0] - 1
    yield from ends
    yield ends[-1] + 1
    for low, high in pairwise(ends):
        if not _equal(low, high):
            yield (low + high) / 2


def _equal(number: Real, other: Real) -> bool:
    return bool(number == other or abs(number - other) < mpmath.mpf(_CLOSE))


class _Side:
    """Reads one of the two sets.

    Each method that returns a function returns the test for membership, and raises _NotASet for
    answers that are no sets.

    ends: the finite ends of the set that were read so far.
    names: the unknowns that it names, such as the x of x > 1.
    """

    def __init__(self) -> None:
        self.ends: list[Real] = []
        self.names: set[Tokens] = set()

    def membership(self, answer: Answer) -> Has:
        """The test for membership in a set.

        Raises: _NotASet if the answer is no set of numbers with constant ends.
        """
        interval = answers.as_interval(answer)
        if interval is not None:
            return self._interval(interval)
        if isinstance(answer, Union):
            return _any([self.membership(part) for part in answer.parts])
        if isinstance(answer, Without):
            left_has = self.membership(answer.left)
            right_has = self.membership(answer.right)
            return lambda point: left_has(point) and not right_has(point)
        if isinstance(answer, Relation):
            return self._relation(answer)
        if isinstance(answer, Listed):
            return self._listed(answer)
        items = answer.items if isinstance(answer, Collected) else (answer,)
        return _any([self._point(item) for item in items])

    def _end(self, tokens: Tokens) -> Real:
        """The value of an end, which is collected unless it is infinite."""
        if tokens == INFINITY:
            return mpmath.inf
        if tokens == MINUS_INFINITY:
            return -mpmath.inf
        value = values.constant(tokens)
        end = None if value is None else values.real(value)
        if end is None:
            raise _NotASet
        self.ends.append(end)
        return end

    def _point(self, item: Answer) -> Has:
        """A set with one number."""
        if not isinstance(item, Formula):
            raise _NotASet
        end = self._end(item.tokens)
        return lambda point: _equal(point, end)

    def _interval(self, interval: Interval) -> Has:
        """An interval. One that is empty or contains infinity is a mistake, and no set."""
        left = self._end(interval.left)
        right = self._end(interval.right)
        if mpmath.isinf(left) and not interval.left_open:
            raise _NotASet
        if mpmath.isinf(right) and not interval.right_open:
            raise _NotASet
        empty = left == right and (interval.left_open or interval.right_open)
        if empty or left > right:
            raise _NotASet
        above = _bound(">" if interval.left_open else r"\geq", left)
        below = _bound("<" if interval.right_open else r"\leq", right)
        return lambda point: above(point) and below(point)

    def _listed(self, answer: Listed) -> Has:
        """Sets that are joined by a word or a comma.

        Between intervals, any of them means the union. Between inequalities, the word decides. A
        number beside them is no set: `x > 5 or 7` offers two answers.
        """
        if any(isinstance(item, Formula) for item in answer.items):
            raise _NotASet
        parts = [self.membership(item) for item in answer.items]
        if not all(isinstance(item, Relation) for item in answer.items):
            return self._restricted(answer, parts)
        both = _all(parts)
        if answer.joined_by == "or":
            return _any(parts)
        if answer.joined_by == "and":
            return both
        # A comma means "and", unless no number satisfies both: x < 1, x > 3.
        return both if any(map(both, _points(self.ends))) else _any(parts)

    def _restricted(self, answer: Listed, parts: Sequence[Has]) -> Has:
        r"""Sets, perhaps with x \neq 0, which leaves out a number unless `or` joins it."""
        sets = []
        conditions = []
        for item, part in zip(answer.items, parts, strict=True):
            excludes = isinstance(item, Relation) and item.signs == (r"\neq",)
            if excludes and answer.joined_by != "or":
                conditions.append(part)
            else:
                sets.append(part)
        in_a_set = _any(sets)
        meets_conditions = _all(conditions)
        return lambda point: in_a_set(point) and meets_conditions(point)

    def _relation(self, relation: Relation) -> Has:
        """A relation for one unknown: x < 5, 1 < x <= 3, x in S. It may have |x| in place of x."""
        places = [place for place, tokens in enumerate(relation.members) if _unknown(tokens)]
        if relation.signs == (r"\in",):
            places = places[:1]  # the set after it may look like a name
        if len(places) != 1:
            raise _NotASet
        place = places[0]
        member = relation.members[place]
        name = _unknown(member)
        is_complex = name[0] in _COMPLEX
        self.names.add(member if is_complex else name)
        has = self._related(relation, place)
        if name == member:
            return has
        # The member is |x|: each of its ends is an end of x on both sides of 0.
        self.ends += [mpmath.mpf(0)] + [-end for end in self.ends]
        if is_complex:
            return lambda point: point >= 0 and has(point)
        return lambda point: has(abs(point))

    def _related(self, relation: Relation, place: int) -> Has:
        """The test for the member at this place, by the signs on both sides of it.

        For 1 < x <= 3 and place 1, these are > 1 and <= 3.
        """
        members = relation.members
        signs = relation.signs
        if signs == (r"\in",) and place == 0:
            return self.membership(answers.read(members[1]))
        if not set(signs) <= set(REVERSED):
            raise _NotASet
        if (len(signs), place) not in ((1, 0), (1, 1), (2, 1)):  # x < 5, 5 > x, 1 < x < 5
            raise _NotASet
        bounds = []
        for sign in signs[place:]:
            bounds.append(_bound(sign, self._end(members[place + 1])))
        for sign in signs[:place]:
            bounds.append(_bound(REVERSED[sign], self._end(members[place - 1])))
        return _all(bounds)


def _unknown(tokens: Tokens) -> Tokens:
    """The name in `x` or `|x|`; empty for anything else."""
    bare = tokens[1:-1] if tokens[:1] == tokens[-1:] == ("|",) else tokens
    if bare == INFINITY:
        return ()
    return bare if relations.is_name(bare) and values.constant(bare) is None else ()


def _bound(sign: str, end: Real) -> Has:
    """The numbers that are in this relation to an end, such as > 5."""

    def has(point: Real) -> bool:
        if _equal(point, end):
            return sign in ("=", r"\leq", r"\geq")
        if point < end:
            return sign in (r"\neq", "<", r"\leq")
        return sign in (r"\neq", ">", r"\geq")

    return has


def _all(parts: Sequence[Has]) -> Has:
    return lambda point: all(has(point) for has in parts)


def _any(parts: Sequence[Has]) -> Has:
    return lambda point: any(has(point) for has in parts)
