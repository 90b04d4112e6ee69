r"""Sets of numbers in any notation: intervals, inequalities, unions, differences."""

from rspo.rewards.rules import relations
from rspo.rewards.rules.answers import (
    INEQUALITIES,
    INFINITY,
    MINUS_INFINITY,
    Answer,
    Collected,
    Formula,
    Interval,
    Listed,
    Ordered,
    Relation,
    Union,
)
from rspo.rewards.rules.notation import Tokens

REVERSED = {"<": ">", ">": "<", r"\leq": r"\geq", r"\geq": r"\leq", "=": "=", r"\neq": r"\neq"}


def as_set(answer: Answer) -> Answer | None:
    """The solutions of an inequality for one name: x < 5 -> (-infinity, 5)."""
    if not isinstance(answer, Relation):
        return None
    members, signs = answer.members, answer.signs
    if len(members) == 2 and members[0][:1] == members[0][-1:] == ("|",) and len(members[1]) == 1:
        return _around_zero(signs[0], members[0][1:-1], members[1])
    if len(members) == 2 and not relations.is_name(members[0]) and signs[0] in REVERSED:
        members, signs = members[::-1], (REVERSED[signs[0]],)
    if len(members) == 2 and relations.is_name(members[0]):
        return _ray(signs[0], members[1])
    if len(members) == 3 and relations.is_name(members[1]) and set(signs) <= INEQUALITIES:
        if all(sign in (">", r"\geq") for sign in signs):
            members, signs = members[::-1], (REVERSED[signs[1]], REVERSED[signs[0]])
        if all(sign in ("<", r"\leq") for sign in signs):
            return Interval(members[0], members[2], signs[0] == "<", signs[1] == "<")
    return None


def _around_zero(sign: str, name: Tokens, end: Tokens) -> Answer | None:
    """|x| < 5 -> (-5, 5)."""
    other = ("-", *end)
    if not relations.is_name(name) or sign not in INEQUALITIES:
        return None
    if sign in ("<", r"\leq"):
        return Interval(other, end, sign == "<", sign == "<")
    below, above = _ray(REVERSED[sign], other), _ray(sign, end)
    return None if below is None or above is None else Union((below, above))


def _ray(sign: str, end: Tokens) -> Answer | None:
    below = Interval(MINUS_INFINITY, end, True, sign != r"\leq")
    above = Interval(end, INFINITY, sign != r"\geq", True)
    if sign == r"\neq":
        return Union((below, above))
    return {"<": below, r"\leq": below, ">": above, r"\geq": above}.get(sign)


def as_interval(answer: Answer) -> Interval | None:
    if isinstance(answer, Interval):
        return answer
    if isinstance(answer, Ordered) and len(answer.items) == 2:
        left, right = answer.items
        if isinstance(left, Formula) and isinstance(right, Formula):
            return Interval(left.tokens, right.tokens, True, True)
    return None


def pieces_of(answer: Answer) -> list[Answer] | None:
    """The intervals and points that make up a set; None if the answer is not a set of numbers."""
    if isinstance(answer, Interval) or (isinstance(answer, Ordered) and len(answer.items) == 2):
        return [answer]
    if isinstance(answer, Collected):
        return list(answer.items)
    if isinstance(answer, Union):
        result = [pieces_of(part) for part in answer.parts]
        return [piece for pieces in result for piece in pieces or []] if all(result) else None
    if isinstance(answer, Relation):
        return None if (solutions := as_set(answer)) is None else pieces_of(solutions)
    return _joined(answer) if isinstance(answer, Listed) else None


def name_of(answer: Answer) -> Tokens | None:
    """The unknown of an inequality or of x in S."""
    members = answer.members if isinstance(answer, Relation) else ()
    names = [member for member in members if relations.is_name(member)]
    return names[0] if len(names) == 1 else None


def _joined(answer: Listed) -> list[Answer] | None:
    """The pieces of a set given by several relations: x < 1 or x = 2."""
    pieces: list[Answer] = []
    if len({name_of(item) for item in answer.items}) > 1 or answer.joined_by == "and":
        return None
    for item in answer.items:
        if not isinstance(item, Relation):
            return None
        solutions = as_set(item)
        if solutions is not None:
            pieces += pieces_of(solutions) or []
        elif (value := relations.value(item, relations.is_name)) is not None:
            pieces += pieces_of(value) or [value]
        else:
            return None
    return pieces if any(isinstance(piece, Interval) for piece in pieces) else None
