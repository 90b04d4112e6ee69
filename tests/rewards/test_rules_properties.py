r"""`rules` on generated answers: the same answer in another notation, and a nearby wrong one.

What is the same is known from how the answers are made, without the rules.
"""

import random
from collections.abc import Callable
from decimal import ROUND_HALF_EVEN, Decimal, localcontext

import pytest

from rspo.rewards import is_correct
from tests.support.attacks import boxed

ROWS = 60
Triple = tuple[str, str, str]  # an answer, the same in another notation, a different one


def points(draw: random.Random) -> Triple:
    """A list of different points in another order, and with two coordinates exchanged."""
    chosen = [(n, draw.randint(-9, 9), draw.randint(10, 20)) for n in draw.sample(range(9), 3)]

    def written(items: list[tuple[int, int, int]], joint: str) -> str:
        return joint.join(f"({a}, {b}, {c})" for a, b, c in items)

    shuffled = draw.sample(chosen, 3)
    joint = draw.choice([", ", " ", "; ", r" \text{ and } ", r" \\ "])
    (a, b, c), *rest = shuffled
    return written(chosen, ", "), written(shuffled, joint), written([(a, c, b), *rest], joint)


DELIMITERS: list[Callable[[str], str]] = [
    lambda rows: rf"\begin{{bmatrix}}{rows}\end{{bmatrix}}",
    lambda rows: rf"\begin{{Bmatrix}}{rows}\end{{Bmatrix}}",
    lambda rows: rf"\left[\begin{{array}}{{ccc}}{rows}\end{{array}}\right]",
    lambda rows: rf"\left(\begin{{matrix}}{rows}\\\end{{matrix}}\right)",
    lambda rows: "[[" + rows.replace("&", ",").replace(r"\\", "],[") + "]]",
]


def matrices(draw: random.Random) -> Triple:
    """A matrix in other delimiters or as a transpose, and its transpose."""
    rows = [[draw.randint(-9, 9) for _ in range(3)] for _ in range(2)]
    turned = [list(column) for column in zip(*rows, strict=True)]

    def body(matrix: list[list[int]]) -> str:
        return r"\\".join("&".join(map(str, row)) for row in matrix)

    delimited = draw.choice(DELIMITERS)
    same = draw.choice([delimited(body(rows)), delimited(body(turned)) + "^T"])
    return rf"\begin{{pmatrix}}{body(rows)}\end{{pmatrix}}", same, delimited(body(turned))


def rounded(draw: random.Random) -> Triple:
    """A root as a coefficient, as its decimal, and as one that is off by one in the last digit."""
    number, places = draw.choice([2, 3, 5, 6, 7, 8, 10, 11]), draw.randint(2, 6)
    with localcontext() as context:
        context.prec, context.rounding = 50, ROUND_HALF_EVEN
        unit = Decimal(1).scaleb(-places)
        decimal = Decimal(number).sqrt().quantize(unit)
    others = [decimal + 2 * unit, decimal - 2 * unit, -decimal]
    formula = draw.choice(["{} x + 5", "5 + {}x", r"y = {} x - 1", r"x^2 - {} x", "1 + {} i"])
    root = rf"\sqrt{{{number}}}"
    return tuple(formula.format(value) for value in (root, decimal, draw.choice(others)))  # type: ignore[return-value]


def unions(draw: random.Random) -> Triple:
    """Two intervals, one of them cut into two that touch, and the same without the cut point."""
    a, b, c, d, e = sorted(draw.sample(range(-20, 20), 5))
    left, right = draw.choice(["(]", "[)", "()", "[]"])
    whole = rf"{left}{a},{c}{right} \cup ({d},{e})"
    cut = [f"({d},{e})", f"{left}{a},{b}]", f"({b},{c}{right}"]
    joined = r" \cup ".join(draw.sample(cut, 3))
    return whole, joined, joined.replace(f"{b}]", f"{b})")


def moduli(draw: random.Random) -> Triple:
    """A range of |x| as a union, and with another end."""
    a, b = sorted(draw.sample(range(1, 20), 2))
    less, opening, closing = draw.choice([("<", "(", ")"), (r"\le", "[", "]")])
    union = rf"{opening}-{b},-{a}{closing} \cup {opening}{a},{b}{closing}"
    return f"{a} {less} |x| {less} {b}", union, union.replace(f"-{b}", f"-{b + 1}")


def labels(draw: random.Random) -> Triple:
    """A list with labels in another order, and with exchanged labels."""
    low, high = sorted(draw.sample(range(-50, 50), 2))
    one, other = draw.choice([("Maximum", "Minimum"), ("Length", "Width"), ("Area", "Perimeter")])
    sign, text = draw.choice([" = ", ": "]), draw.choice([r"\text{{{}}}", "{}"])
    first, second = (text.format(name) for name in (one, other))
    gold = rf"\text{{{one}}} = {high}, \text{{{other}}} = {low}"
    same = draw.choice([f"{second}{sign}{low}, {first}{sign}{high}", f"{high}, {low}"])
    return gold, same, f"{second}{sign}{high}, {first}{sign}{low}"


def functions(draw: random.Random) -> Triple:
    """A function under two names, and another function."""
    a, b = draw.randint(2, 30), draw.randint(1, 30)
    name, argument = draw.choice("fgh"), draw.choice("xt")
    rule, other = f"{a}{argument}+{b}", f"{a}{argument}-{b}"
    one, two = f"y = {rule}", f"{name}({argument}) = {rule}"
    return one, two, f"{name}({argument}) = {other}"


def ordinals(draw: random.Random) -> Triple:
    number = draw.randint(4, 20)
    other = draw.choice([number + 1, 10 * number, number - 1])
    form = draw.choice(["{}th", r"{}^{{th}}", r"{}^{{\text{{th}}}}", r"{}\text{{th}}"])
    return str(number), form.format(number), form.format(other)


MAKERS = (points, matrices, rounded, unions, moduli, labels, functions, ordinals)


@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
def test_another_notation_is_accepted_and_another_answer_is_refused(
    make: Callable[[random.Random], Triple],
) -> None:
    draw = random.Random(0)
    triples = [make(draw) for _ in range(ROWS)]
    golds = [gold for gold, _, _ in triples]
    same = is_correct([boxed(same) for _, same, _ in triples], golds)
    different = is_correct([boxed(different) for _, _, different in triples], golds)
    assert [row for row, right in zip(triples, same, strict=True) if not right] == []
    assert [row for row, right in zip(triples, different, strict=True) if right] == []
