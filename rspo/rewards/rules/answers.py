r"""The structure of an answer: tokens -> list, tuple, set, interval, matrix, relation or formula.

This module does not compare answers. `equivalence` decides whether two structures mean the same, as
`x < 5` and `(-\infty, 5)` do.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import accumulate, pairwise

from rspo.rewards.rules import labels
from rspo.rewards.rules.notation import TEXT, Tokens, trimmed

INEQUALITIES = {"<", ">", r"\leq", r"\geq"}
REVERSED = {"<": ">", ">": "<", r"\leq": r"\geq", r"\geq": r"\leq", "=": "=", r"\neq": r"\neq"}
_RELATIONS = INEQUALITIES | {"=", r"\neq", r"\approx", r"\in"}
_OPENING = {"(", "[", "{", r"\{", r"\langle", r"\lfloor", r"\lceil"}
_CLOSING = {")", "]", "}", r"\}", r"\rangle", r"\rfloor", r"\rceil"}
_MATRICES = {"matrix", "pmatrix", "bmatrix", "Bmatrix", "array", "smallmatrix"}
_SYSTEMS = {"cases", "array", "aligned", "align", "gathered"}
_TRANSPOSED = (("^", "T"), ("^", "{", "T", "}"), ("^", r"\top"), ("^", "{", r"\top", "}"))
_DEEPEST = 20
PARAMETER = r"\parameter"  # replaces a letter that denotes any integer
_DOMAIN_WORDS = (
    "for all any every each some real integer integers number numbers natural positive whole "
    "values where with is are an arbitrary constant constants being"
)

REALS: tuple[Tokens, ...] = ((r"\mathbb", "{", "R", "}"), (r"\mathbb", "R"))
INFINITY: Tokens = (r"\infty",)
MINUS_INFINITY: Tokens = ("-", r"\infty")


@dataclass(frozen=True)
class Formula:
    """Anything without a structure of its own: a number, an expression, words."""

    tokens: Tokens


@dataclass(frozen=True)
class Listed:
    """Several answers without brackets; `joined_by` is "and", "or" or empty."""

    items: tuple["Answer", ...]
    joined_by: str = ""


@dataclass(frozen=True)
class Ordered:
    """(a, b, ...): a point or vector. With two entries it may also be an open interval."""

    items: tuple["Answer", ...]


@dataclass(frozen=True)
class Collected:
    r"""\{a, b, ...\}"""

    items: tuple["Answer", ...]


@dataclass(frozen=True)
class Matrix:
    rows: tuple[tuple["Answer", ...], ...]
    tokens: Tokens = field(compare=False)


@dataclass(frozen=True)
class Interval:
    """An interval with a closed end or an end at infinity, so that it cannot be a point."""

    left: Tokens
    right: Tokens
    left_open: bool
    right_open: bool


@dataclass(frozen=True)
class Union:
    parts: tuple["Answer", ...]


@dataclass(frozen=True)
class Without:
    r"""left \\setminus right"""

    left: "Answer"
    right: "Answer"


@dataclass(frozen=True)
class Relation:
    """Members and the signs between them: x = 5, -1 < x <= 3, x in S."""

    members: tuple[Tokens, ...]
    signs: tuple[str, ...]


Answer = Formula | Listed | Ordered | Collected | Matrix | Interval | Union | Without | Relation

EVERYTHING = Interval(MINUS_INFINITY, INFINITY, True, True)


def read(tokens: Tokens, depth: int = 0) -> Answer:
    """The structure of an answer; a formula if no other structure fits."""
    tokens = _without_quantifiers(trimmed(tokens))
    if depth > _DEEPEST or (len(tokens) == 1 and tokens[0].isalnum()):
        return Formula(tokens)
    readers = _list, _relation, _union, _brackets, _adjacent, _transposed, _matrix, _plus_minus
    shapes = (reader(tokens, depth + 1) for reader in readers)
    return next((shape for shape in shapes if shape is not None), Formula(tokens))


def as_interval(answer: Answer) -> Interval | None:
    """An interval, which with two open ends reads as a point; None for anything else."""
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
    parts, start, depth = [], 0, 0
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
    r"""The letter that denotes any integer: k in `k \in \mathbb{Z}`, `for integers k`."""
    for index, token in enumerate(tokens):
        if not _is_letter(token):
            continue
        after, before = tokens[index + 1 : index + 5], tokens[max(0, index - 1) : index]
        whole = after[:1] == (r"\in",) and ("Z" in after[:4] or "N" in after[:4])
        said = before in ((TEXT + "integer",), (TEXT + "integers",))
        if whole or said or after[:3] == (TEXT + "is", TEXT + "an", TEXT + "integer"):
            return token.removeprefix(TEXT)
    return None


def whole_numbers(tokens: Tokens) -> str | None:
    """Which whole numbers a text says that a letter denotes: "Z", "N", or None for neither."""
    if parameter(tokens) is None:
        return None
    words = {token.removeprefix(TEXT).lower() for token in tokens if token.startswith(TEXT)}
    natural = not {"natural", "positive", "nonnegative"}.isdisjoint(words)
    declared = any(
        sign == r"\in" and "N" in tokens[place + 1 : place + 4] for place, sign in enumerate(tokens)
    )
    return "N" if natural or declared else "Z"


def nesting(tokens: Tokens) -> int:
    """The largest depth of nested brackets."""
    steps = (_opens(token) - _closes(token) for token in tokens)
    return max(accumulate(steps, initial=0))


def _opens(token: str) -> bool:
    return token in _OPENING or token.startswith(r"\begin{")


def _closes(token: str) -> bool:
    return token in _CLOSING or token.startswith(r"\end{")


def _without_quantifiers(tokens: Tokens) -> Tokens:
    r"""Without `for all real x`, `where k is an integer` and `, k \in \mathbb{Z}`.

    These restrict nothing. A condition with a number or an inequality does, and is kept, and so are
    whole numbers beside an inequality.
    """
    if not INEQUALITIES.isdisjoint(tokens) and whole_numbers(tokens) is not None:
        return tokens
    for index, token in enumerate(tokens):
        if index and (token in _QUANTIFIERS or _declares(tokens[index - 1 : index + 3])):
            end = index + 1
            while end < len(tokens) and (tokens[end] in _DOMAIN or _is_letter(tokens[end])):
                end += 1
            after = tokens[end:]
            if end > index + 1 and after[:1] in ((), (",",), (";",), ("and",), ("or",)):
                before = tokens[:index]
                if before[-1:] == ("(",) and tokens[end - 1] == ")":
                    before = before[:-1]
                return trimmed(_without_quantifiers(trimmed(before)) + after)
    return tokens


def _declares(tokens: Tokens) -> bool:
    opening, letter, sign, domain = (*tokens, "", "")[:4]
    membership = sign == r"\in" and domain in (r"\mathbb", "Z", "N", "R")
    return membership and opening in (",", ";", "(") and _is_letter(letter)


def _is_letter(token: str) -> bool:
    bare = token.removeprefix(TEXT)
    return (len(bare) == 1 and bare.isalpha()) or token == PARAMETER


_QUANTIFIERS = {TEXT + "for", TEXT + "where", TEXT + "with", r"\forall"}
_DOMAIN = {TEXT + word for word in _DOMAIN_WORDS.split()} | {r"\in", r"\mathbb", "{", "}", "(", ")"}


def _list(tokens: Tokens, depth: int) -> Answer | None:
    groups = labels.parts(tokens) or split(tokens, (";", "and", "or", r"\\"))
    groups = [part for part in groups if trimmed(part)]
    parts = [[item for item in split(group, ",") if trimmed(item)] for group in groups]
    if sum(len(group) for group in parts) < 2:
        return None
    equations = iter(labels.of_list([item for group in parts for item in group]))
    parts = [[next(equations) for _ in group] for group in parts]
    items = [[read(item, depth) for item in group] for group in parts]
    joined_by = next((word for word in ("or", "and") if len(split(tokens, (word,))) > 1), "")
    if len(items) > 1 and all(_is_system(group) for group in items):
        return Listed(tuple(Listed(tuple(group)) for group in items), joined_by)
    flat = [item for group in items for item in _flat(group)]
    return _with_shared_label(flat, joined_by)


def _is_system(items: list[Answer]) -> bool:
    """Several unknowns with one value each: p = 5, q = 2."""
    labels = {item.members[0] for item in items if isinstance(item, Relation)}
    return len(labels) == len(items) > 1


def _flat(items: Iterable[Answer]) -> list[Answer]:
    flat: list[Answer] = []
    for item in items:
        flat += item.items if isinstance(item, Listed) else (item,)
    return flat


def _with_shared_label(items: list[Answer], joined_by: str) -> Answer:
    """x = 1, 2, 3 is x = 1, x = 2, x = 3; and x != 1, 2 is x != 1 and x != 2."""
    first, *others = items
    alone = not any(isinstance(item, Relation) for item in others)
    if alone and isinstance(first, Relation) and set(first.signs) == {"="}:
        first = read(first.members[-1])
    if alone and isinstance(first, Relation) and first.signs == (r"\neq",):
        unequal = [
            Relation((first.members[0], item.tokens), first.signs)
            for item in others
            if isinstance(item, Formula)
        ]
        return Listed((first, *(unequal or others)), "and")
    return Listed((first, *others), joined_by)


def _relation(tokens: Tokens, depth: int) -> Answer | None:
    members = split(tokens, _RELATIONS)
    if len(members) < 2:
        equation = labels.labelled(tokens)
        return _relation(equation, depth) if equation != tokens else None
    signs, index = [], -1
    for member in members[:-1]:
        index += len(member) + 1
        signs.append(tokens[index])
    if not members[0] and signs[0] in ("=", r"\approx"):  # "= 5" is 5
        return read(tokens[1:], depth)
    if r"\approx" in signs[1:]:  # x = 1/3 = 0.33, roughly
        exact = signs.index(r"\approx", 1)
        members, signs = members[: exact + 1], signs[:exact]
    relation = Relation(tuple(map(trimmed, members)), tuple(signs))
    # (f(x), g(x)) = (x, 1) entry by entry; (x, y) = (1, 2) stays a point.
    return relation if "(" not in relation.members[0][1:] else by_entry(relation, depth) or relation


def by_entry(relation: Relation, depth: int = 0) -> Listed | None:
    """(x, y) = (1, 2) as x = 1, y = 2; None for what is no equation of two points."""
    label, value = relation.members[0], relation.members[-1]
    if relation.signs != ("=",) or not (enclosed(label) and enclosed(value)):
        return None
    labels, values = split(label[1:-1], ","), split(value[1:-1], ",")
    if len(labels) < 2 or len(labels) != len(values):
        return None
    return Listed(
        tuple(read((*pair[0], "=", *pair[1]), depth) for pair in zip(labels, values, strict=True))
    )


def _union(tokens: Tokens, depth: int) -> Answer | None:
    parts = split(tokens, (r"\cup",))
    if len(parts) > 1:
        return Union(tuple(read(part, depth) for part in parts))
    left_and_right = split(tokens, (r"\setminus", "-"))
    if len(left_and_right) == 2 and enclosed(left_and_right[1]):
        left, right = left_and_right
        if right[0] == r"\{" or tokens[len(left)] == r"\setminus":
            return Without(read(left, depth), read(right, depth))
    if tokens in REALS:
        return EVERYTHING
    return Collected(()) if tokens == (r"\emptyset",) else None


def _brackets(tokens: Tokens, depth: int) -> Answer | None:
    if not enclosed(tokens):
        return _turned_interval(tokens)
    opening, inside, closing = tokens[0], tokens[1:-1], tokens[-1]
    if opening == r"\{":
        return _set(inside, depth)
    if opening in ("{", r"\lfloor", r"\lceil"):
        return read(inside, depth) if opening == "{" else None
    items = split(inside, (",", ";"))
    if len(items) == 1:
        bare = (opening, closing) == ("(", ")") or "".join(inside[:1]).startswith(r"\begin")
        return read(inside, depth) if bare else None
    if tokens.count(r"\pm") == 1:
        return _plus_minus(tokens, depth)
    if all(map(enclosed, map(trimmed, items))):
        return Ordered(tuple(read(item, depth) for item in items))
    infinite = trimmed(items[0])[-1:] == INFINITY or trimmed(items[-1])[-1:] == INFINITY
    if len(items) == 2 and (infinite or "[" in opening or "]" in closing):
        left, right = (trimmed(item) for item in items)
        right = INFINITY if right == ("+", *INFINITY) else right
        return Interval(left, right, opening == "(", closing == ")")
    if (opening, closing) not in (("(", ")"), ("[", "]"), (r"\langle", r"\rangle")):
        return None
    return Ordered(tuple(_flat(read(item, depth) for item in items)))


def _turned_interval(tokens: Tokens) -> Answer | None:
    """]a, b[, as some countries write the open interval."""
    if len(tokens) < 5 or tokens[0] not in "]([" or tokens[-1] not in "[])":
        return None
    ends = split(tokens[1:-1], (",", ";"))
    if len(ends) != 2 or (tokens[0] != "]" and tokens[-1] != "["):
        return None
    left, right = (trimmed(end) for end in ends)
    return Interval(left, right, tokens[0] != "[", tokens[-1] != "]")


def _set(inside: Tokens, depth: int) -> Answer:
    builder = split(inside, ("|", ":"))
    if len(builder) == 2 and builder[0]:
        if _is_unknown(trimmed(builder[0])):
            return read(builder[1], depth)
        inside = (*builder[0], ",", *builder[1])  # {2k : k in Z} as 2k, k in Z
    if not inside:
        return Collected(())
    shape = read(inside, depth)
    return Collected(shape.items if isinstance(shape, Listed) else (shape,))


def _is_unknown(tokens: Tokens) -> bool:
    r"""x, also as x \in \mathbb{R}, or a point (x, y)."""
    if tokens[1:2] == (r"\in",):
        return _is_letter(tokens[0]) and tokens[2:] in (*REALS, ("R",))
    if enclosed(tokens):
        return all(_is_unknown(trimmed(part)) for part in split(tokens[1:-1], ","))
    return bool(tokens) and _is_letter(tokens[0]) and tokens[1:2] in ((), ("_",))


def _adjacent(tokens: Tokens, depth: int) -> Answer | None:
    """Points without a comma between them, (1,2) (3,4), and with a letter, A(1,2)."""
    if tokens[-1:] != (")",):
        return None
    if len(tokens[0]) == 1 and tokens[0].isupper():
        point = read(tokens[1:], depth) if enclosed(tokens[1:]) else None
        return Relation((tokens[:1], tokens[1:]), ("=",)) if isinstance(point, Ordered) else None
    ends = [
        index + 1
        for index, token in enumerate(tokens)
        if token == ")" and tokens[index + 1 : index + 2] in ((), ("(",))
    ]
    parts = [tokens[start:end] for start, end in pairwise([0, *ends])]
    if len(parts) < 2 or ends[-1] != len(tokens) or not all(map(enclosed, parts)):
        return None
    points = tuple(read(part, depth) for part in parts)
    return Listed(points) if all(isinstance(point, Ordered) for point in points) else None


def _transposed(tokens: Tokens, depth: int) -> Answer | None:
    """The transpose of a matrix, or of a vector, whose rows and columns are the same."""
    if "^" not in tokens[-4:]:
        return None
    bare = tuple(token.removeprefix(TEXT) for token in tokens[-4:])
    end = next((end for end in _TRANSPOSED if bare[-len(end) :] == end), ())
    body = tokens[: len(tokens) - len(end)]
    if not end or not (enclosed(body) or (body[-1:] and body[-1].startswith(r"\end{"))):
        return None
    shape = as_matrix(as_vector(read(body, depth)))
    if isinstance(shape, Matrix) and len({len(row) for row in shape.rows}) == 1:
        return Matrix(tuple(zip(*shape.rows, strict=True)), tokens)
    return shape if isinstance(shape, Ordered) else None


def as_vector(answer: Answer) -> Answer:
    """A vector in square brackets, which reads as an interval if it has two entries."""
    if isinstance(answer, Interval) and not (answer.left_open or answer.right_open):
        return Ordered((Formula(answer.left), Formula(answer.right)))
    return answer


def as_matrix(answer: Answer) -> Answer:
    """[[1, 2], [3, 4]] as a matrix; anything else as it is."""
    rows = [as_vector(row) for row in answer.items] if isinstance(answer, Ordered) else []
    cells = tuple(row.items for row in rows if isinstance(row, Ordered))
    square = len(cells) == len(rows) > 0 and len(set(map(len, cells))) == 1
    return Matrix(cells, ()) if square else answer


def _matrix(tokens: Tokens, depth: int) -> Answer | None:
    if tokens[:1] == (r"\{",) and tokens[1:2] and tokens[1].startswith(r"\begin{"):
        tokens = tokens[1:]  # the closing bracket of a system is invisible
    if len(tokens) < 3 or not tokens[0].startswith(r"\begin{"):
        return None
    name = tokens[0].removeprefix(r"\begin{").rstrip("*}")
    ends = [index for index, token in enumerate(tokens) if token.startswith(r"\end{")]
    if name not in _MATRICES | _SYSTEMS or ends != [len(tokens) - 1]:
        return None
    inside = tokens[1:-1]
    if name == "array" and inside[:1] == ("{",) and "}" in inside:
        inside = inside[inside.index("}") + 1 :]
    rows = [row for row in split(inside, (r"\\",)) if trimmed(row)]
    cells = tuple(tuple(read(cell, depth) for cell in split(row, ("&",))) for row in rows)
    if name in _SYSTEMS and all(isinstance(row[0], Relation | Ordered) for row in cells):
        single = all(len(row) == 1 for row in cells)
        joined_by = "and" if all(isinstance(row[0], Relation) for row in cells) else ""
        return Listed(tuple(row[0] for row in cells), joined_by) if single else None
    return Matrix(cells, tokens) if name in _MATRICES else None


def _plus_minus(tokens: Tokens, depth: int) -> Answer | None:
    r"""a \pm b as the two values that it denotes."""
    if r"\pm" not in tokens or len(tokens) > 200:
        return None
    upper = tuple({r"\pm": "+", r"\mp": "-"}.get(token, token) for token in tokens)
    lower = tuple({r"\pm": "-", r"\mp": "+"}.get(token, token) for token in tokens)
    return Listed((read(upper, depth), read(lower, depth)))
