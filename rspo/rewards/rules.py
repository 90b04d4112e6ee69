r"""When two written answers are the same.

`rspo.rewards.notation` settles the spelling and `rspo.rewards.answers` the shape; here shapes are
compared, and `rspo.rewards.quantities` compares the formulas in them. docs/verification.md says
what is accepted. Comparing can take for ever or all memory, so this module is only ever imported
by the worker processes of `rspo.rewards.workers`.
"""

from collections.abc import Callable, Iterator, Sequence
from math import inf, isclose

from rspo.rewards import answers, expressions, prose, quantities, symbolic
from rspo.rewards.answers import (
    INEQUALITIES,
    INFINITY,
    MINUS_INFINITY,
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
)
from rspo.rewards.expressions import Apply, Undefined, Unreadable
from rspo.rewards.extraction import final_answers
from rspo.rewards.notation import TEXT, Tokens, repaired, spellings

_LONGEST_LIST = 200
_SETS = (Interval, Union, Without)
_REVERSED = {"<": ">", ">": "<", r"\leq": r"\geq", r"\geq": r"\leq", "=": "=", r"\neq": r"\neq"}


def equivalent(accepted: Sequence[str], predictions: Sequence[str]) -> bool:
    """Whether any reading of a response means the same as any accepted form of the answer.

    Args:
        accepted: forms of the answer; each may stand in a box, between dollars or in a sentence.
        predictions: contents of boxes, from `rspo.rewards.extraction.final_answers`.
    """
    try:
        return any(_equivalent(form, read) for form in accepted for read in predictions)
    except RecursionError:  # longer or deeper than any answer
        return False


def _equivalent(form: str, prediction: str) -> bool:
    form, prediction = repaired([*final_answers(form), form][0]), repaired(prediction)
    if (choice := prose.choice_in(form)) and prose.choice_in(prediction) is not None:
        return choice == prose.choice_in(prediction)
    return any(same(gold, read) for gold in _readings(form) for read in _readings(prediction))


def _readings(text: str) -> Iterator[Answer]:
    """What a text may mean; a letter for any whole number may also be called otherwise."""
    for way in spellings(prose.formula_in(text)):
        yield answers.read(way)
        if (letter := answers.parameter(way)) is not None:
            yield answers.read(tuple(r"\parameter" if t == letter else t for t in way))


def same(gold: Answer, prediction: Answer) -> bool:
    """Whether two answers mean the same."""
    if gold == prediction:
        return gold != Formula(())
    if isinstance(gold, Formula) and isinstance(prediction, Formula):
        return _same_formulas(gold.tokens, prediction.tokens)
    if isinstance(gold, Relation) or isinstance(prediction, Relation):
        return _same_with_relations(gold, prediction)
    if isinstance(gold, Matrix) and isinstance(prediction, Matrix):
        return _same_matrices(gold, prediction)
    if isinstance(gold, _SETS) or isinstance(prediction, _SETS):
        return _same_sets(gold, prediction)
    if isinstance(gold, Matrix) and isinstance(prediction, Formula):
        return r"\begin{" in "".join(prediction.tokens) and symbolic.same(
            gold.tokens, prediction.tokens
        )
    return _same_collections(gold, prediction)


def _same_formulas(gold: Tokens, prediction: Tokens) -> bool:
    if gold and _words(gold) == _words(prediction):
        return True
    return quantities.same(gold, prediction)


def _words(tokens: Tokens) -> list[str]:
    r"""What is written, whether in \text{} or not; capitals count only in single letters."""
    kept = [token.removeprefix(TEXT) for token in tokens if token not in ("-", "(", ")", ".")]
    if not any(word.isalpha() and len(word) > 2 for word in kept):
        return list(tokens)
    return [word.lower() if len(word) > 1 else word for word in kept]


# --- collections ----------------------------------------------------------------------------------


def _same_matrices(gold: Matrix, prediction: Matrix) -> bool:
    if [len(row) for row in gold.rows] != [len(row) for row in prediction.rows]:
        return False
    return all(
        _same_in_order(row, other) for row, other in zip(gold.rows, prediction.rows, strict=True)
    )


