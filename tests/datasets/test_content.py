"""The content hash depends on the problems, but not on how they are stored."""

import hashlib

import pytest

from rspo.datasets.content import content_sha256

PROBLEMS = [("What is $1+1$?", ["2"]), ("Solve $x^2=4$.", ["2", "-2"])]


def test_it_is_the_sha256_of_one_json_line_per_problem() -> None:
    """You can compute it in a shell: printf '["..."]\\n...' | sha256sum"""
    lines = b'["What is $1+1$?", "2"]\n["Solve $x^2=4$.", "2", "-2"]\n'
    assert content_sha256(PROBLEMS) == hashlib.sha256(lines).hexdigest()


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("What is $1+1$?\n", "2"),
        ("  What  is\r\n\t$1+1$?", " 2 "),
        ("What\u00a0is $1+1$?", "2"),
        ("What is $1+1$?", "2.0"),
    ],
)
def test_whitespace_and_trailing_zeros_do_not_change_it(text: str, answer: str) -> None:
    assert content_sha256([(text, [answer]), PROBLEMS[1]]) == content_sha256(PROBLEMS)


def test_a_letter_with_a_combining_accent_equals_the_accented_letter() -> None:
    assert content_sha256([("Poincare\u0301", ["1"])]) == content_sha256([("Poincar\u00e9", ["1"])])


@pytest.mark.parametrize(
    "others",
    [
        [("What is $1+2$?", ["2"]), PROBLEMS[1]],
        [("What is $1 + 1$?", ["2"]), PROBLEMS[1]],
        [("what is $1+1$?", ["2"]), PROBLEMS[1]],
        [("What is $1+1$?", ["3"]), PROBLEMS[1]],
        [("What is $1+1$?", ["02"]), PROBLEMS[1]],
        [("What is $1+1$?", ["2.00001"]), PROBLEMS[1]],
        [("What is $1+1$?", ["-2"]), PROBLEMS[1]],
        [("What is $1+1$?", ["2", "two"]), PROBLEMS[1]],
        PROBLEMS[::-1],
        PROBLEMS[:1],
        [*PROBLEMS, PROBLEMS[0]],
        [PROBLEMS[0], ("Solve $x^2=4$.", ["-2", "2"])],
    ],
)
def test_every_change_of_meaning_or_order_changes_it(others: list[tuple[str, list[str]]]) -> None:
    assert content_sha256(others) != content_sha256(PROBLEMS)
