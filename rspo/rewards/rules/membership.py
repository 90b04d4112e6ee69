r"""Whether two sets of real numbers with constant ends have the same members.

They do if they agree at every end, between neighbouring ends and beyond the outermost ones. So the
comparison needs no normal form: `(0, 1] \cup (1, 2)` is `(0, 2)`, and `1 < |x| < 3` is
`(-3, -1) \cup (1, 3)`.
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

_MOST_ENDS = 60
_DIGITS = 60
_CLOSE = "1e-40"  # numbers that are closer are equal
_COMPLEX = {"z", "w"}  # usual names of complex numbers: for them, a range of |z| has no real ends
_BOUNDS = INEQUALITIES | {r"\neq"}

Real = Any  # a real number of mpmath
Has = Callable[[Real], bool]


class _NotASet(Exception):
    """Not a set of real numbers with constant ends."""


def same(one: Answer, other: Answer) -> bool:
    """Whether both are sets of real numbers with constant ends and have the same members."""
    if not (_may_be_set(one) and _may_be_set(other)):
        return False
    with mpmath.workdps(_DIGITS):
        sides = _Side(), _Side()
        try:
            left, right = (side.has(read) for side, read in zip(sides, (one, other), strict=True))
        except _NotASet:
            return False
        ends = sides[0].ends + sides[1].ends
        if len(sides[0].names | sides[1].names) > 1 or len(ends) > _MOST_ENDS:
            return False
        return all(left(point) == right(point) for point in _points(ends))


def _may_be_set(answer: Answer) -> bool:
    """A list of pairs is a list of points, although each of them could be an interval."""
    if isinstance(answer, Relation):
        return not _BOUNDS.isdisjoint(answer.signs) or r"\in" in answer.signs
    if isinstance(answer, Listed):
        return any(not isinstance(item, Ordered) and _may_be_set(item) for item in answer.items)
    return isinstance(answer, Interval | Union | Without | Ordered)


def _points(ends: list[Real]) -> Iterator[Real]:
    """Every end, and points between and beyond them."""
    ends = sorted(ends) or [mpmath.mpf(0)]
    yield from (ends[0] - 1, *ends, ends[-1] + 1)
    yield from ((low + high) / 2 for low, high in pairwise(ends) if not _equal(low, high))


def _equal(one: Real, other: Real) -> bool:
    return bool(one == other or abs(one - other) < mpmath.mpf(_CLOSE))


class _Side:
    """Reads one set; collects its ends and the unknowns that it names."""

    def __init__(self) -> None:
        self.ends: list[Real] = []
        self.names: set[Tokens] = set()

    def has(self, answer: Answer) -> Has:
        """The test for membership. Raises: _NotASet."""
        if (interval := answers.as_interval(answer)) is not None:
            return self._interval(interval)
        if isinstance(answer, Union):
            return _any([self.has(part) for part in answer.parts])
        if isinstance(answer, Without):
            left_has, right_has = self.has(answer.left), self.has(answer.right)
            return lambda point: left_has(point) and not right_has(point)
        if isinstance(answer, Relation):
            return self._relation(answer)
        if isinstance(answer, Listed):
            return self._listed(answer)
        items = answer.items if isinstance(answer, Collected) else (answer,)
        return _any([self._point(item) for item in items])

    def _end(self, tokens: Tokens) -> Real:
        if tokens in (INFINITY, MINUS_INFINITY):
            return mpmath.inf if tokens == INFINITY else -mpmath.inf
        value = values.constant(tokens)
        if value is None or (end := values.real(value)) is None:
            raise _NotASet
        self.ends.append(end)
        return end

    def _point(self, item: Answer) -> Has:
        if not isinstance(item, Formula):
            raise _NotASet
        end = self._end(item.tokens)
        return lambda point: _equal(point, end)

    def _interval(self, interval: Interval) -> Has:
        left, right = self._end(interval.left), self._end(interval.right)
        ends = ((left, interval.left_open), (right, interval.right_open))
        at_infinity = any(mpmath.isinf(end) and not is_open for end, is_open in ends)
        if at_infinity or left > right or (left == right and (ends[0][1] or ends[1][1])):
            raise _NotASet
        above = _bound(">" if interval.left_open else r"\geq", left)
        below = _bound("<" if interval.right_open else r"\leq", right)
        return lambda point: above(point) and below(point)

    def _listed(self, answer: Listed) -> Has:
        """Inequalities joined by a word or comma; of intervals, each such joint is a union."""
        parts = [self.has(item) for item in answer.items]
        if not all(isinstance(item, Relation) for item in answer.items):
            return _any(parts)
        both = _all(parts)  # what a comma means, unless no number satisfies it
        alone = answer.joined_by != "and" and not any(map(both, _points(self.ends)))
        return _any(parts) if answer.joined_by == "or" or alone else both

    def _relation(self, relation: Relation) -> Has:
        """x < 5, 1 < x <= 3, x in S, also for |x|."""
        members, signs = relation.members, relation.signs
        places = [place for place, tokens in enumerate(members) if _unknown(tokens)]
        if len(places) != 1:
            raise _NotASet
        place = places[0]
        name = _unknown(members[place])
        modulus, itself = name != members[place], name[0] in _COMPLEX
        self.names.add(members[place] if itself else name)
        if signs == (r"\in",) and place == 0:
            has = self.has(answers.read(members[1]))
        elif set(signs) <= set(REVERSED) and (len(signs), place) in ((1, 0), (1, 1), (2, 1)):
            after = [(sign, members[place + 1]) for sign in signs[place:]]
            before = [(REVERSED[sign], members[place - 1]) for sign in signs[:place]]
            has = _all([_bound(sign, self._end(end)) for sign, end in after + before])
        else:
            raise _NotASet
        if not modulus:
            return has
        self.ends += [mpmath.mpf(0), *(-end for end in self.ends)]
        if itself:
            return lambda point: point >= 0 and has(point)
        return lambda point: has(abs(point))


def _unknown(tokens: Tokens) -> Tokens:
    """The name in `x` or `|x|`; empty for anything else."""
    bare = tokens[1:-1] if tokens[:1] == tokens[-1:] == ("|",) else tokens
    return bare if relations.is_name(bare) and values.constant(bare) is None else ()


def _bound(sign: str, end: Real) -> Has:
    def has(point: Real) -> bool:
        if _equal(point, end):
            return sign in ("=", r"\leq", r"\geq")
        return sign == r"\neq" or sign in (("<", r"\leq") if point < end else (">", r"\geq"))

    return has


def _all(parts: Sequence[Has]) -> Has:
    return lambda point: all(has(point) for has in parts)


def _any(parts: Sequence[Has]) -> Has:
    return lambda point: any(has(point) for has in parts)
