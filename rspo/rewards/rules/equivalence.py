r"""Whether two written answers are the same.

`notation` makes the notation canonical and `answers` parses the structure. This module compares
structures, and `quantities` compares the formulas in them. docs/verification.md lists what is
accepted.
"""

from collections.abc import Iterator, Sequence

from rspo.rewards.extraction import final_answers
from rspo.rewards.rules import (
    answers,
    membership,
    prose,
    quantities,
    relations,
    symbolic,
    units,
    values,
)
from rspo.rewards.rules.answers import (
    INEQUALITIES,
    PARAMETER,
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
)
from rspo.rewards.rules.expressions import Apply, TooDeep, Unreadable, read
from rspo.rewards.rules.notation import TEXT, Tokens, repaired, spellings

_LONGEST_LIST = 200
_LONGEST_NUMBER = 2000  # digits
_SETS = (Interval, Union, Without)


def equivalent(accepted: Sequence[str], predictions: Sequence[str]) -> bool:
    """Whether any interpretation of a response equals any accepted form of the answer.

    Args:
        accepted: forms of the answer. Each may be in a box, between dollar signs or in a sentence.
        predictions: contents of boxes, from `rspo.rewards.extraction.final_answers`.
    """
    try:
        return any(_equivalent(form, prediction) for form in accepted for prediction in predictions)
    except RecursionError:  # longer or more deeply nested than any answer
        return False


def _equivalent(form: str, prediction: str) -> bool:
    form, prediction = repaired([*final_answers(form), form][0]), repaired(prediction)
    if (choice := prose.choice_in(form)) and prose.choice_in(prediction) is not None:
        return choice == prose.choice_in(prediction)
    if _differ_in_whole_numbers(form, prediction):
        return False
    stated = dict.fromkeys((prose.formula_in(prediction), prediction))
    guesses = [guess for text in stated for guess in _readings(text)]
    golds = _readings(prose.formula_in(form, only=True))
    return any(same(gold, guess) for gold in golds for guess in guesses)


def _differ_in_whole_numbers(form: str, prediction: str) -> bool:
    """Whether both say what a letter denotes, one any integer and the other a natural number."""
    kinds = [
        {answers.whole_numbers(way) for way in spellings(text)} - {None}
        for text in (form, prediction)
    ]
    return all(kinds) and kinds[0].isdisjoint(kinds[1])


def _readings(text: str) -> Iterator[Answer]:
    """The answers a text may mean. A letter that denotes any integer may have another name."""
    for way in spellings(text):
        if any(len(token) > _LONGEST_NUMBER for token in way):
            continue
        yield answers.read(way)
        if (letter := answers.parameter(way)) is not None:
            yield answers.read(tuple(PARAMETER if token == letter else token for token in way))


def same(gold: Answer, prediction: Answer) -> bool:
    """Whether two answers mean the same."""
    if gold == prediction:
        return gold != Formula(())
    return _same_structures(gold, prediction) or membership.same(gold, prediction)


def _same_structures(gold: Answer, prediction: Answer) -> bool:
    if isinstance(gold, Formula) and isinstance(prediction, Formula):
        tokens = gold.tokens, prediction.tokens
        if _differ_in_letters(*tokens):
            return False
        return _same_words(*tokens) or quantities.same(*tokens)
    if isinstance(gold, Relation) or isinstance(prediction, Relation):
        return _same_with_relations(gold, prediction)
    if isinstance(gold, Matrix) or isinstance(prediction, Matrix):
        gold, prediction = (
            answers.as_matrix(answers.as_vector(side)) for side in (gold, prediction)
        )
    if isinstance(gold, Matrix) and isinstance(prediction, Matrix):
        same_height = len(gold.rows) == len(prediction.rows)
        return same_height and all(map(_same_in_order, gold.rows, prediction.rows))
    if isinstance(gold, _SETS) or isinstance(prediction, _SETS):
        return _same_sets(gold, prediction)
    for one, other in ((gold, prediction), (prediction, gold)):
        points = isinstance(other, Ordered | Matrix)
        if points and isinstance(one, Collected) and len(one.items) == 1:
            return one.items[0] == other or same(one.items[0], other)
    if isinstance(gold, Matrix | Formula) and isinstance(prediction, Matrix | Formula):
        # Arithmetic of matrices, which the library math-verify evaluates.
        tokens = gold.tokens, prediction.tokens
        both = all(any(token.startswith(r"\begin") for token in side) for side in tokens)
        return both and symbolic.same(*tokens)
    return _same_collections(gold, prediction)


def _same_words(gold: Tokens, prediction: Tokens) -> bool:
    r"""Whether both are the same words, with or without \text{}, ignoring case."""
    if not any(units.is_word(token) for token in gold + prediction):
        return False
    return _words(gold) == _words(prediction)


