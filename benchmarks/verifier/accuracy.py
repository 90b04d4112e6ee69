"""Accuracy of the verifiers on labelled answers, by set and by kind of answer."""

import json
import os
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.verifier.kinds import KINDS, kind_of
from rspo.config.experiment import Experiment
from rspo.config.names import BOX_ONLY, EXTRACTIONS
from rspo.core.errors import InputError
from rspo.rewards import Verdict, verify
from rspo.rewards.configured import verifier_of
from rspo.rewards.extraction import last_box
from tests.support.attacks import ATTACKS, boxed
from tests.support.near_misses import near_misses

ROOT = Path(__file__).parents[2]
SHIPPED = ROOT / "tests" / "rewards" / "data"
SHARED = ROOT.parent / "shared" / "verification"
HOSTILE = "hostile responses"
NEAR_MISSES = "near misses, wrong by construction"
REPORTED = "reported_pairs"  # the only set of which some responses have no box
REPORTED_EVERYWHERE = "public reports and their kinds, answers at any place"
# What the table calls the rows of each file. The rules were developed with all of these rows.
SETS = {
    "hardverify_math": "HardVerify-Math, made to mislead",
    "math_verify_tests": "tests of Math-Verify",
    "lighteval_extractive_match_tests": "tests of lighteval",
    "published_false_accepts": "published false accepts of Math-Verify",
    "qwen_math_cot_100": "responses of a 7B model to MATH-like problems",
    REPORTED: "public reports and their kinds, answers in boxes",
}
VERIFIERS = ("rules", "math_verify")
JUDGE_URL = "XVERIFY_URL"
LIMITS = ("timeout", "worker died")


@dataclass(frozen=True)
class Labelled:
    """Labelled rows, one item of each list for each row.

    answers: the reference answers.
    correct: whether the response is correct, by the label.
    problems: the text of the problem; None if it is unknown.
    extract: where the answer may stand in a response, for all rows.
    """

    answers: list[str] = field(default_factory=list)
    responses: list[str] = field(default_factory=list)
    correct: list[bool] = field(default_factory=list)
    problems: list[str | None] = field(default_factory=list)
    extract: tuple[str, ...] = BOX_ONLY


@dataclass(frozen=True)
class Figures:
    """What a verifier reached on some rows.

    at_limit: the number of rows whose verdict is that a limit was reached.
    seconds: wall-clock time; 0 if it was not measured.
    """

    rows: int
    false_accepts: int
    false_refusals: int
    at_limit: int
    seconds: float = 0.0

    @property
    def accuracy(self) -> float:
        """The percentage of the rows whose verdict is the label."""
        return 100 * (1 - (self.false_accepts + self.false_refusals) / self.rows)

    def __str__(self) -> str:
        return f"{self.accuracy:.1f} %, {self.false_accepts} / {self.false_refusals}"


def response(row: dict[str, str]) -> str:
    """The full response of a row, or its bare prediction put in a box."""
    if "output" in row:
        return row["output"]
    prediction = row["prediction"]
    return boxed(prediction) if last_box(prediction) is None else prediction


@cache
def labelled(name: str) -> Labelled | None:
    """The rows of a set; None if it is neither in the repository nor in the folder beside it."""
    if name == HOSTILE:
        count = len(ATTACKS)
        return Labelled(["7"] * count, list(ATTACKS.values()), [False] * count, [None] * count)
    if name == NEAR_MISSES:
        pairs = list(near_misses(seed=0, rounds=1))
        answers = [answer for answer, _ in pairs]
        responses = [response({"prediction": prediction}) for _, prediction in pairs]
        return Labelled(answers, responses, [False] * len(pairs), [None] * len(pairs))
    if name == REPORTED_EVERYWHERE:
        rows = labelled(REPORTED)
        return replace(rows, extract=EXTRACTIONS) if rows else None
    files = [folder / f"{name}.jsonl" for folder in (SHARED, SHIPPED)]
    path = next((file for file in files if file.exists()), None)
    if path is None:
        return None
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return Labelled(
        [row["gold"] for row in rows],
        [row["prediction"] if name == REPORTED else response(row) for row in rows],
        [row["expected"] for row in rows],
        [row.get("question") for row in rows],
    )


@cache
def verdicts(name: str, verifier: str) -> tuple[list[Verdict], float]:
    """The verdicts of a verifier on a set, and the seconds that they took.

    The time limit of the hostile responses is a second, because many of them reach it.
    """
    rows = labelled(name)
    assert rows is not None
    limit = 1.0 if name == HOSTILE else 5.0
    verify([boxed("1 + 1")], ["3"], verifier)  # starts a worker
    start = time.perf_counter()
    results = verify(rows.responses, rows.answers, verifier, limit, extract=rows.extract)
    return results, time.perf_counter() - start


def figures(results: Sequence[Verdict], correct: Sequence[bool], seconds: float = 0.0) -> Figures:
    """Compare verdicts with labels.

    Args:
        correct: the labels.
    """
    verdicts = [verdict.correct for verdict in results]
    pairs = Counter(zip(verdicts, correct, strict=True))
    return Figures(
        rows=len(results),
        false_accepts=pairs[True, False],
        false_refusals=pairs[False, True],
        at_limit=sum(verdict.reason in LIMITS for verdict in results),
        seconds=seconds,
    )


def by_set(name: str, verifier: str) -> Figures:
    """The figures for a set."""
    rows = labelled(name)
    assert rows is not None
    results, seconds = verdicts(name, verifier)
    return figures(results, rows.correct, seconds)


def by_kind(names: Sequence[str], verifier: str) -> dict[str, Figures]:
    """The figures for each kind of answer, over several sets."""
    verdicts_of_kind: dict[str, list[Verdict]] = {kind: [] for kind in KINDS}
    labels_of_kind: dict[str, list[bool]] = {kind: [] for kind in KINDS}
    for name in names:
        rows = labelled(name)
        assert rows is not None
        results, _ = verdicts(name, verifier)
        for answer, verdict, label in zip(rows.answers, results, rows.correct, strict=True):
            kind = kind_of(answer)
            verdicts_of_kind[kind].append(verdict)
            labels_of_kind[kind].append(label)
    return {
        kind: figures(verdicts_of_kind[kind], labels_of_kind[kind])
        for kind in KINDS
        if labels_of_kind[kind]
    }


def of_judge(name: str) -> Figures | str:
    """The figures of xVerify on a set with problem texts, or why they were not measured."""
    url = os.environ.get(JUDGE_URL)
    if not url:
        return f"not measured: {JUDGE_URL} names no server that has the model"
    rows = labelled(name)
    assert rows is not None
    if None in rows.problems:
        return "not measured: the rows have no problem texts, which the judge reads"
    with TemporaryDirectory() as folder:
        try:
            experiment = Experiment.load("paper", {"xverify": {"url": url}}, root=ROOT)
            with verifier_of(experiment, "xverify", Path(folder) / "verdicts") as judge:
                start = time.perf_counter()
                results = judge(rows.responses, rows.answers, questions=rows.problems)
                return figures(results, rows.correct, time.perf_counter() - start)
        except InputError as error:
            return f"not measured: {error}"
