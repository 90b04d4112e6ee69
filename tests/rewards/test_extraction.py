"""The final answer of a text is the content of its last box, or stands at a chosen place."""

import pytest

from rspo.config.names import EXTRACTIONS, PLACES
from rspo.core.errors import InputError
from rspo.rewards import is_correct, verify
from rspo.rewards.extraction import extracted_answer, final_answers, last_box
from tests.support.numbers_in_text import MARK, texts
from tests.support.processor_time import seconds_of


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
        r"\boxed{5} hmm \boxed {6",
        "\\boxed{5} hmm \\boxed\n{6",
        r"\boxed{5} so \boxed ",
        r"\boxed{\,}",
        r"\boxed{\ }",
        r"\boxed{$$}",
        r"\boxed{\text{ }}",
        r"\boxed{~}",
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


ALTERNATIVES = (
    r"or¦Or¦OR¦∨¦或¦\lor¦\vee¦"
    r"/¦|¦or possibly¦or maybe it is¦\text{ or }¦"
    "\\text{or maybe}¦$ or $¦. Or¦\n\nor\n\n¦"
    r"alternatively¦oder¦или¦vs.¦perhaps¦maybe¦\mid¦+¦×¦\times¦\pm"
).split(MARK)


@pytest.mark.parametrize("gap", ALTERNATIVES)
def test_a_text_that_offers_two_boxes_gives_neither(gap: str) -> None:
    text = rf"\boxed{{7}} {gap} \boxed{{8}}"
    assert final_answers(text) == ["7 or 8"]
    assert is_correct([text] * 2, ["7", "8"]) == [False, False]


def test_a_box_after_or_rather_corrects_the_one_before_it() -> None:
    assert final_answers(r"\boxed{7}, or rather \boxed{8}") == ["8"]


CALCULATIONS = (
    "</think>\n\n¦\n\n7 + 1 = ¦ km/h. Answer: ¦$\n\n$7 \\times 2 - 6 = ¦ for n/2 so ¦ / 3 + 1 = "
    r"¦ so | x | = ¦ for n or more, x = ¦ (or equivalently "
).split(MARK)


@pytest.mark.parametrize("gap", CALCULATIONS)
def test_a_box_after_a_sign_or_word_within_other_text_stands_alone(gap: str) -> None:
    assert final_answers(rf"\boxed{{7}}{gap}\boxed{{8}}") == ["8"]


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


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"\boxed{5} and that is all: \boxed{}", "5"),
        (r"\boxed{5} \boxed{ } \boxed{}", "5"),
        (r"\boxed{5}" + r"\boxed{}" * 30, "5"),
        (r"\boxed{5} \boxed{\,}", "5"),
        (r"\framebox{5}", "5"),
    ],
)
def test_an_empty_box_does_not_hide_the_box_before_it(text: str, answer: str) -> None:
    assert final_answers(text) == [answer]
    assert is_correct([text] * 2, ["5", "6"]) == [True, False]


@pytest.mark.parametrize(
    ("place", "text", "answer"),
    [
        ("answer-line", "So m+n = 34.\n\nAnswer: 34", "34"),
        ("answer-line", "Answer: 1\nNo, wait.\nAnswer: 34", "34"),
        ("answer-line", "**Answer:** 34", "34"),
        ("answer-line", "**Final Answer**: $34$.", "$34$"),
        ("answer-line", "**Answer:**\n\n34", "34"),
        ("answer-line", "Thus the answer is 3.5. I checked it.", "3.5"),
        ("answer-line", "The answer is **34**.", "34"),
        ("answer-line", r"Answer: $\boxed{34}$", "34"),
        ("answer-line", "Answer: (C) 42", "(C) 42"),
        ("answer-line", "Answer: 5 or 6", "5 or 6"),
        ("answer-line", "Answer: 1, 2, ...", "1, 2, ..."),
        ("answer-line", "所以答案是34。", "34"),
        ("answer-line", "Final Answer: The final answer is $5$. I hope it is correct.", "$5$"),
        ("answer-line", "The answer is Rs. 5. I checked it.", "Rs. 5"),
        ("answer-line", "I have no answer", None),
        ("answer-line", "Answer:", None),
        ("answer-tag", "<answer>1</answer> <answer> 5 </answer>", "5"),
        ("answer-tag", r"<answer>\boxed{5}</answer>", "5"),
        ("answer-tag", "<answer>5", None),
        ("answer-tag", "5</answer>", None),
        ("hashes", "48/2=24\n48+24=72\n#### 72", "72"),
        ("hashes", "#### 71 #### 72", "72"),
        ("hashes", "## 72", None),
        ("minerva", "Final Answer: The final answer is $5$. I hope it is correct.", "$5$"),
        ("minerva", "The final answer is 3.5", "3.5"),
        ("last-number", "I get 3, then 1,234.50.", "1,234.50"),
        ("last-number", "x = -5", "-5"),
        ("last-number", "so **42**", "42"),
        ("last-number", "It rose by 50%", "50%"),
        ("last-number", "the ratio is 3/4", "3/4"),
        ("last-number", r"the ratio is \frac{3}{4}", None),
        ("last-number", "2^{10}", None),
        ("last-number", "It is 5 or 6", None),
        ("last-number", "the numbers 1, 2", None),
        ("last-number", "at least 7", None),
        ("last-number", "7 million", None),
        ("last-number", "the slope is 7x", None),
        ("last-number", "8 - 7", None),
        ("last-number", r"\sqrt 7", None),
        ("last-number", "= 18 dollars.", "18"),
        ("last-number", "it takes 18km", "18"),
        ("last-number", r"so \(x = 18\)", "18"),
        ("last-number", "so $x = 18$.", "18"),
        ("last-number", "none", None),
    ],
)
def test_the_answer_at_a_place(place: str, text: str, answer: str | None) -> None:
    assert final_answers(text, [place]) == ([] if answer is None else [answer])
    assert extracted_answer(text, "exact", [place]) == answer