def _differ_in_letters(gold: Tokens, prediction: Tokens) -> bool:
    """Whether both have three or more capitals in a row, in another order: HTH is not THH.

    Only an angle may be named from either end.
    """
    one, other = (
        [token for token in side if len(token) > 2 and token.isalpha() and token.isupper()]
        for side in (gold, prediction)
    )
    if not one or not other or one == other:
        return False
    turned = r"\angle" in gold and r"\angle" in prediction
    return not (turned and one == [name[::-1] for name in other])


def _words(tokens: Tokens) -> list[str]:
    words = [token.removeprefix(TEXT) for token in tokens]
    words = [word.lower() if word[1:] else word for word in words]  # A and a are different letters
    if any(word[0].isdigit() or (len(word) == 1 and word.isalpha()) for word in words):
        return words
    # Without numbers or variables, hyphens and brackets are punctuation.
    return words[:1] + [word for word in words[1:] if word not in ("-", "(", ")", ".")]


# --- collections ----------------------------------------------------------------------------------


def _same_collections(gold: Answer, prediction: Answer) -> bool:
    one, other = _items(gold), _items(prediction)
    if one is None or other is None or len(one) != len(other) or len(one) > _LONGEST_LIST:
        return False
    sides = (gold, prediction)
    if _lists_points(prediction) and isinstance(gold, Listed | Collected):
        return values.matched(one, other, same)
    if any(isinstance(side, Ordered | Matrix) for side in sides):
        return all(map(_is_ordered, sides)) and _same_in_order(one, other)
    if isinstance(gold, Listed) and isinstance(prediction, Listed):
        if _differ_in_conjunction(gold, prediction):
            return False
        if _labels_decide(gold, prediction):
            return _same_in_order(one, other)
    return values.matched(one, other, same)


def _differ_in_conjunction(gold: Listed, prediction: Listed) -> bool:
    """Whether `and` in one meets `or` in the other, between inequalities or different unknowns.

    The solutions of one equation may be joined by either word.
    """
    if (gold.joined_by == "or") == (prediction.joined_by == "or"):
        return False
    items = [item for item in gold.items + prediction.items if isinstance(item, Relation)]
    bounds = any(not set(item.signs) <= relations.STATING for item in items)
    unknowns = {item.members[0][:1] for item in items}
    return bounds or len(unknowns) > 1


def _lists_points(answer: Answer) -> bool:
    """Whether brackets only hold a list of points together: [(1, 2), (3, 4)]."""
    points = isinstance(answer, Ordered) and len(answer.items) > 1
    return points and all(isinstance(item, Ordered) for item in answer.items)  # type: ignore[union-attr]


def _is_ordered(answer: Answer) -> bool:
    """A point, or a list of its entries: 1, 2 and x = 1, y = 2, but not y = 1, x = 2."""
    if not isinstance(answer, Listed):
        return not isinstance(answer, Collected)
    names = [item.members[0] for item in answer.items if isinstance(item, Relation)]
    return names == sorted(set(names)) and not (names and answer.joined_by == "or")


def _items(answer: Answer) -> tuple[Answer, ...] | None:
    if isinstance(answer, Listed | Ordered | Collected):
        return answer.items
    if isinstance(answer, Matrix) and (
        len(answer.rows) == 1 or all(len(r) == 1 for r in answer.rows)
    ):
        return tuple(cell for row in answer.rows for cell in row)
    return (answer,) if isinstance(answer, Formula) else None


def _labels_decide(gold: Listed, prediction: Listed) -> bool:
    """Whether one side names different unknowns (b=-3, c=0) and the other gives only values."""
    labels = [
        {_unknown(item.members[0]) for item in side.items if isinstance(item, Relation)}
        for side in (gold, prediction)
    ]
    return min(map(len, labels)) == 0 and max(map(len, labels)) == len(gold.items) > 1


def _unknown(label: Tokens) -> Tokens:
    """x for x_1, of which each index has the same role; f_max itself."""
    return label[:1] if any(token.isdigit() for token in label) else label


def _same_in_order(gold: Sequence[Answer], prediction: Sequence[Answer]) -> bool:
    return len(gold) == len(prediction) and all(map(same, gold, prediction))


# --- relations ------------------------------------------------------------------------------------


