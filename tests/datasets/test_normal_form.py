"""Copies of a problem have one normal form."""

import pytest

from rspo.datasets.normal_form import normal_form

ORIGINAL = r"If $f(x) = \frac{3x-2}{x-2}$, what is the value of $f(-2) + f(0.5)$?"


@pytest.mark.parametrize(
    "copy",
    [
        ORIGINAL,
        " " + ORIGINAL.replace(" ", "\n\t ") + "\n",
        ORIGINAL.upper().replace(r"\FRAC", r"\frac"),
        ORIGINAL.replace("$f", r"\(f").replace("$", r"\)"),
        ORIGINAL.replace(r"\frac", r"\dfrac"),
        ORIGINAL.replace("(-2)", r"\left(-2\right)"),
        ORIGINAL.replace("=", r"\,=\;"),
        ORIGINAL.replace(" + ", r"\ +\quad~"),
        ORIGINAL.replace(", what", " -- what").replace(" -- ", " "),
        ORIGINAL.replace("-", "−"),
        ORIGINAL.replace("(x)", "\uff08x\uff09"),  # full-width parentheses
    ],
)
def test_copies_have_one_normal_form(copy: str) -> None:
    assert normal_form(copy) == normal_form(ORIGINAL)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Find $x+1$", "Find $x-1$"),
        ("Find $1.5$", "Find $15$"),
        ("Find $(1,2)$", "Find $(12)$"),
        ("Find $f'(1)$", "Find $f(1)$"),
        ("Find $x^2$", "Find $x_2$"),
        ("Find $x^{12}$", "Find $x^12$"),
        ("Find $|x|$", "Find $x$"),
        ("Find $5!$", "Find $5$"),
        ("Find $x<1$", "Find $x>1$"),
        (r"Find $a \leftarrow b$", r"Find $a arrow b$"),
    ],
)
def test_other_mathematics_is_no_copy(one: str, other: str) -> None:
    assert normal_form(one) != normal_form(other)