def _same_collections(gold: Answer, prediction: Answer) -> bool:
    one, other = _items(gold), _items(prediction)
    if one is None or other is None or len(one) != len(other) or len(one) > _LONGEST_LIST:
        return False
    ordered = isinstance(gold, Ordered | Matrix) or isinstance(prediction, Ordered | Matrix)
    if ordered and not (isinstance(gold, Collected) or isinstance(prediction, Collected)):
        return _same_in_order(one, other)
    if ordered:
        return False
    if (
        isinstance(gold, Listed)
        and isinstance(prediction, Listed)
        and _labels_decide(gold, prediction)
    ):
        return _same_in_order(one, other)
    return _same_in_any_order(one, other)


def _items(answer: Answer) -> tuple[Answer, ...] | None:
    if isinstance(answer, Listed | Ordered | Collected):
        return answer.items
    if isinstance(answer, Matrix) and (
        len(answer.rows) == 1 or all(len(r) == 1 for r in answer.rows)
    ):
        return tuple(cell for row in answer.rows for cell in row)
    return (answer,) if isinstance(answer, Formula) else None


def _labels_decide(gold: Listed, prediction: Listed) -> bool:
    """Whether one side names different unknowns and the other only their values: b=-3, c=0."""
    labels = [
        {item.members[0][:1] for item in side.items if isinstance(item, Relation)}
        for side in (gold, prediction)
    ]
    return min(map(len, labels)) == 0 and max(map(len, labels)) == len(gold.items) > 1


def _same_in_order(gold: Sequence[Answer], prediction: Sequence[Answer]) -> bool:
    return len(gold) == len(prediction) and all(map(same, gold, prediction))


def _same_in_any_order(gold: Sequence[Answer], prediction: Sequence[Answer]) -> bool:
    left = list(prediction)
    for item in gold:
        partner = next((place for place, other in enumerate(left) if same(item, other)), None)
        if partner is None:
            return False
        del left[partner]
    return not left


# --- relations ------------------------------------------------------------------------------------


def _same_with_relations(gold: Answer, prediction: Answer) -> bool:
    if isinstance(gold, Relation) and isinstance(prediction, Relation):
        return _same_relations(gold, prediction)
    if isinstance(gold, Relation):
        values = [_value(gold, _is_name), _as_set(gold)]
        return any(value is not None and same(value, prediction) for value in values)
    assert isinstance(prediction, Relation)
    values = [_value(prediction, _is_label), _as_set(prediction)]
    return any(value is not None and same(gold, value) for value in values)


def _value(relation: Relation, is_label: Callable[[Tokens], bool]) -> Answer | None:
    """What an equation gives a name: 5 for x = 5, and for x = 2 + 3 = 5."""
    if not set(relation.signs) <= {"=", r"\in", r"\approx"}:
        return None
    first, last = relation.members[0], relation.members[-1]
    chained = len(relation.members) > 2 and any(map(is_label, relation.members[1:-1]))
    if is_label(first) or chained or _equal_numbers(first, last):
        return answers.read(last)
    if relation.signs == (r"\approx",) and _close(_number(first), _number(last)):
        return answers.read(first)
    return None


def _close(one: float | None, other: float | None) -> bool:
    return one is not None and other is not None and isclose(one, other, rel_tol=0.05)


def _equal_numbers(one: Tokens, other: Tokens) -> bool:
    try:
        left, right = expressions.read(one), expressions.read(other)
    except (Unreadable, Undefined):
        return False
    return not expressions.symbols(left) and expressions.same(left, right)


_NAME_SIGNS = {"(", ")", ",", "{", "}", "'", "_", "|", ":", "/"}


def _is_name(tokens: Tokens) -> bool:
    r"""One symbol, also with index or argument: x, x_1, f(x), (x, y), |AB|, \angle ABC."""
    plain = [token for token in tokens if token not in _NAME_SIGNS]
    names = [token for token in plain if not token.isdigit()]
    if not names or tokens[0][0].isdigit():
        return False
    if "|" in tokens and not any(name.isupper() and len(name) > 1 for name in names):
        return False  # |x| = 7 leaves the sign of x open; a length |AB| does not
    if not all(token.isalpha() or token.startswith(("\\", TEXT)) for token in names):
        return False
    return "_" in tokens or "(" in tokens or len(plain) == len(names)