@pytest.mark.parametrize(
    "text",
    [
        "The answer is 5. I hope this answer is correct.",
        "The answer is:\n$$\n5\n$$",
        "The answer is\n\\[\n5\n\\]",
        "<answer>The answer is 5</answer>",
        "<answer>Answer: 5</answer>",
        "<answer>5</answer><answer></answer>",
        "<Answer> 5 </Answer>",
        r"\textbf{Answer:} 5",
        r"\textbf{Answer}: 5",
        "#### Solution\nx = 5",
        "#### 1. Solution\nx = 5",
        "#### Answer: 5",
        "**Final Answer**\n5",
        "**Final Answer**\n\n\\[\n\\boxed{5}\n\\]",
        "## Answer\n5",
        "Answer - 5",
        "The answer is 5 because 2+3=5.",
        "The answer is therefore 5",
        "The answer is clearly 5.",
        "It is not 4, so the answer is 5.",
    ],
)
def test_words_around_an_answer_do_not_hide_it(text: str) -> None:
    assert is_correct([text] * 2, ["5", "6"], extract=EXTRACTIONS) == [True, False]


@pytest.mark.parametrize(
    "text",
    [
        "I do not think the answer is 5",
        "I don't believe that the answer is 5.",
        "The wrong answer is 5",
        "It might be that the answer is 5",
        "Let us check whether the answer is 5",
        "The answer is not 5",
        "The answer is 5. But this answer is wrong.",
        "The answer is 5\nor 6",
        "Answer: 5. Or 6.",
        "The answer is $$5$$ or $$6$$",
        "The answer is 5. Maybe 6.",
        "#### 5\nor 6",
        "The final answer is 5\nor 6",
        "<answer>5</answer><answer>6",
        "<answer>6</answer> or <answer>5</answer>",
        "<answer>5</answer> or 6",
        r"Answer: \boxed{5} \boxed{6",
        "The answer is 5! Great.",
        "The answer is 5. No, it is 6.",
        "Answer: 5\n\nWait, that is wrong.",
        "<answer>5</answer> This is incorrect.",
        "It is unlikely that the answer is 5",
        "The answer is Dr. 5",
    ],
)
def test_a_withdrawn_answer_and_one_of_several_are_wrong(text: str) -> None:
    assert not is_correct([text], ["5"], extract=EXTRACTIONS)[0]


@pytest.mark.parametrize(
    ("place", "text"),
    [
        (
            "minerva",
            "Final Answer: The final answer is $5$. I hope it is correct.\n\nProblem:\nWhat is "
            "4 + 5?\n\nSolution: Final Answer: The final answer is $9$. I hope it is correct.",
        ),
        ("hashes", "2 + 3 = 5\n#### 5\n\nQuestion: What is 4 + 5?\nAnswer: 4 + 5 = 9\n#### 9"),
        ("answer-line", "The answer is 5.\n\nQ: What is 4 + 5?\nA: The answer is 9."),
        ("last-number", "We get 5.\n\n**Problem 2:** What is 4 + 5?\n\nWe get 9."),
        ("answer-line", "**Problem:** What is 2 + 3?\n\nAnswer: 5"),
    ],
)
def test_a_further_problem_that_a_base_model_writes_does_not_count(place: str, text: str) -> None:
    assert is_correct([text] * 2, ["5", "9"], extract=place) == [True, False]


NOT_THE_NUMBER = (
    r"x = −6¦$-$6¦negative 6¦±6¦√6¦"
    r"2×6¦6²¦6π¦6½¦x ≠ 6¦"
    r"5 – 6¦(5; 6)¦6 thousandths¦x is not equal to 6¦"
    r"6!¦x6¦the square root of 6¦step 6¦up to 6"
).split(MARK)


