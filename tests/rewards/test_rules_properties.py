r"""`rules` on generated answers: the same answer in another notation, and a nearby wrong one.

What is the same is known from how the answers are made, without the rules.
"""

import random
from collections.abc import Callable

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
    joint = draw.choice([", ", "; ", r" \text{ and } "])
    (a, b, c), *rest = shuffled
    return written(chosen, ", "), written(shuffled, joint), written([(a, c, b), *rest], joint)


DELIMITERS: list[Callable[[str], str]] = [
    lambda rows: rf"\begin{{bmatrix}}{rows}\end{{bmatrix}}",
    lambda rows: rf"\begin{{Bmatrix}}{rows}\end{{Bmatrix}}",
    lambda rows: rf"\left[\begin{{array}}{{ccc}}{rows}\end{{array}}\right]",
    lambda rows: rf"\left(\begin{{matrix}}{rows}\\\end{{matrix}}\right)",
]


def matrices(draw: random.Random) -> Triple:
    """A matrix in other delimiters, and its transpose."""
    rows = [[draw.randint(-9, 9) for _ in range(3)] for _ in range(2)]
    turned = [list(column) for column in zip(*rows, strict=True)]

    def body(matrix: list[list[int]]) -> str:
        return r"\\".join("&".join(map(str, row)) for row in matrix)

    delimited = draw.choice(DELIMITERS)
    gold = rf"\begin{{pmatrix}}{body(rows)}\end{{pmatrix}}"
    return gold, delimited(body(rows)), delimited(body(turned))


def unions(draw: random.Random) -> Triple:
    """Two intervals, one of them cut into two that touch, and the same without the cut point."""
    a, b, c, d, e = sorted(draw.sample(range(-20, 20), 5))
    left, right = draw.choice(["(]", "[)", "()", "[]"])
    whole = rf"{left}{a},{c}{right} \cup ({d},{e})"
    cut = [f"({d},{e})", f"{left}{a},{b}]", f"({b},{c}{right}"]
    joined = r" \cup ".join(draw.sample(cut, 3))
    return whole, joined, joined.replace(f"{b}]", f"{b})")


def ordinals(draw: random.Random) -> Triple:
    number = draw.randint(4, 20)
    other = draw.choice([number + 1, 10 * number, number - 1])
    form = draw.choice(["{}th", r"{}^{{th}}", r"{}^{{\text{{th}}}}", r"{}\text{{th}}"])
    return str(number), form.format(number), form.format(other)


MAKERS = (points, matrices, unions, ordinals)


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
