"""`rules` and `math_verify` on labelled answers, in data/ and in the folder next to the checkout.

Limits are in percent of the rows, so that they also apply to another sample of the same sets.
data/README.md gives the sources, the licences and what each verifier reached.
"""

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from benchmarks.verifier.accuracy import response
from rspo.rewards import is_correct

SHIPPED = Path(__file__).parent / "data"
# By verifier and set: least agreement with the labels and most false accepts, in percent.
LIMITS = {
    ("rules", "hardverify_math"): (88, 0.8),
    ("rules", "math_verify_tests"): (97, 0.8),
    ("rules", "lighteval_extractive_match_tests"): (93, 0.9),
    ("rules", "qwen_math_cot_100"): (99.5, 0.3),
    ("math_verify", "hardverify_math"): (76, 1.7),
    ("math_verify", "math_verify_tests"): (88, 1.5),
    ("math_verify", "lighteval_extractive_match_tests"): (80, 1.8),
}
NOT_SHIPPED = "qwen_math_cot_100"  # the licence of this set could not be confirmed


@dataclass(frozen=True)
class Accuracy:
    agreement: float  # percent
    false_accepts: float  # percent
    differing: list[str]  # ids of rows


@cache
def measure(path: Path, verifier: str) -> Accuracy:
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    responses, answers = [response(row) for row in rows], [row["gold"] for row in rows]
    verdicts = is_correct(responses, answers, verifier)
    wrong = [row for row, right in zip(rows, verdicts, strict=True) if right != row["expected"]]
    false_accepts = sum(not row["expected"] for row in wrong)
    return Accuracy(
        100 * (1 - len(wrong) / len(rows)),
        100 * false_accepts / len(rows),
        [row["id"] for row in wrong],
    )


def check(folder: Path, verifier: str, name: str) -> None:
    accuracy = measure(folder / f"{name}.jsonl", verifier)
    agreement, false_accepts = LIMITS[verifier, name]
    assert accuracy.agreement >= agreement, accuracy
    # A false reject lowers a curve. Training exploits a false accept.
    assert accuracy.false_accepts <= false_accepts, accuracy


@pytest.mark.parametrize(("verifier", "name"), [key for key in LIMITS if key[1] != NOT_SHIPPED])
def test_verdicts_agree_with_the_labels_of_shipped_answers(verifier: str, name: str) -> None:
    check(SHIPPED, verifier, name)


@pytest.mark.parametrize("name", [name for verifier, name in LIMITS if verifier == "rules"])
def test_verdicts_agree_with_the_labels_of_other_answers(shared: Path, name: str) -> None:
    check(shared / "verification", "rules", name)