@pytest.mark.parametrize("text", [f"so {text}" for text in NOT_THE_NUMBER])
def test_a_number_beside_a_sign_or_word_that_changes_it_is_not_the_answer(text: str) -> None:
    assert "6" not in final_answers(text, ["last-number"])


@pytest.mark.parametrize("text", ["at 11:30", "3:4", "10 000", "3 1/2", "6 × 10³", "1,2", "1.2.3"])
def test_the_last_part_of_a_longer_number_is_not_the_answer(text: str) -> None:
    assert final_answers(text, ["last-number"]) == []


@pytest.mark.parametrize(
    "text",
    [
        r"so \(6\)",
        r"so \[6\].",
        "so $6$.",
        "**6**",
        "6",
        "x = 6",
        "She has 6 apples left.",
        "a total of 6 dollars",
        "so it costs $6.",
        "it equals 6cm",
        "We get 6, as desired.",
        "Thus, there are 6 in total.",
        "6 is the answer.",
        "He makes $6 a week.",
        "#### 6",
        "It is 6.<|im_end|>",
    ],
)
def test_a_number_in_a_sentence_is_the_answer(text: str) -> None:
    assert final_answers(text, ["last-number"]) == ["6"]


def test_no_sign_or_word_beside_the_last_number_is_overlooked() -> None:
    wrong = list(texts(seed=0, rounds=2))
    assert len(wrong) > 5000
    assert [text for number, text in wrong if number in final_answers(text, ["last-number"])] == []


@pytest.mark.parametrize(
    ("text", "answer"),
    [(" 5\n", "5"), (r"\boxed{5}", "5"), (r"\boxed{5} \boxed{", None), ("", None)],
)
def test_a_whole_response_may_be_the_answer(text: str, answer: str | None) -> None:
    assert final_answers(text, ["whole"]) == ([] if answer is None else [answer])


def test_all_places_have_a_short_name() -> None:
    texts_of_places = [r"\boxed{5}", "Answer: 5", "<answer>5</answer>", "#### 5", "it is 5"]
    count = len(texts_of_places)
    assert all(is_correct(texts_of_places, ["5"] * count, "exact", extract="all"))
    assert not any(is_correct(["5 or 6"], ["5"], extract="all,whole"))


def test_the_first_place_with_an_answer_decides() -> None:
    text = "Answer: 1\n#### 2\n\\boxed{3}"
    assert final_answers(text) == ["3"]
    assert final_answers(text, ["hashes", "box"]) == ["2"]
    assert final_answers(text, ["answer-tag", "answer-line"]) == ["1"]
    assert final_answers(text, EXTRACTIONS) == ["3"]


def test_every_verifier_of_texts_takes_the_places() -> None:
    for verifier in ("exact", "rules", "math_verify"):
        reasons = []
        for extract in ("box", "box,hashes", ("hashes",)):
            (verdict,) = verify(["#### 72"], ["72"], verifier, extract=extract)
            reasons.append(verdict.reason)
        assert reasons == ["no answer", "correct", "correct"]


@pytest.mark.parametrize("extract", ["boxes", "", [], "box,"])
def test_an_unknown_place_is_refused(extract: str | list[str]) -> None:
    with pytest.raises(InputError, match=r"extract|allowed"):
        verify(["5"], ["5"], extract=extract)


LONG_TEXTS = {
    "dots": "final answer is " + ". " * 100_000,
    "answers": "the answer is: " * 50_000,
    "spaces": "answer: " + " " * 200_000,
    "hashes": "#### " * 50_000,
    "digits": "1," * 100_000,
    "points": ".1" * 100_000,
    "tags": "<answer>" * 50_000,
    "boxes": r"\boxed{1}," * 20_000,
    "open boxes": r"\boxed{" * 20_000,
    "hopes": "final answer is " + "I hope " * 50_000,
    "empty boxes": r"\boxed{}" * 25_000,
    "open and empty": r"\boxed{\," * 20_000,
    "blank": r"\boxed{" + r"\, {}" * 40_000 + "}",
    "displays": "answer is $$" * 16_000,
    "brackets": r"answer is \[" * 16_000,
    "problems": "Problem: 1\n" * 18_000,
    "bold": "*" * 200_000,
    "newlines": "\n" * 200_000,
    "ors": "answer: 7" + " or" * 60_000,
    "lines": "answer is 7\n" * 16_000,
    "words": "is not " * 28_000 + "6",
    "currencies": "so " + "$ " * 100_000 + "6" + "$" * 100_000,
    "closed tags": "<answer>5</answer> or " * 9_000,
}


@pytest.mark.parametrize("text", LONG_TEXTS.values(), ids=LONG_TEXTS)
@pytest.mark.parametrize("place", PLACES)
def test_the_time_to_find_an_answer_is_linear_in_the_length(place: str, text: str) -> None:
    """Half a second is ten times what is needed; a quadratic search takes minutes."""
    assert min(seconds_of(lambda: final_answers(text, (place,))) for _ in range(3)) < 0.5
