r"""Reads vectors that are written as sums of unit vectors: \hat{i} + 2\hat{j} is (1, 2)."""

import re

from rspo.rewards.rules import quantities
from rspo.rewards.rules.answers import Formula, Ordered
from rspo.rewards.rules.notation import Tokens

# The variables that replace the unit vectors, because i is also the imaginary unit.
_UNIT_VECTORS = {"i": "u", "j": "v", "k": "w", r"\imath": "u", r"\jmath": "v"}
_VECTORS = frozenset("uvw")
_ACCENTED = re.compile(r"\\(?:hat|vec) \{ ([ijk]|\\[ij]math) \}")


def same(point: Ordered, formula: Formula) -> bool:
    """Whether a formula is a vector as a sum of unit vectors: i + 2j is (1, 2)."""
    tokens = _with_unit_vectors(formula.tokens)
    if not _VECTORS.isdisjoint(formula.tokens) or "v" not in tokens:
        return False
    if not 2 <= len(point.items) <= 3:
        return False
    total: Tokens = ()
    for name, item in zip("uvw", point.items, strict=False):
        if not isinstance(item, Formula):
            return False
        total += ("+", "(") + item.tokens + (")", "*", name)
    return quantities.same_value(total[1:], tokens)


def _with_unit_vectors(tokens: Tokens) -> Tokens:
    r"""A formula with u, v and w in place of i, \hat{j} and \vec{k}."""
    bare = _ACCENTED.sub(r"\1", " ".join(tokens)).split(" ")
    return tuple(_UNIT_VECTORS.get(token, token) for token in bare)
