r"""Decides whether two written answers are the same: the entry point of the verifier `rules`.

`notation` makes the notation canonical and `answers` parses the structure. This module compares
structures, and `quantities` compares the formulas in them. docs/rules.md lists what is accepted.
"""

from collections.abc import Iterator, Sequence
from typing import TypeGuard

from rspo.rewards.extraction import final_answers
from rspo.rewards.rules import (
    answers,
    membership,
    prose,
    quantities,
    relations,
    symbolic,
    values,
    vectors,
    words,
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
from rspo.rewards.rules.expressions import Apply, Expression, TooDeep, Unreadable, read
from rspo.rewards.rules.notation import Tokens, repaired, spellings

_LONGEST_LIST = 200  # items; comparing them in any order takes quadratic time
_LONGEST_NUMBER = 2000  # digits; Python refuses to convert more than 4,300
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
    """Whether an accepted form of the answer and a prediction are the same.

    The form may be in a box itself.
    """
    boxed = final_answers(form)
    form = repaired(boxed[0] if boxed else form)
    prediction = repaired(prediction)
    verdict = _same_choice(form, prediction)
    if verdict is not None:
        return verdict
    if _differ_in_whole_numbers(form, prediction):
        return False
    # A prediction is also read as a whole, in case it was taken for a sentence by mistake.
    stated = prose.formula_in(prediction)
    guesses = list(_readings(stated))
    if stated != prediction:
        guesses += _readings(prediction)
    golds = list(_readings(prose.formula_in(form, only=True)))
    # The label of an option may be left out: 42 is (C) 42.
    option = prose.option_in(prediction)
    if option is not None:
        guesses += _readings(option.value)
    option = prose.option_in(form)
    if option is not None:
        golds += _readings(option.value)
    return any(same(gold, guess) for gold in golds for guess in guesses)


def _same_choice(form: str, prediction: str) -> bool | None:
    """Whether both choose the same option of multiple choice.

    The letters must be equal, and the values too if both give one: (C) 43 is not (C) 42.

    Returns: None if either of them has no letter, so that their values decide.
    """
    option = prose.option_in(form)
    other_option = prose.option_in(prediction)
    choice = prose.choice_in(form, only=True)
    chosen = prose.choice_in(prediction)
    if choice is not None and chosen is not None:
        if choice != chosen or option is None or other_option is None or other_option.argues:
            return choice == chosen
        values_of_option = list(_readings(option.value))
        other_values = list(_readings(other_option.value))
        return any(same(value, other) for value in values_of_option for other in other_values)
    if option is None and other_option is None:
        return None
    letter = prose.letter_of(form)
    other_letter = prose.letter_of(prediction)
    if letter is not None and other_letter is not None and letter != other_letter:
        return False
    return None


def _differ_in_whole_numbers(form: str, prediction: str) -> bool:
    """Whether a letter denotes any integer in one text, and any natural number in the other."""
    kinds = _whole_numbers_in(form)
    other_kinds = _whole_numbers_in(prediction)
    return bool(kinds and other_kinds) and kinds.isdisjoint(other_kinds)


def _whole_numbers_in(text: str) -> set[str]:
    """Which whole numbers a letter denotes, "Z" or "N", according to any spelling of a text."""
    kinds = {answers.whole_numbers(tokens) for tokens in spellings(text)}
    return {kind for kind in kinds if kind is not None}


def _readings(text: str) -> Iterator[Answer]:
    r"""The answers that a text may mean.

    In `\pi k, k \in \mathbb{Z}`, the k may have any name. There is therefore also a reading with
    PARAMETER in its place.
    """
    for tokens in spellings(text):
        if any(len(token) > _LONGEST_NUMBER for token in tokens):
            continue
        yield answers.read(tokens)
        letter = answers.parameter(tokens)
        if letter is not None:
            renamed = tuple(PARAMETER if token == letter else token for token in tokens)
            yield answers.read(renamed)


def same(gold: Answer, prediction: Answer) -> bool:
    """Whether two answers mean the same."""
    if gold == prediction:
        return gold != Formula(())  # an empty answer is never right
    return _same_structures(gold, prediction) or membership.same(gold, prediction)


def _same_structures(gold: Answer, prediction: Answer) -> bool:
    """Compare two answers by the rule for their structures."""
    if isinstance(gold, Formula) and isinstance(prediction, Formula):
        return _same_formulas(gold.tokens, prediction.tokens)
    if isinstance(gold, Relation) or isinstance(prediction, Relation):
        return _same_with_relations(gold, prediction)
    # A matrix or vector may be written with nested brackets in the other answer.
    if isinstance(gold, Matrix) or isinstance(prediction, Matrix):
        gold = answers.as_matrix(answers.as_vector(gold))
        prediction = answers.as_matrix(answers.as_vector(prediction))
    if isinstance(gold, Matrix) and isinstance(prediction, Matrix):
        same_height = len(gold.rows) == len(prediction.rows)
        return same_height and all(map(_same_in_order, gold.rows, prediction.rows))
    if isinstance(gold, _SETS) or isinstance(prediction, _SETS):
        return _same_sets(gold, prediction)
    if isinstance(gold, Ordered) and isinstance(prediction, Formula):
        return vectors.same(gold, prediction)
    if isinstance(gold, Formula) and isinstance(prediction, Ordered):
        return vectors.same(prediction, gold)
    if _holds_one_item(gold) and isinstance(prediction, Ordered | Matrix):
        return _is_only_item(gold, prediction)
    if _holds_one_item(prediction) and isinstance(gold, Ordered | Matrix):
        return _is_only_item(prediction, gold)
    if isinstance(gold, Matrix | Formula) and isinstance(prediction, Matrix | Formula):
        # Arithmetic of matrices, which the library math-verify evaluates.
        both = _has_matrix(gold.tokens) and _has_matrix(prediction.tokens)
        return both and symbolic.same(gold.tokens, prediction.tokens)
    return _same_collections(gold, prediction)


def _holds_one_item(answer: Answer) -> TypeGuard[Collected]:
    """Whether an answer is a set in braces with one item."""
    return isinstance(answer, Collected) and len(answer.items) == 1


def _is_only_item(collected: Collected, point: Answer) -> bool:
    """Whether a set of one item holds this point: {(1, 2)} and (1, 2) are the same."""
    item = collected.items[0]
    return item == point or same(item, point)


def _has_matrix(tokens: Tokens) -> bool:
    return any(token.startswith(r"\begin") for token in tokens)


def _same_formulas(gold: Tokens, prediction: Tokens) -> bool:
    """Whether two formulas, or texts without a structure, are the same."""
    if words.differ_in_letters(gold, prediction):
        return False
    if words.only_letters(gold) and words.only_letters(prediction):
        if words.same_letters(gold, prediction):
            return True
        numbers = quantities.has_number(gold) and quantities.has_number(prediction)
        return numbers and quantities.same(gold, prediction)
    return words.same(gold, prediction) or quantities.same(gold, prediction)


# --- collections ----------------------------------------------------------------------------------


def _same_collections(gold: Answer, prediction: Answer) -> bool:
    """Whether two lists, points, sets or vectors have the same items.

    The order counts for points, vectors, and lists whose items belong to different unknowns.
    Alternatives, such as `1 or 2` and `\\pm 1`, have no order, so they are never a point or vector.
    """
    items = _items(gold)
    other_items = _items(prediction)
    if items is None or other_items is None:
        return False
    if isinstance(gold, Collected) and isinstance(prediction, Collected):
        items = tuple(dict.fromkeys(items))  # {1, 1, 2} is {1, 2}
        other_items = tuple(dict.fromkeys(other_items))
    if len(items) != len(other_items) or len(items) > _LONGEST_LIST:
        return False
    if _lists_points(prediction) and isinstance(gold, Listed | Collected):
        return values.matched(items, other_items, same)
    if isinstance(gold, Ordered | Matrix) or isinstance(prediction, Ordered | Matrix):
        both_ordered = _is_ordered(gold) and _is_ordered(prediction)
        return both_ordered and _same_in_order(items, other_items)
    # A set has no order, so it does not say which value belongs to which unknown.
    one_set = isinstance(gold, Collected) != isinstance(prediction, Collected)
    if one_set and _labels_decide(gold, prediction):
        return False
    if isinstance(gold, Listed) and isinstance(prediction, Listed):
        if _differ_in_conjunction(gold, prediction):
            return False
        if _labels_decide(gold, prediction):
            return _same_in_order(items, other_items)
    return values.matched(items, other_items, same)


def _differ_in_conjunction(gold: Listed, prediction: Listed) -> bool:
    """Whether only one of the lists is joined by `or`, and that changes its meaning.

    It does between inequalities and between different unknowns. The solutions of one equation may
    be joined by either word.
    """
    if (gold.joined_by == "or") == (prediction.joined_by == "or"):
        return False
    items = [item for item in gold.items + prediction.items if isinstance(item, Relation)]
    bounds = any(not set(item.signs) <= relations.STATING for item in items)
    unknowns = {item.members[0][:1] for item in items}
    return bounds or len(unknowns) > 1


def _lists_points(answer: Answer) -> bool:
    """Whether an answer is a list of points in brackets: [(1, 2), (3, 4)]."""
    if not isinstance(answer, Ordered) or len(answer.items) < 2:
        return False
    return all(isinstance(item, Ordered) for item in answer.items)


def _is_ordered(answer: Answer) -> bool:
    """Whether the items of an answer may be the coordinates of a point, in their order.

    They may in (1, 2), in 1, 2 and in x = 1, y = 2; not in a set, in `1 or 2`, or in y = 1, x = 2.
    """
    if isinstance(answer, Collected):
        return False
    if not isinstance(answer, Listed):
        return True
    if answer.joined_by == "or":
        return False
    names = [item.members[0] for item in answer.items if isinstance(item, Relation)]
    return names == sorted(set(names))


def _items(answer: Answer) -> tuple[Answer, ...] | None:
    """The items of a list, point, set or vector; a formula is its only item.

    Returns: None for other answers.
    """
    if isinstance(answer, Listed | Ordered | Collected):
        return answer.items
    if isinstance(answer, Formula):
        return (answer,)
    if not isinstance(answer, Matrix):
        return None
    is_vector = len(answer.rows) == 1 or all(len(row) == 1 for row in answer.rows)
    return tuple(cell for row in answer.rows for cell in row) if is_vector else None


def _labels_decide(gold: Answer, prediction: Answer) -> bool:
    """Whether one answer names different unknowns (b=-3, c=0) and the other gives only values."""
    unknowns = _unknowns(gold)
    other_unknowns = _unknowns(prediction)
    fewer, more = sorted([len(unknowns), len(other_unknowns)])
    items = _items(gold) or ()
    return fewer == 0 and more == len(items) > 1


def _unknowns(answer: Answer) -> set[Tokens]:
    """The different unknowns on the left of the equations of a list or set.

    x_1 and x_2 count as x, because both are roots of one equation.
    """
    unknowns = set()
    for item in _items(answer) or ():
        if isinstance(item, Relation):
            name = item.members[0]
            has_number = any(token.isdigit() for token in name)
            unknowns.add(name[:1] if has_number else name)
    return unknowns


def _same_in_order(gold: Sequence[Answer], prediction: Sequence[Answer]) -> bool:
    return len(gold) == len(prediction) and all(map(same, gold, prediction))


# --- relations ------------------------------------------------------------------------------------


def _same_with_relations(gold: Answer, prediction: Answer) -> bool:
    """Whether two answers, of which at least one is a relation, are the same."""
    if isinstance(prediction, Relation) and relations.names_two_values(prediction):
        return False
    if isinstance(gold, Relation) and isinstance(prediction, Relation):
        return _same_relations(gold, prediction)
    # (x, y) = (1, 2) and x = 1, y = 2 are the same.
    for relation, listed in ((gold, prediction), (prediction, gold)):
        if isinstance(relation, Relation) and isinstance(listed, Listed):
            entries = answers.by_entry(relation)
            if entries and any(isinstance(item, Relation) for item in listed.items):
                return _same_collections(entries, listed)
    # Only one answer is a relation. It must give the other answer as the value of a name.
    if isinstance(gold, Relation):
        value = relations.value(gold, relations.is_quantity)
        return value is not None and same(value, prediction)
    assert isinstance(prediction, Relation)
    value = relations.value(prediction, relations.is_label)
    return value is not None and same(gold, value)


def _same_relations(gold: Relation, prediction: Relation) -> bool:
    """Whether two relations are the same, in either direction: 1 < x and x > 1."""
    if _same_names(gold, prediction):
        return True
    if len(gold.signs) == len(prediction.signs) == 1:
        return _proportional(gold, prediction)
    # A chain such as 1 < x < 3, in both directions.
    turned = tuple(REVERSED.get(sign, "") for sign in reversed(gold.signs))
    for signs, members in ((gold.signs, gold.members), (turned, gold.members[::-1])):
        if signs == prediction.signs and all(map(quantities.same, members, prediction.members)):
            return True
    return False


def _same_names(gold: Relation, prediction: Relation) -> bool:
    """Whether both give the same value to the same name.

    The argument of a function may have another name, as in f(x) = x and f(n) = n.
    """
    name = gold.members[0]
    other_name = prediction.members[0]
    value = relations.stated(gold)
    other_value = relations.stated(prediction)
    if value is None or other_value is None:
        return False
    if not (relations.is_name(name) and relations.is_name(other_name)):
        return False
    if name != other_name and not _same_function(name, other_name, value + other_value):
        renamed = _renamed_argument(name, other_name, other_value)
        if renamed is None:
            return False
        other_value = renamed
    return same(answers.read(value), answers.read(other_value))


def _same_function(name: Tokens, other_name: Tokens, tokens: Tokens) -> bool:
    """Whether one name is y or f, and the other one is f(x), and the value depends on x.

    y = 2x + 3 and f(x) = 2x + 3 are therefore the same.

    Args:
        tokens: the tokens of both values.
    """
    for variable, function in ((name, other_name), (other_name, name)):
        if len(function) < 3 or function[-3] != "(" or function[-1] != ")":
            continue
        letters = function[:-3]
        argument = function[-2]
        if not variable or len(variable) != len(letters):
            continue
        same_letter = variable[0] in ("y", letters[0]) and variable[1:] == letters[1:]
        depends = any(argument in token for token in tokens if token.isalpha())
        return same_letter and depends and variable[0] not in tokens
    return False


def _renamed_argument(name: Tokens, other_name: Tokens, value: Tokens) -> Tokens | None:
    """The value of f(n), with its argument named as in f(x).

    Args:
        name: the name f(x).
        other_name: the name f(n).
        value: the value of f(n).

    Returns: None if the names are not such functions, or the value does not contain n.
    """
    functions = len(name) == len(other_name) == 4 and name[1] == other_name[1] == "("
    if not functions or name[0] != other_name[0]:
        return None
    argument = name[2]
    other_argument = other_name[2]
    if argument in value or other_argument not in value:
        return None
    return tuple(argument if token == other_argument else token for token in value)


def _proportional(gold: Relation, prediction: Relation) -> bool:
    """Whether two equations or inequalities differ by a factor only: 2x = 4y and x - 2y = 0."""
    sign = gold.signs[0]
    other_sign = prediction.signs[0]
    if sign not in REVERSED or other_sign not in REVERSED:
        return False
    if other_sign not in (sign, REVERSED[sign]):
        return False
    try:
        difference = _difference_of_sides(gold)
        other_difference = _difference_of_sides(prediction)
    except (Unreadable, TooDeep):
        return gold.members == prediction.members and sign == other_sign
    factor = values.constant_ratio(difference, other_difference)
    if factor is None or factor == 0:
        return False
    if sign in INEQUALITIES:
        # A negative factor turns the sign of an inequality.
        real = values.real(factor)
        return (real is not None and real > 0) == (sign == other_sign)
    return True


def _difference_of_sides(relation: Relation) -> Expression:
    """The left side of a relation minus its right side."""
    left = read(relation.members[0])
    right = read(relation.members[1])
    return Apply("-", (left, right))


# --- sets of numbers ------------------------------------------------------------------------------


def _same_sets(gold: Answer, prediction: Answer) -> bool:
    """Whether two sets have the same pieces.

    If not, `same` also compares the members of sets with constant ends.
    """
    if isinstance(gold, Without) and isinstance(prediction, Without):
        return same(gold.left, prediction.left) and same(gold.right, prediction.right)
    pieces = _pieces(gold)
    other_pieces = _pieces(prediction)
    if not pieces or len(pieces) != len(other_pieces) or len(pieces) > _LONGEST_LIST:
        return False
    if len(pieces) > 1:
        return values.matched(pieces, other_pieces, same)
    return _same_intervals(pieces[0], other_pieces[0])


def _pieces(answer: Answer) -> list[Answer]:
    """The intervals and points that make up a set; empty if a part of it is anything else."""
    if isinstance(answer, Union):
        parts = [_pieces(part) for part in answer.parts]
        return [piece for part in parts for piece in part] if all(parts) else []
    if isinstance(answer, Collected):
        return list(answer.items)
    return [answer] if answers.as_interval(answer) else []


def _same_intervals(gold: Answer, prediction: Answer) -> bool:
    """Whether both are intervals with equal ends that are open on the same sides."""
    interval = answers.as_interval(gold)
    other = answers.as_interval(prediction)
    if interval is None or other is None:
        return False
    if interval.left_open != other.left_open or interval.right_open != other.right_open:
        return False
    same_left = quantities.same(interval.left, other.left)
    return same_left and quantities.same(interval.right, other.right)
