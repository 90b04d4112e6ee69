r"""Reads the structure of an answer: tokens -> list, point, set, interval, relation or formula.

This module does not compare answers. `equivalence` decides whether two structures mean the same, as
`x < 5` and `(-\infty, 5)` do.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import accumulate, pairwise

from rspo.rewards.rules import labels, phrases, units
from rspo.rewards.rules.notation import TEXT, Tokens, trimmed

INEQUALITIES = {"<", ">", r"\leq", r"\geq"}
REVERSED = {"<": ">", ">": "<", r"\leq": r"\geq", r"\geq": r"\leq", "=": "=", r"\neq": r"\neq"}
_RELATIONS = INEQUALITIES | {"=", r"\neq", r"\approx", r"\in"}
_OPENING = {"(", "[", "{", r"\{", r"\langle", r"\lfloor", r"\lceil"}
_CLOSING = {")", "]", "}", r"\}", r"\rangle", r"\rfloor", r"\rceil"}
# Environments of matrices and of systems of equations; an array may be either.
_MATRICES = {"matrix", "pmatrix", "bmatrix", "Bmatrix", "array", "smallmatrix"}
_SYSTEMS = {"cases", "array", "aligned", "align", "gathered"}
# Exponents of a matrix that denote its transpose.
_TRANSPOSED = (("^", "T"), ("^", "{", "T", "}"), ("^", r"\top"), ("^", "{", r"\top", "}"))
_DEEPEST = 20  # nested structures; deeper ones are read as formulas
_NOT_IN_LABELS = ("^", "*", "/", r"\pm", r"\mp", r"\sqrt", r"\frac")  # see `_may_be_label`
# Words at the end of a list whose order counts.
_ORDER_COUNTS = (
    ("respectively",),
    ("in", "order"),
    ("in", "this", "order"),
    ("in", "that", "order"),
)
PARAMETER = r"\parameter"  # replaces a letter that denotes any integer
# Words of a remark that restricts nothing, such as `for all real numbers x`.
_DOMAIN_WORDS = (
    "for all any every each some real integer integers number numbers natural positive whole "
    "values where with is are an arbitrary constant constants being"
)

REALS: tuple[Tokens, ...] = ((r"\mathbb", "{", "R", "}"), (r"\mathbb", "R"))
INFINITY: Tokens = (r"\infty",)
MINUS_INFINITY: Tokens = ("-", r"\infty")
_PLUS_INFINITY: Tokens = ("+", r"\infty")


@dataclass(frozen=True)
class Formula:
    """An answer without further structure: a number, an expression, words."""

    tokens: Tokens


@dataclass(frozen=True)
class Listed:
    r"""Several answers without brackets.

    joined_by: "and", "or" or empty. The two values of a \pm b are joined by "or".
    """

    items: tuple["Answer", ...]
    joined_by: str = ""


@dataclass(frozen=True)
class Ordered:
    """(a, b, ...): a point or vector. With two entries it may also be an open interval."""

    items: tuple["Answer", ...]


@dataclass(frozen=True)
class Collected:
    r"""\{a, b, ...\}: a set of items in braces."""

    items: tuple["Answer", ...]


@dataclass(frozen=True)
class Matrix:
    """The entries of a matrix by row, and its tokens, which math-verify reads."""

    rows: tuple[tuple["Answer", ...], ...]
    tokens: Tokens = field(compare=False)


@dataclass(frozen=True)
class Interval:
    """An interval.

    (a, b) with finite ends may also be a point, so `read` returns it as `Ordered` instead.
    """

    left: Tokens
    right: Tokens
    left_open: bool
    right_open: bool


@dataclass(frozen=True)
class Union:
    r"""A \cup B \cup ..."""

    parts: tuple["Answer", ...]


@dataclass(frozen=True)
class Without:
    r"""left \setminus right: the members of one set that are not in the other."""

    left: "Answer"
    right: "Answer"


@dataclass(frozen=True)
class Relation:
    """Members and the signs between them: x = 5, -1 < x <= 3, x in S.

    signs: one less than members.
    """

    members: tuple[Tokens, ...]
    signs: tuple[str, ...]


Answer = Formula | Listed | Ordered | Collected | Matrix | Interval | Union | Without | Relation

EVERYTHING = Interval(MINUS_INFINITY, INFINITY, True, True)


def read(tokens: Tokens, depth: int = 0) -> Answer:
    """The structure of an answer; a formula if no other structure fits."""
    tokens = phrases.in_signs(_without_quantifiers(trimmed(tokens)))
    if depth > _DEEPEST or (len(tokens) == 1 and tokens[0].isalnum()):
        return Formula(tokens)
    # The first reader that recognizes its structure decides, so the order is part of the rules.
    readers = (
        _in_order,
        _named_values,
        _list,
        _relation,
        _union,
        _brackets,
        _adjacent,
        _transposed,
        _matrix,
        _plus_minus,
    )
    for reader in readers:
        answer = reader(tokens, depth + 1)
        if answer is not None:
            return answer
    return Formula(tokens)


def as_interval(answer: Answer) -> Interval | None:
    """The interval that an answer denotes; None for anything else.

    The open interval (a, b) was read as `Ordered`, because it may also be a point.
    """
    if isinstance(answer, Interval):
        return answer
    if isinstance(answer, Ordered) and len(answer.items) == 2:
        left, right = answer.items
        if isinstance(left, Formula) and isinstance(right, Formula):
            return Interval(left.tokens, right.tokens, True, True)
    return None


def split(tokens: Tokens, separators: Iterable[str]) -> list[Tokens]:
    """The parts between separators that are outside all brackets."""
    separators = frozenset(separators)
    parts = []
    start = 0
    depth = 0
    for index, token in enumerate(tokens):
        depth += _opens(token) - _closes(token)
        if depth == 0 and token in separators:
            parts.append(tokens[start:index])
            start = index + 1
    parts.append(tokens[start:])
    return parts


def enclosed(tokens: Tokens) -> bool:
    """Whether the first token opens a bracket that the last one closes."""
    if len(tokens) < 2 or tokens[0] not in _OPENING or tokens[-1] not in _CLOSING:
        return False
    depth = 0
    for index, token in enumerate(tokens):
        depth += (token in _OPENING) - (token in _CLOSING)
        if depth == 0:
            return index == len(tokens) - 1
    return False


def parameter(tokens: Tokens) -> str | None:
    r"""The letter that denotes any whole number: the k of `k \in \mathbb{Z}` and `for integers k`.

    Returns: None if the tokens have no such letter.
    """
    for index, token in enumerate(tokens):
        if not _is_letter(token):
            continue
        before = tokens[max(0, index - 1) : index]
        after = tokens[index + 1 : index + 5]
        in_a_set = after[:1] == (r"\in",) and ("Z" in after[:4] or "N" in after[:4])
        after_noun = before in ((TEXT + "integer",), (TEXT + "integers",))
        before_noun = after[:3] == (TEXT + "is", TEXT + "an", TEXT + "integer")
        if in_a_set or after_noun or before_noun:
            return token.removeprefix(TEXT)
    return None


def whole_numbers(tokens: Tokens) -> str | None:
    """Which whole numbers a letter denotes: "Z" for integers, "N" for natural numbers.

    Returns: None if no letter denotes whole numbers.
    """
    if parameter(tokens) is None:
        return None
    words = {token.removeprefix(TEXT).lower() for token in tokens if token.startswith(TEXT)}
    if not {"natural", "positive", "nonnegative"}.isdisjoint(words):
        return "N"
    for place, sign in enumerate(tokens):
        if sign == r"\in" and "N" in tokens[place + 1 : place + 4]:
            return "N"
    return "Z"


def nesting(tokens: Tokens) -> int:
    """The largest depth of nested brackets."""
    changes = (_opens(token) - _closes(token) for token in tokens)
    return max(accumulate(changes, initial=0))


def _opens(token: str) -> bool:
    return token in _OPENING or token.startswith(r"\begin{")


def _closes(token: str) -> bool:
    return token in _CLOSING or token.startswith(r"\end{")


def _without_quantifiers(tokens: Tokens) -> Tokens:
    r"""Remove `for all real x`, `where k is an integer` and `, k \in \mathbb{Z}`.

    These restrict nothing. A condition with a number or an inequality restricts the answer, so it
    stays. If the answer has an inequality, a remark about whole numbers stays too: it changes the
    solutions of x > 5.
    """
    if not INEQUALITIES.isdisjoint(tokens) and whole_numbers(tokens) is not None:
        return tokens
    for index, token in enumerate(tokens):
        if index and (token in _QUANTIFIERS or _declares(tokens[index - 1 : index + 3])):
            end = index + 1
            while end < len(tokens) and (tokens[end] in _DOMAIN or _is_letter(tokens[end])):
                end += 1
            after = tokens[end:]
            # The remark must go on after its first token, and end at the end of the answer or of
            # an item of it.
            if end > index + 1 and after[:1] in ((), (",",), (";",), ("and",), ("or",)):
                before = tokens[:index]
                if before[-1:] == ("(",) and tokens[end - 1] == ")":
                    before = before[:-1]
                return trimmed(_without_quantifiers(trimmed(before)) + after)
    return tokens


def _declares(tokens: Tokens) -> bool:
    r"""Whether the tokens begin a remark such as `, k \in \mathbb{Z}`."""
    if len(tokens) < 4:
        return False
    opening, letter, sign, domain = tokens[:4]
    membership = sign == r"\in" and domain in (r"\mathbb", "Z", "N", "R")
    return membership and opening in (",", ";", "(") and _is_letter(letter)


def _is_letter(token: str) -> bool:
    """Whether a token is a single letter, in a formula or in text, or PARAMETER."""
    bare = token.removeprefix(TEXT)
    return (len(bare) == 1 and bare.isalpha()) or token == PARAMETER


# Tokens that begin a remark such as `for all real x`, and tokens that may follow in it.
_QUANTIFIERS = {TEXT + "for", TEXT + "where", TEXT + "with", r"\forall"}
_DOMAIN = {TEXT + word for word in _DOMAIN_WORDS.split()} | {r"\in", r"\mathbb", "{", "}", "(", ")"}


def _in_order(tokens: Tokens, depth: int) -> Answer | None:
    """A list whose order counts, because a remark says so: `1, 2 respectively`."""
    words = tuple(token.removeprefix(TEXT).lower() for token in tokens[-4:])
    for remark in _ORDER_COUNTS:
        if words[-len(remark) :] == remark:
            answer = read(tokens[: -len(remark)], depth)
            # Equations with names need no order.
            if not isinstance(answer, Listed) or answer.joined_by == "or":
                return answer
            named = any(isinstance(item, Relation) for item in answer.items)
            return answer if named else Ordered(answer.items)
    return None


def _named_values(tokens: Tokens, depth: int) -> Answer | None:
    """As many names as values: x, y = 1, 2 and (a, b) = 3, 5.

    A point, (x, y) = (1, 2), is a relation instead.
    """
    sides = split(tokens, ("=",))
    if len(sides) != 2:
        return None
    left, right = sides
    if enclosed(left) and enclosed(right):
        return None
    names = [trimmed(name) for name in split(_without_brackets(left), (",",))]
    values = split(_without_brackets(right), (",",))
    if len(names) < 2 or len(names) != len(values) or not all(map(_is_name, names)):
        return None
    if any(enclosed(trimmed(value)) for value in values):  # (x, y) = (1, 2), (3, 4)
        return None
    equations = [name + ("=",) + value for name, value in zip(names, values, strict=True)]
    return Listed(tuple(read(equation, depth) for equation in equations))


def _without_brackets(tokens: Tokens) -> Tokens:
    """Tokens without the brackets that enclose them, if any do."""
    return tokens[1:-1] if enclosed(tokens) else tokens


def _is_name(tokens: Tokens) -> bool:
    """Whether the tokens are a letter, perhaps with an index, primes or an argument: x_1, f(x)."""
    if not tokens or not _is_letter(tokens[0]):
        return False
    for token in tokens[1:]:
        if token not in ("_", "'", "(", ")", ",") and not _is_letter(token) and not token.isdigit():
            return False
    return True


def _list(tokens: Tokens, depth: int) -> Answer | None:
    """Several answers. Semicolons and words separate groups; commas separate the items of a group.

    Groups stay together only if each is a system of equations: p = 5, q = 2 or p = 2, q = 5.
    """
    items = []
    sizes = []  # number of items of each group
    for group in labels.parts(tokens) or split(tokens, (";", "and", "or", r"\\")):
        items_of_group = [item for item in split(group, ",") if trimmed(item)]
        items += items_of_group
        sizes.append(len(items_of_group))
    if len(items) < 2:
        return None
    # Whether the items have labels is decided for the whole list.
    items = labels.equations_of(items)
    groups = []
    start = 0
    for size in sizes:
        if size:
            groups.append([read(item, depth) for item in items[start : start + size]])
        start += size
    joined_by = _conjunction(tokens)
    if len(groups) > 1 and all(_is_system(group) for group in groups):
        return Listed(tuple(Listed(tuple(group)) for group in groups), joined_by)
    flat = [answer for group in groups for answer in _flat(group)]
    return _with_shared_label(flat, joined_by)


def _conjunction(tokens: Tokens) -> str:
    """The word that joins the items of a list; empty if only commas do."""
    for word in ("or", "and"):
        if len(split(tokens, (word,))) > 1:
            return word
    return ""


def _is_system(items: list[Answer]) -> bool:
    """Whether the items are equations for different unknowns: p = 5, q = 2."""
    unknowns = {item.members[0] for item in items if isinstance(item, Relation)}
    return len(unknowns) == len(items) > 1


def _flat(items: Iterable[Answer]) -> list[Answer]:
    """The items, with each list replaced by its own items."""
    flat: list[Answer] = []
    for item in items:
        if isinstance(item, Listed):
            flat += item.items
        else:
            flat.append(item)
    return flat


def _with_shared_label(items: list[Answer], joined_by: str) -> Answer:
    """A list whose first item may have a label for all of them.

    x = 1, 2, 3 becomes the list 1, 2, 3, and x != 1, 2 becomes x != 1 and x != 2.
    """
    first = items[0]
    others = items[1:]
    if not isinstance(first, Relation) or any(isinstance(item, Relation) for item in others):
        return Listed(tuple(items), joined_by)
    if set(first.signs) == {"="} and not _may_be_label(first.members[0]):
        return Listed(tuple(items), joined_by)
    if set(first.signs) == {"="}:
        value = read(first.members[-1])
        if not isinstance(value, Relation):
            return Listed(tuple([value] + others), joined_by)
        first = value
    if first.signs != (r"\neq",):
        return Listed(tuple([first] + others), joined_by)
    unequal: list[Answer] = []
    for item in others:
        if isinstance(item, Formula):
            unequal.append(Relation((first.members[0], item.tokens), first.signs))
    return Listed(tuple([first] + (unequal or others)), "and")


def _may_be_label(tokens: Tokens) -> bool:
    r"""Whether the tokens may be the name of several values: x, x_1, (x, y), a + b.

    `2x`, `\pm x` and `half of x` may not.
    """
    for part in split(tokens, ("+", "-")):
        if not part or part[0][0].isdigit() or any(sign in part for sign in _NOT_IN_LABELS):
            return False
        if any(units.changes_value(word.removeprefix(TEXT)) for word in part):
            return False
    return True


def _relation(tokens: Tokens, depth: int) -> Answer | None:
    """An equation or inequality. A label before a value, `maximum: 2`, makes an equation too."""
    members = split(tokens, _RELATIONS)
    if len(members) < 2:
        equation = labels.as_equation(tokens)
        return _relation(equation, depth) if equation != tokens else None
    signs = []
    index = -1
    for member in members[:-1]:
        index += len(member) + 1
        signs.append(tokens[index])
    if not members[0] and signs[0] in ("=", r"\approx"):  # "= 5" is 5
        return read(tokens[1:], depth)
    # Leave out the rounded value of x = 1/3 \approx 0.33.
    if r"\approx" in signs[1:]:
        exact = signs.index(r"\approx", 1)
        members = members[: exact + 1]
        signs = signs[:exact]
    relation = Relation(tuple(map(trimmed, members)), tuple(signs))
    # (f(x), g(x)) = (x, 1) is read entry by entry; (x, y) = (1, 2) stays a point.
    if "(" not in relation.members[0][1:]:
        return relation
    return by_entry(relation, depth) or relation


def by_entry(relation: Relation, depth: int = 0) -> Listed | None:
    """An equation of two points, entry by entry: (x, y) = (1, 2) as x = 1, y = 2.

    Returns: None for any other relation.
    """
    left = relation.members[0]
    right = relation.members[-1]
    if relation.signs != ("=",) or not (enclosed(left) and enclosed(right)):
        return None
    names = split(left[1:-1], ",")
    values = split(right[1:-1], ",")
    if len(names) < 2 or len(names) != len(values):
        return None
    equations = [name + ("=",) + value for name, value in zip(names, values, strict=True)]
    return Listed(tuple(read(equation, depth) for equation in equations))


def _union(tokens: Tokens, depth: int) -> Answer | None:
    """A union or difference of sets, the real numbers, or the empty set."""
    parts = split(tokens, (r"\cup",))
    if len(parts) > 1:
        return Union(tuple(read(part, depth) for part in parts))
    sides = split(tokens, (r"\setminus", "-"))
    if len(sides) == 2 and enclosed(sides[1]):
        left, right = sides
        # A minus before a parenthesis is a subtraction.
        if right[0] == r"\{" or tokens[len(left)] == r"\setminus":
            return Without(read(left, depth), read(right, depth))
    if tokens in REALS:
        return EVERYTHING
    return Collected(()) if tokens == (r"\emptyset",) else None


def _brackets(tokens: Tokens, depth: int) -> Answer | None:
    """An answer in brackets: a set, a point, an interval, or brackets that mean nothing."""
    if not enclosed(tokens):
        return _turned_interval(tokens)
    opening = tokens[0]
    inside = tokens[1:-1]
    closing = tokens[-1]
    if opening == r"\{":
        return _set(inside, depth)
    if opening == "{":
        return read(inside, depth)
    if opening in (r"\lfloor", r"\lceil"):
        return None
    items = split(inside, (",", ";"))
    if len(items) == 1:
        # (5) is 5 and [5] is not, but brackets of either kind may surround a matrix.
        around_matrix = "".join(inside[:1]).startswith(r"\begin")
        if around_matrix or (opening, closing) == ("(", ")"):
            return read(inside, depth)
        return None
    if tokens.count(r"\pm") == 1:  # two points, as in (1, \pm 2)
        return _plus_minus(tokens, depth)
    # ((1, 2), (3, 4)) and [(1, 2), (3, 4)] are lists of points.
    if all(enclosed(trimmed(item)) for item in items):
        return Ordered(tuple(read(item, depth) for item in items))
    if len(items) == 2:
        left = trimmed(items[0])
        right = trimmed(items[1])
        infinite = left[-1:] == INFINITY or right[-1:] == INFINITY
        if infinite or opening == "[" or closing == "]":
            if right == _PLUS_INFINITY:
                right = INFINITY
            return Interval(left, right, opening == "(", closing == ")")
    if (opening, closing) not in (("(", ")"), ("[", "]"), (r"\langle", r"\rangle")):
        return None
    return Ordered(tuple(_flat(read(item, depth) for item in items)))


def _turned_interval(tokens: Tokens) -> Answer | None:
    """An interval in which a turned bracket marks an open end: ]a, b[, ]a, b] or [a, b[."""
    if len(tokens) < 5 or tokens[0] not in "]([" or tokens[-1] not in "[])":
        return None
    ends = split(tokens[1:-1], (",", ";"))
    if len(ends) != 2 or (tokens[0] != "]" and tokens[-1] != "["):
        return None
    left, right = (trimmed(end) for end in ends)
    return Interval(left, right, tokens[0] != "[", tokens[-1] != "]")


def _set(inside: Tokens, depth: int) -> Answer:
    r"""A set in braces: its items, or a condition as in \{x | x > 5\}, which is read as x > 5."""
    builder = split(inside, ("|", ":"))
    if len(builder) > 1 and builder[0] and _is_unknown(trimmed(builder[0])):
        return read(inside[len(builder[0]) + 1 :], depth)  # it may have bars, as in |x| > 5
    if len(builder) == 2 and builder[0]:
        inside = builder[0] + (",",) + builder[1]  # {2k : k in Z} as 2k, k in Z
    if not inside:
        return Collected(())
    shape = read(inside, depth)
    return Collected(shape.items if isinstance(shape, Listed) else (shape,))


def _is_unknown(tokens: Tokens) -> bool:
    r"""Whether the tokens are x, x \in \mathbb{R}, or a point of such names, (x, y)."""
    if tokens[1:2] == (r"\in",):
        domain = tokens[2:]
        return _is_letter(tokens[0]) and (domain in REALS or domain == ("R",))
    if enclosed(tokens):
        return all(_is_unknown(trimmed(part)) for part in split(tokens[1:-1], ","))
    return bool(tokens) and _is_letter(tokens[0]) and tokens[1:2] in ((), ("_",))


def _adjacent(tokens: Tokens, depth: int) -> Answer | None:
    """Points without a comma between them, (1,2) (3,4), or a point with its name, A(1,2)."""
    if tokens[-1:] != (")",):
        return None
    if len(tokens[0]) == 1 and tokens[0].isupper():
        point = read(tokens[1:], depth) if enclosed(tokens[1:]) else None
        return Relation((tokens[:1], tokens[1:]), ("=",)) if isinstance(point, Ordered) else None
    borders = [0]  # where a point begins or ends
    for index, token in enumerate(tokens):
        if token == ")" and tokens[index + 1 : index + 2] in ((), ("(",)):
            borders.append(index + 1)
    parts = [tokens[start:end] for start, end in pairwise(borders)]
    if len(parts) < 2 or not all(map(enclosed, parts)):
        return None
    points = tuple(read(part, depth) for part in parts)
    return Listed(points) if all(isinstance(point, Ordered) for point in points) else None


def _transposed(tokens: Tokens, depth: int) -> Answer | None:
    """The transpose of a matrix or vector.

    A vector stays as it is, because a row and a column are the same answer.
    """
    if "^" not in tokens[-4:]:
        return None
    body = _without_transposition(tokens)
    if body == tokens or not (enclosed(body) or (body[-1:] and body[-1].startswith(r"\end{"))):
        return None
    shape = as_matrix(as_vector(read(body, depth)))
    if isinstance(shape, Matrix) and len({len(row) for row in shape.rows}) == 1:
        return Matrix(tuple(zip(*shape.rows, strict=True)), tokens)
    return shape if isinstance(shape, Ordered) else None


def _without_transposition(tokens: Tokens) -> Tokens:
    r"""Tokens without the ^T or ^{\top} at their end; the same tokens if they have none."""
    last = tuple(token.removeprefix(TEXT) for token in tokens[-4:])
    for exponent in _TRANSPOSED:
        if last[-len(exponent) :] == exponent:
            return tokens[: -len(exponent)]
    return tokens


def as_vector(answer: Answer) -> Answer:
    """The vector [a, b], which was read as an interval; any other answer as it is."""
    if isinstance(answer, Interval) and not (answer.left_open or answer.right_open):
        return Ordered((Formula(answer.left), Formula(answer.right)))
    return answer


def as_matrix(answer: Answer) -> Answer:
    """Nested brackets such as [[1, 2], [3, 4]] as a matrix; any other answer as it is."""
    if not isinstance(answer, Ordered):
        return answer
    rows = []
    for item in answer.items:
        row = as_vector(item)
        if not isinstance(row, Ordered):
            return answer
        rows.append(row.items)
    equally_long = len({len(row) for row in rows}) == 1
    return Matrix(tuple(rows), ()) if equally_long else answer


def _matrix(tokens: Tokens, depth: int) -> Answer | None:
    r"""A matrix, or a system of equations or points, in an environment such as \begin{cases}."""
    if tokens[:1] == (r"\{",) and tokens[1:2] and tokens[1].startswith(r"\begin{"):
        tokens = tokens[1:]  # the closing bracket of a system is invisible
    if len(tokens) < 3 or not tokens[0].startswith(r"\begin{"):
        return None
    name = tokens[0].removeprefix(r"\begin{").rstrip("*}")
    ends = [index for index, token in enumerate(tokens) if token.startswith(r"\end{")]
    if name not in _MATRICES | _SYSTEMS or ends != [len(tokens) - 1]:
        return None
    inside = tokens[1:-1]
    # The alignment of the columns, {cc}.
    if name == "array" and inside[:1] == ("{",) and "}" in inside:
        inside = inside[inside.index("}") + 1 :]
    rows = [row for row in split(inside, (r"\\",)) if trimmed(row)]
    cells = tuple(tuple(read(cell, depth) for cell in split(row, ("&",))) for row in rows)
    if name in _SYSTEMS and all(isinstance(row[0], Relation | Ordered) for row in cells):
        if any(len(row) > 1 for row in cells):  # columns, as in a definition by cases
            return None
        joined_by = "and" if all(isinstance(row[0], Relation) for row in cells) else ""
        return Listed(tuple(row[0] for row in cells), joined_by)
    return Matrix(cells, tokens) if name in _MATRICES else None


def _plus_minus(tokens: Tokens, depth: int) -> Answer | None:
    r"""The two values that a \pm b denotes. \mp has the opposite sign."""
    if r"\pm" not in tokens or len(tokens) > 200:
        return None
    upper_signs = {r"\pm": "+", r"\mp": "-"}
    lower_signs = {r"\pm": "-", r"\mp": "+"}
    upper = tuple(upper_signs.get(token, token) for token in tokens)
    lower = tuple(lower_signs.get(token, token) for token in tokens)
    return Listed((read(upper, depth), read(lower, depth)), "or")
