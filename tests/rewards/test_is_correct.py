"""`is_correct` as documented, and what users pass to it."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from rspo.core.errors import InputError
from rspo.formats.responses import read_responses
from rspo.rewards import is_correct
from tests.support import ROOT

RESPONSES = [r"\boxed{4}", r"\boxed{12}"]


@pytest.mark.parametrize(
    "answers",
    [
        [4, 12],
        (4, "12"),
        np.array([4, 12]),
        pd.Series([4, 12], index=[7, 3]),
        [[5, 4], ["12", "13"]],
        [np.array(["5", "4"]), {12}],
        pd.Series([4.0, 12.0]),
        (str(answer) for answer in (4, 12)),
    ],
    ids=["ints", "tuple", "array", "series", "forms", "arrays of forms", "floats", "generator"],
)
@pytest.mark.parametrize("kind", [list, tuple, np.array, lambda r: pd.Series(r, index=[7, 3])])
def test_lists_arrays_and_columns_of_texts_and_numbers_are_accepted(
    kind: Any, answers: Any
) -> None:
    if not hasattr(answers, "__len__"):
        answers = [str(answer) for answer in (4, 12)].__iter__()
    found = is_correct(kind(RESPONSES), answers, "exact")
    assert found == [True, True]
    assert all(type(value) is bool for value in found)


@pytest.mark.parametrize(
    ("responses", "answers", "options", "message"),
    [
        (RESPONSES[0], "4", {}, "responses is .*; expected a list"),
        (RESPONSES, 4, {}, "answers is 4; expected a list"),
        (RESPONSES, [4], {}, "2 responses but 1 answers"),
        ([None], [4], {}, "response 0 is None"),
        (RESPONSES, ["4", True], {}, "answer 1 is True"),
        (RESPONSES, ["4", float("nan")], {}, "answer 1 is nan"),
        (RESPONSES, ["4", []], {}, r"answer 1 is \[\]"),
        (RESPONSES, ["4", ["12", None]], {}, r"answer 1 is \['12', None\]"),
        (RESPONSES, ["4", {"12": 1}], {}, "answer 1 is {'12': 1}"),
        (RESPONSES, {"4": 1, "12": 2}, {}, "answers is {'4': 1, '12': 2}; expected a list"),
        (RESPONSES, ["4", b"12"], {}, "answer 1 is b'12'"),
        (RESPONSES, [4, 12], {"verifier": "magic"}, "'magic' is unknown; allowed: exact, rules"),
        (RESPONSES, [4, 12], {"verifier": "rules", "time_limit": 0}, "time_limit = 0"),
        (
            RESPONSES,
            [4, 12],
            {"time_limit": float("inf")},
            "time_limit = inf; allowed: more than 0",
        ),
        (RESPONSES, [4, 12], {"time_limit": float("nan")}, "time_limit = nan"),
        (RESPONSES, [4, 12], {"verifier": "xverify"}, "'xverify' needs questions and a judge"),
    ],
)
def test_anything_else_is_an_error_that_names_it(
    responses: Any, answers: Any, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        is_correct(responses, answers, **{"verifier": "exact"} | options)


FORMS: list[Any] = [
    *("4", 4, 0.5, 12.0, 10**400, 1e300, ["a", 7]),
    *(True, None, [], [None], {"a": 1}, float("inf")),
]


@pytest.mark.parametrize("answer", FORMS, ids=lambda answer: f"{answer!r:.20}")
def test_a_file_and_is_correct_accept_the_same_answers(tmp_path: Path, answer: Any) -> None:
    row = {"problem": "p", "answer": answer, "response": "r"}
    (tmp_path / "a.jsonl").write_text(json.dumps(row))
    try:
        ((response,), _) = read_responses([tmp_path / "a.jsonl"])
    except InputError:
        with pytest.raises(InputError):
            is_correct(["r"], [answer], "exact")
    else:
        is_correct(["r"], [response.answers], "exact")


def test_the_documented_examples_give_what_they_say(capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs" / "verification.md").read_text().partition("\n## In Python\n")[2]
    code = page.split("```python\n")[1].split("```")[0]
    exec(code, {})
    expected = re.findall(r"^print.*\S  # (.*)$", code, flags=re.MULTILINE)
    assert capsys.readouterr().out.splitlines() == expected
    examples = re.findall(r"^ +(is_correct\(.*\))  # (.*)$", str(is_correct.__doc__), re.MULTILINE)
    assert len(expected) == len(examples) == 2
    for call, result in examples:
        assert str(eval(call)) == result
