"""The final answer of a text is the content of its last box."""

import pytest

from rspo.rewards.extraction import final_answers, last_box


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"so it is \boxed{5}.", "5"),
        (r"\boxed{ 5 }", "5"),
        (r"\boxed{1}, or rather \boxed{2}", "2"),
        (r"\boxed {17}.$$- OR - we note", "17"),
        (r"\fbox{3}", "3"),
        # braces nest, escaped braces do not
        (r"\boxed{\frac{1}{1+\frac{1}{2}}} as required", r"\frac{1}{1+\frac{1}{2}}"),
        (r"\boxed{\{1,2\}}", r"\{1,2\}"),
        (r"\boxed{\left\{ x \right.} then {y}", r"\left\{ x \right."),
        (r"\boxed{a \\{b}}", r"a \\{b}"),
        # nested boxes: the innermost is the last
        (r"\boxed{x = \boxed{5}}", "5"),
        # without braces: up to the next space or the end of the formula
        (r"the answer is $\boxed 2$.", "2"),
        (r"$x^2 + y^2 = \boxed 9$.", "9"),
        (r"\boxed5", "5"),
        (r"\(\boxed \frac{1}{2}\) is it", r"\frac{1}{2}"),
        (r"it is \boxed 42, which", "42"),
        # several lines
        ("\\boxed{\n1\n}", "1"),
    ],
)
def test_the_last_box_counts(text: str, answer: str) -> None:
    assert last_box(text) == answer


@pytest.mark.parametrize(
    "text",
    [
        *("", "5", r"\boxed{}", r"\boxed{  }"),
        *(r"\boxed{5", r"\boxed{5} \boxed{6", r"\boxed", r"\boxedx{5}"),
    ],
)
def test_no_answer(text: str) -> None:
    """An empty or unclosed last box is no answer, even after a complete box."""
    assert last_box(text) is None
    assert final_answers(text) == []


@pytest.mark.parametrize(
    ("text", "answers"),
    [
        (r"\boxed{1}", ["1"]),
        (r"$\boxed{1}$, $\boxed{2}$", ["1, 2", "2"]),
        (r"\boxed{1} and \boxed{2}", ["1, 2", "2"]),
        (r"\boxed{1} \text{ or } \boxed{2}", ["1 or 2"]),
        (r"\boxed{1} or \boxed{2}", ["1 or 2"]),
        (r"\boxed{1}! \boxed{2}", ["2"]),
        (r"\boxed{1} => \boxed{2}", ["2"]),
        (r"$y_1 = \boxed{1}$ and $y_2 = \boxed{2}$", ["1, 2", "2"]),
        (r"\boxed{1}, so \boxed{1}", ["1"]),
        (r"\boxed{1}. Or rather, \boxed{2}", ["2"]),
        (r"\boxed{1} no, \boxed{2}", ["2"]),
        (r"\boxed{0}. Then \boxed{1}, \boxed{2}", ["1, 2", "2"]),
    ],
)
def test_boxes_that_a_conjunction_joins_may_be_one_answer(text: str, answers: list[str]) -> None:
    assert final_answers(text) == answers


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"% \boxed{7}", None),
        ("\\boxed{8}\n  % \\boxed{7}", "8"),
        (r"If n % 2 = 1 then the answer is \boxed{7}", "7"),
        (r"twenty five % of the total, so \boxed{25}", "25"),
        (r"a % b = \boxed{7}", "7"),
        ("% nothing\n\\boxed{8}", "8"),
        (r"it rose by 5% to \boxed{8}", "8"),
        (r"it rose by 5 % to \boxed{8}", "8"),
        (r"it rose by $5\%$ to \boxed{50\%}", r"50\%"),
    ],
)
def test_a_line_that_starts_with_a_percent_sign_is_a_comment(text: str, answer: str | None) -> None:
    assert last_box(text) == answer
