"""Every data set of config/paper.yaml, read from a mirror with the published rows."""

import json
from pathlib import Path
from typing import Any

import pytest

from rspo.config.experiment import Experiment
from rspo.core.tables import PROBLEMS, read_table
from rspo.datasets.prepare import prepare
from rspo.pipeline import tasks
from rspo.pipeline.provenance import read_provenance
from rspo.rewards.extraction import last_box
from tests.support.paper_scale import load

Rows = list[dict[str, Any]]

COUNTS = {
    "train": 7500 - 2,
    "aime2024": 30,
    "amc": 83,
    "math500": 500,
    "minerva": 272,
    "olympiadbench": 675,
    "aime2025": 30,
    "livemathbench": 140,
    "validation": 5000 - 500,
}


@pytest.fixture(scope="module")
def experiment(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    return load(tmp_path_factory.mktemp("paper"))


@pytest.fixture(scope="module")
def problems(experiment: Experiment, shared: Path) -> dict[str, Rows]:
    for name in experiment.data_sets:
        prepare(experiment, name, shared / "mirror")
    return {name: read_table(experiment.files.problems(name), PROBLEMS) for name in COUNTS}


def source_rows(shared: Path, path: str) -> Rows:
    lines = (shared / "mirror" / f"{path}.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def answers(rows: Rows) -> list[list[str]]:
    return [row["answers"] for row in rows]


@pytest.mark.parametrize("name", COUNTS)
def test_counts_and_layout(name: str, problems: dict[str, Rows]) -> None:
    rows = problems[name]
    assert len(rows) == len({row["id"] for row in rows}) == COUNTS[name]
    for row in rows:
        assert row["benchmark"] == name
        assert [message["role"] for message in row["prompt"]] == ["user"]
        assert row["prompt"][0]["content"].strip()
        assert row["answers"]
        assert all(answer == answer.strip() != "" for answer in row["answers"])
        assert row["revision"].startswith("sha256:")


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("train", "problem"),
        ("validation", "problem"),
        ("minerva", "question"),
        ("aime2025", "question"),
    ],
)
def test_every_row_can_be_found_in_its_source(
    name: str, column: str, problems: dict[str, Rows], shared: Path
) -> None:
    sources = {row["source"] for row in problems[name]}
    published = {source: source_rows(shared, source) for source in sources}
    for row in problems[name]:
        original = published[row["source"]][row["row"]]
        assert row["prompt"][0]["content"] == original[column]


def test_the_two_rows_without_an_answer_are_listed(
    experiment: Experiment, problems: dict[str, Rows], shared: Path
) -> None:
    source = source_rows(shared, "DigitalLearningGmbH/MATH-lighteval/train")
    empty = [row for row, columns in enumerate(source) if r"\boxed{}" in columns["solution"]]
    note = read_provenance(experiment.files.problems("train"))
    assert note["notes"]["rows_without_answer"] == [
        f"DigitalLearningGmbH/MATH-lighteval/train, row {row}" for row in empty
    ]
    assert not {row["row"] for row in problems["train"]} & set(empty)
    assert note["settings"] == tasks.prepare(experiment, "train").settings


def test_boxes_of_math_hold_what_its_authors_extracted(shared: Path) -> None:
    """MATH-500 publishes the answers of 500 solutions: our box reader finds the same."""
    rows = source_rows(shared, "HuggingFaceH4/MATH-500/test")
    published = {row["solution"]: row["answer"] for row in rows}
    assert len(published) == 500
    assert {solution: last_box(solution) for solution in published} == published


def test_quirks_of_answers(problems: dict[str, Rows], shared: Path) -> None:
    """Floats lose their `.0`; leading zeros, degrees, units, dollars and lists stay."""
    amc = source_rows(shared, "AI-MO/aimo-validation-amc/train")
    assert answers(problems["amc"]) == [[f"{row['answer']:.0f}"] for row in amc]
    assert ["-4"] in answers(problems["amc"])
    aime = source_rows(shared, "AI-MO/aimo-validation-aime/train")
    assert answers(problems["aime2024"]) == [[row["answer"]] for row in aime]
    assert ["025"] in answers(problems["aime2024"])
    assert [r"336^\circ"] in answers(problems["aime2025"])
    assert ["4.5e33"] in answers(problems["minerva"])
    olympiad = source_rows(shared, "Hothan/OlympiadBench/OE_TO_maths_en_COMP/train")
    with_units = [
        row["final_answer"]
        + [f"{form} {row['unit']}" for form in row["final_answer"] if row["unit"]]
        for row in olympiad
    ]
    assert answers(problems["olympiadbench"]) == with_units
    assert sum(len(forms) == 2 for forms in with_units) == 8
    assert ["4.2", "4.2 %"] in with_units
    assert ["$69$,$84$"] in answers(problems["olympiadbench"])
    assert ["$2$"] in answers(problems["livemathbench"])
    boxes = {row["row"]: row["answers"] for row in problems["train"]}
    math = source_rows(shared, "DigitalLearningGmbH/MATH-lighteval/train")
    bare = [number for number, row in enumerate(math) if r"\boxed 2" in row["solution"]]
    assert [boxes[number] for number in bare] == [["2"]]
    assert boxes[3997] == ["9", "1, 9"]  # "Enter all possible values, separated by commas."
    assert sum(len(forms) > 1 for forms in boxes.values()) == 6
