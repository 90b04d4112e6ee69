"""`math_verify` against labels that others gave: real responses, and pairs made to mislead.

Agreement is in percent and false accepts are per 248 rows, so that any sample of these sets can
stand in their place.
"""

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from rspo.rewards import is_correct
from rspo.rewards.extraction import last_box
from tests.support.attacks import boxed


@dataclass(frozen=True)
class Agreement:
    percent: float
    false_accepts_per_248: float
    differing: list[str]


def response(row: dict[str, str]) -> str:
    """The whole response, or a bare prediction in the box that it lacks."""
    if "output" in row:
        return row["output"]
    prediction = row["prediction"]
    return boxed(prediction) if last_box(prediction) is None else prediction


def measure(path: Path) -> Agreement:
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    found = is_correct([response(row) for row in rows], [row["gold"] for row in rows])
    wrong = [row for row, verdict in zip(rows, found, strict=True) if verdict != row["expected"]]
    false_accepts = sum(not row["expected"] for row in wrong)
    return Agreement(
        100 * (1 - len(wrong) / len(rows)),
        248 * false_accepts / len(rows),
        [row["id"] for row in wrong],
    )


@pytest.mark.parametrize(
    ("name", "percent"),
    [
        ("qwen_math_cot_100", 99.5),
        ("hardverify_math", 88),
        ("math_verify_tests", 97),
        ("lighteval_extractive_match_tests", 93),
    ],
)
def test_verdicts_agree_with_labels(shared: Path, name: str, percent: float) -> None:
    agreement = measure(shared / "verification" / f"{name}.jsonl")
    assert agreement.percent >= percent, agreement


def test_look_alikes_are_not_accepted(shared: Path) -> None:
    """Half of these pairs are wrong on purpose: false rejects lower a curve, false accepts are
    what training would learn to exploit."""
    agreement = measure(shared / "verification" / "hardverify_math.jsonl")
    assert agreement.false_accepts_per_248 <= 2, agreement