def _same_with_relations(gold: Answer, prediction: Answer) -> bool:
    if isinstance(prediction, Relation) and relations.names_two_values(prediction):
        return False
    if isinstance(gold, Relation) and isinstance(prediction, Relation):
        return _same_relations(gold, prediction)
    for one, other in ((gold, prediction), (prediction, gold)):
        if isinstance(one, Relation) and isinstance(other, Listed):
            entries = answers.by_entry(one)
            if entries and any(isinstance(item, Relation) for item in other.items):
                return _same_collections(entries, other)
    if isinstance(gold, Relation):
        value = relations.value(gold, relations.is_quantity)
        return value is not None and same(value, prediction)
    assert isinstance(prediction, Relation)
    value = relations.value(prediction, relations.is_label)
    return value is not None and same(gold, value)


def _same_relations(gold: Relation, prediction: Relation) -> bool:
    if _same_names(gold, prediction):
        return True
    if len(gold.signs) == len(prediction.signs) == 1:
        return _proportional(gold, prediction)
    turned = tuple(REVERSED.get(sign, "") for sign in reversed(gold.signs))
    return any(
        signs == prediction.signs and all(map(quantities.same, members, prediction.members))
        for signs, members in ((gold.signs, gold.members), (turned, gold.members[::-1]))
    )


def _same_names(gold: Relation, prediction: Relation) -> bool:
    """The same name with the same value. The argument of a function may have another name."""
    one, other = gold.members[0], prediction.members[0]
    value, guess = relations.stated(gold), relations.stated(prediction)
    if value is None or guess is None:
        return False
    if not (relations.is_name(one) and relations.is_name(other)):
        return False
    if one != other and not _same_function(one, other, value + guess):
        renamed = _renamed_argument(one, other, guess)
        if renamed is None:
            return False
        guess = renamed
    return same(answers.read(value), answers.read(guess))


def _same_function(one: Tokens, other: Tokens, rules: Tokens) -> bool:
    """y or f, and f(x), of which both rules must depend: y = 2x + 3 and f(x) = 2x + 3."""
    for name, function in ((one, other), (other, one)):
        head, argument = function[:-3], function[-2:-1]
        if function[-3:] == ("(", *argument, ")") and argument and name and len(name) == len(head):
            known = name[0] in ("y", head[0]) and name[1:] == head[1:]
            depends = any(argument[0] in token for token in rules if token.isalpha())
            return known and depends and name[0] not in rules
    return False


def _renamed_argument(gold: Tokens, prediction: Tokens, value: Tokens) -> Tokens | None:
    """The value of f(n) with the argument named as in f(x)."""
    function = len(gold) == len(prediction) == 4 and gold[1] == prediction[1] == "("
    if not function or gold[0] != prediction[0] or gold[2] in value or prediction[2] not in value:
        return None
    return tuple(gold[2] if token == prediction[2] else token for token in value)


def _proportional(gold: Relation, prediction: Relation) -> bool:
    """Whether two (in)equations differ by a constant factor: 2x = 4y and x - 2y = 0."""
    sign, other_sign = gold.signs[0], prediction.signs[0]
    if sign not in REVERSED or other_sign not in REVERSED:
        return False
    if other_sign not in (sign, REVERSED[sign]):
        return False
    try:
        left, right = (
            Apply("-", (read(side.members[0]), read(side.members[1])))
            for side in (gold, prediction)
        )
    except (Unreadable, TooDeep):
        return gold.members == prediction.members and sign == other_sign
    factor = values.constant_ratio(left, right)
    if factor is None or factor == 0:
        return False
    if sign in INEQUALITIES:
        real = values.real(factor)
        return (real is not None and real > 0) == (sign == other_sign)
    return True


# --- sets of numbers ------------------------------------------------------------------------------


def _same_sets(gold: Answer, prediction: Answer) -> bool:
    """Whether both have the same pieces; `membership` compares sets with constant ends further."""
    if isinstance(gold, Without) and isinstance(prediction, Without):
        return same(gold.left, prediction.left) and same(gold.right, prediction.right)
    one, other = _pieces(gold), _pieces(prediction)
    if not one or len(one) != len(other) or len(one) > _LONGEST_LIST:
        return False
    if len(one) > 1:
        return values.matched(one, other, same)
    return _same_intervals(one[0], other[0])


def _pieces(answer: Answer) -> list[Answer]:
    """The intervals and points that make up a set; none if a part of it is anything else."""
    if isinstance(answer, Union):
        parts = [_pieces(part) for part in answer.parts]
        return [piece for part in parts for piece in part] if all(parts) else []
    if isinstance(answer, Collected):
        return list(answer.items)
    return [answer] if answers.as_interval(answer) else []


def _same_intervals(gold: Answer, prediction: Answer) -> bool:
    one, other = answers.as_interval(gold), answers.as_interval(prediction)
    if one is None or other is None:
        return False
    if (one.left_open, one.right_open) != (other.left_open, other.right_open):
        return False
    return quantities.same(one.left, other.left) and quantities.same(one.right, other.right)