def _is_label(tokens: Tokens) -> bool:
    """What may stand on the left of a value: anything with a symbol and no number of its own."""
    return _is_name(tokens) or (
        "|" not in tokens
        and any(token.isalpha() or token.startswith("\\") for token in tokens)
        and not any(token[0].isdigit() for token in tokens)
    )


def _same_relations(gold: Relation, prediction: Relation) -> bool:
    if set(gold.signs) | set(prediction.signs) <= {"=", r"\in", r"\approx"}:
        if _same_names(gold, prediction):
            return True
    one, other = _solutions(gold), _solutions(prediction)
    if one is not None and other is not None and one[0] == other[0] and same(one[1], other[1]):
        return True
    if len(gold.signs) == len(prediction.signs) == 1:
        return _proportional(gold, prediction)
    if gold.signs == prediction.signs and all(
        quantities.same(*pair) for pair in zip(gold.members, prediction.members, strict=True)
    ):
        return True
    turned = tuple(_REVERSED.get(sign, "") for sign in reversed(gold.signs))
    return turned == prediction.signs and all(
        quantities.same(*pair)
        for pair in zip(reversed(gold.members), prediction.members, strict=True)
    )


def _solutions(relation: Relation) -> tuple[Tokens, Answer] | None:
    """The unknown of an inequality or of x in S, and the set that it lies in."""
    names = [member for member in relation.members if _is_name(member)]
    if len(names) != 1 or "=" in relation.signs:
        return None
    solutions = _as_set(relation) or _value(relation, _is_name)
    return None if solutions is None else (names[0], solutions)


def _same_names(gold: Relation, prediction: Relation) -> bool:
    """The same name with the same value; of functions, only the name of the argument may differ."""
    one, other = gold.members[0], prediction.members[0]
    if not (_is_name(one) and _is_name(other)):
        return False
    value, guess = gold.members[-1], prediction.members[-1]
    if one != other:
        renamed = _renamed_argument(one, other, guess)
        if renamed is None:
            return False
        guess = renamed
    return same(answers.read(value), answers.read(guess))


def _renamed_argument(gold: Tokens, prediction: Tokens, value: Tokens) -> Tokens | None:
    """The value of f(n) with the argument named as in f(x)."""
    function = len(gold) == len(prediction) == 4 and gold[1] == prediction[1] == "("
    if not function or gold[0] != prediction[0] or gold[2] in value:
        return None
    return tuple(gold[2] if token == prediction[2] else token for token in value)


def _proportional(gold: Relation, prediction: Relation) -> bool:
    """Whether two (in)equations differ by a constant factor: 2x = 4y and x - 2y = 0."""
    sign, other_sign = gold.signs[0], prediction.signs[0]
    if sign not in _REVERSED or other_sign not in _REVERSED:
        return False
    if other_sign not in (sign, _REVERSED[sign]):
        return False
    try:
        left, right = (
            Apply("-", (expressions.read(side.members[0]), expressions.read(side.members[1])))
            for side in (gold, prediction)
        )
    except (Unreadable, Undefined):
        return gold.members == prediction.members and sign == other_sign
    factor = expressions.constant_ratio(left, right)
    if factor is None or factor == 0:
        return False
    if sign in INEQUALITIES:
        return expressions.is_positive(factor) == (sign == other_sign)
    return True


# --- sets of numbers ------------------------------------------------------------------------------


def _as_set(answer: Answer) -> Answer | None:
    """The solutions of an inequality for one name: x < 5 -> (-infinity, 5)."""
    if not isinstance(answer, Relation):
        return None
    members, signs = answer.members, answer.signs
    if len(members) == 2 and not _is_name(members[0]) and signs[0] in _REVERSED:
        members, signs = members[::-1], (_REVERSED[signs[0]],)
    if len(members) == 2 and _is_name(members[0]):
        return _ray(signs[0], members[1])
    if len(members) == 3 and _is_name(members[1]) and set(signs) <= INEQUALITIES:
        if all(sign in (">", r"\geq") for sign in signs):
            members, signs = members[::-1], (_REVERSED[signs[1]], _REVERSED[signs[0]])
        if all(sign in ("<", r"\leq") for sign in signs):
            return Interval(members[0], members[2], signs[0] == "<", signs[1] == "<")
    return None


