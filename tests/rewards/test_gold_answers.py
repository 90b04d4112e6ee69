"""`rules` on the answers of the real data sets: each equals itself, and none equals another."""

import json
import re
from itertools import pairwise
from pathlib import Path

import pytest

from rspo.config.experiment import Experiment
from rspo.core.tables import PROBLEMS, read_table
from rspo.datasets.prepare import prepare
from rspo.rewards import is_correct
from rspo.rewards.extraction import last_box
from tests.support.attacks import boxed
from tests.support.paper_scale import load

BENCHMARKS = (
    *("aime2024", "aime2025", "amc", "livemathbench"),
    *("math500", "minerva", "olympiadbench", "validation"),
)


@pytest.fixture(scope="module")
def golds(shared: Path) -> list[str]:
    """The answers in the solutions of MATH's training set."""
    path = shared / "mirror" / "DigitalLearningGmbH" / "MATH-lighteval" / "train.jsonl"
    boxes = [last_box(json.loads(line)["solution"]) for line in path.read_text().splitlines()]
    return [box for box in boxes if box is not None]


@pytest.fixture(scope="module")
def experiment(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    return load(tmp_path_factory.mktemp("paper"))


def rewritten(answer: str) -> str:
    """The same answer with different spaces, brackets and commands."""
    for old, new in (
        *((r"\left", ""), (r"\right", ""), ("(", r"\left( "), (")", r" \right)")),
        *((r"\frac", r"\dfrac"), (r"\cdot", r"\times"), (r"\leq", r"\le "), ("+", " + ")),
    ):
        answer = answer.replace(old, new)
    return rf"\displaystyle {answer} ."


def test_the_rules_read_every_answer_of_math(golds: list[str]) -> None:
    """The answers are rewritten, so that text comparison does not accept them."""
    found = is_correct([boxed(rewritten(gold)) for gold in golds], golds)
    refused = [gold for gold, verdict in zip(golds, found, strict=True) if not verdict]
    assert len(refused) <= 0.001 * len(golds), refused


@pytest.mark.parametrize("name", BENCHMARKS)
def test_the_rules_read_every_answer_of_a_benchmark(
    experiment: Experiment, shared: Path, name: str
) -> None:
    prepare(experiment, name, shared / "mirror")
    rows = read_table(experiment.files.problems(name), PROBLEMS)
    answers = [row["answers"] for row in rows]
    found = is_correct([boxed(rewritten(accepted[0])) for accepted in answers], answers)
    refused = [accepted for accepted, right in zip(answers, found, strict=True) if not right]
    assert refused == []


# --- other answers --------------------------------------------------------------------------------

BESIDE_THE_VALUE = re.compile(
    r"\\(?:text|mbox)\s*\{[^{}]*[a-z]{2}[^{}]*\}(?:\^2|\^3)?|\^\{?\\circ\}?|\\%|\\\$|\\[!,;:]|\s|[.,]$"
    r"|_\{?[0-9]+\}?$|\\left|\\right|^[a-zA-Z]="
)
# Equal in value, but not in notation.
EQUAL = [
    {r"\frac{1}{\sqrt{3}}", r"\frac{\sqrt{3}}{3}"},
    {r"\mbox{four}", "4"},
]


def bare(answer: str) -> str:
    """Without units, remarks, bases, spaces and the names of unknowns."""
    answer = re.sub(r"\\frac(\d)(\d)", r"\\frac{\1}{\2}", answer.replace(r"\dfrac", r"\frac"))
    answer = re.sub(r"\\text\{\(?([A-E])\)?\}", r"\1", answer)
    answer = BESIDE_THE_VALUE.sub("", re.sub(r"(\d),(?:\\!)?(\d{3})", r"\1\2", answer))
    return re.sub(r"(\.\d*?)0+$", r"\1", answer).rstrip(".")


def test_the_most_similar_answer_is_wrong(golds: list[str]) -> None:
    """Neighbours in alphabetical order: 28 and 28_9, (3,4) and (3,5), x+1 and x-1."""
    pairs = list(pairwise(sorted(set(golds))))
    found = is_correct([boxed(prediction) for _, prediction in pairs], [gold for gold, _ in pairs])
    wrong = [
        pair
        for pair, verdict in zip(pairs, found, strict=True)
        if verdict and bare(pair[0]) != bare(pair[1]) and set(pair) not in EQUAL
    ]
    assert wrong == []