def _ray(sign: str, end: Tokens) -> Answer | None:
    below = Interval(MINUS_INFINITY, end, True, sign != r"\leq")
    above = Interval(end, INFINITY, sign != r"\geq", True)
    shapes: dict[str, Answer] = {"<": below, r"\leq": below, ">": above, r"\geq": above}
    if sign == r"\neq":
        return Union((below, above))
    return shapes.get(sign)


def _same_sets(gold: Answer, prediction: Answer) -> bool:
    one, other = _pieces(gold), _pieces(prediction)
    if one is None or other is None or len(one) != len(other) or len(one) > _LONGEST_LIST:
        return False
    if len(one) > 1:
        return _same_in_any_order(one, other)
    return _same_intervals(one[0], other[0])


def _same_intervals(gold: Answer, prediction: Answer) -> bool:
    one, other = _as_interval(gold), _as_interval(prediction)
    if one is None or other is None:
        return False
    if (one.left_open, one.right_open) != (other.left_open, other.right_open):
        return False
    return quantities.same(one.left, other.left) and quantities.same(one.right, other.right)


def _as_interval(answer: Answer) -> Interval | None:
    if isinstance(answer, Interval):
        return answer
    if isinstance(answer, Ordered) and len(answer.items) == 2:
        left, right = answer.items
        if isinstance(left, Formula) and isinstance(right, Formula):
            return Interval(left.tokens, right.tokens, True, True)
    return None


def _pieces(answer: Answer) -> list[Answer] | None:
    """Intervals and single points that make up a set; None for what is no set of numbers."""
    if isinstance(answer, Interval) or (isinstance(answer, Ordered) and len(answer.items) == 2):
        return [answer]
    if isinstance(answer, Collected):
        return list(answer.items)
    if isinstance(answer, Union):
        found = [_pieces(part) for part in answer.parts]
        return [piece for pieces in found for piece in pieces or []] if all(found) else None
    if isinstance(answer, Without):
        return _cut(answer)
    if isinstance(answer, Relation):
        return None if (solutions := _as_set(answer)) is None else _pieces(solutions)
    return _joined(answer) if isinstance(answer, Listed) else None


def _joined(answer: Listed) -> list[Answer] | None:
    """x < 1 or x = 2, as a set."""
    pieces: list[Answer] = []
    for item in answer.items:
        if not isinstance(item, Relation):
            return None
        solutions = _as_set(item)
        if solutions is not None:
            pieces += _pieces(solutions) or []
        elif (value := _value(item, _is_name)) is not None:
            pieces += _pieces(value) or [value]
        else:
            return None
    return pieces if any(isinstance(piece, Interval) for piece in pieces) else None


def _cut(answer: Without) -> list[Answer] | None:
    """A union of intervals without a few points, as the intervals between them."""
    pieces, points = _pieces(answer.left), answer.right
    if pieces is None or not isinstance(points, Collected):
        return None
    for point in points.items:
        if not isinstance(point, Formula):
            return None
        pieces = [part for piece in pieces for part in _cut_at(piece, point.tokens)]
    return pieces


def _cut_at(piece: Answer, point: Tokens) -> list[Answer]:
    interval, place = _as_interval(piece), _number(point)
    if interval is None or place is None:
        return [piece]
    left, right = _number(interval.left), _number(interval.right)
    if left is None or right is None or not left < place < right:
        return [piece]
    return [
        Interval(interval.left, point, interval.left_open, True),
        Interval(point, interval.right, True, interval.right_open),
    ]


def _number(tokens: Tokens) -> float | None:
    """Where a constant stands on the line; close enough to put points in order."""
    if tokens in (INFINITY, MINUS_INFINITY):
        return inf if tokens == INFINITY else -inf
    try:
        return float(expressions.evaluate(expressions.read(tokens), {}))
    except (Unreadable, Undefined, KeyError, TypeError, OverflowError):
        return None
