"""Problems in more than one data set: normal forms, and the table of overlaps."""

import csv
import json
import time
from pathlib import Path
from typing import Any

import pytest

from rspo.config.experiment import Experiment
from rspo.datasets.contamination import write_contamination_table
from rspo.datasets.normal_form import normal_form
from rspo.datasets.prepare import prepare
from tests.support import paper_scale, tiny_world

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


def table(experiment: Experiment) -> dict[tuple[str, str, str], tuple[int, str, str]]:
    with experiment.table("contamination").open() as stream:
        rows = list(csv.DictReader(stream))
    found = {
        (row["set_a"], row["set_b"], row["kind"]): (int(row["count"]), row["ids_a"], row["ids_b"])
        for row in rows
    }
    assert len(found) == len(rows)
    return found


TEXTS = {
    "train": ["one", "Two  words", "three", "one"],
    "validation": ["four", "one"],
    "benchmark": ["two words.", "One", "five"],
}


@pytest.fixture
def three(tmp_path: Path) -> Experiment:
    """An experiment with the sets of `TEXTS`, from a mirror of the test's own."""
    sets: dict[str, Any] = {}
    columns = {"split": "all", "revision": "main", "problem": "q", "answer": "a"}
    for name, questions in TEXTS.items():
        file = tmp_path / "mirror" / "own" / name / "all.jsonl"
        file.parent.mkdir(parents=True)
        file.write_text("".join(json.dumps({"q": q, "a": "1"}) + "\n" for q in questions))
        hub = {"id": f"own/{name}", "rows": len(questions), **columns}
        sets[name] = {"generated": None, "hub": hub}
    own = {"own": {"benchmark": sets.pop("benchmark") | {"label": "Own"}}}
    experiment = tiny_world.load(tmp_path, data=sets | {"suites": own})
    for name in experiment.data_sets:
        prepare(experiment, name, tmp_path / "mirror")
    return experiment


def test_every_overlap_is_listed_with_its_ids(three: Experiment) -> None:
    write_contamination_table(three)
    found = {names: row for names, row in table(three).items() if {*names[:2]} <= TEXTS.keys()}
    assert found == {
        ("train", "validation", "exact"): (2, "train/0 train/3", "validation/1 validation/1"),
        ("train", "benchmark", "exact"): (0, "", ""),
        ("validation", "benchmark", "exact"): (0, "", ""),
        ("train", "validation", "normalized"): (2, "train/0 train/3", "validation/1 validation/1"),
        ("train", "benchmark", "normalized"): (
            3,
            "train/0 train/1 train/3",
            "benchmark/1 benchmark/0 benchmark/1",
        ),
        ("validation", "benchmark", "normalized"): (1, "validation/1", "benchmark/1"),
    }


def test_the_papers_data_sets_have_the_known_overlaps(tmp_path: Path, shared: Path) -> None:
    """A person read each of the eight; two of MATH's four differ only in whitespace."""
    experiment = paper_scale.load(tmp_path)
    for name in experiment.data_sets:
        prepare(experiment, name, shared / "mirror")
    started = time.process_time()
    write_contamination_table(experiment)
    assert time.process_time() - started < 20
    found = table(experiment)
    assert len(found) == 2 * 36
    assert {pair: row for pair, row in found.items() if row[0]} == {
        ("train", "validation", "normalized"): (
            4,
            "train/750 train/1414 train/1598 train/2948",
            "validation/3023 validation/1038 validation/311 validation/4656",
        ),
        ("train", "olympiadbench", "normalized"): (
            3,
            "train/3443 train/4487 train/4533",
            "olympiadbench/517 olympiadbench/459 olympiadbench/522",
        ),
        ("validation", "olympiadbench", "normalized"): (1, "validation/4640", "olympiadbench/395"),
    }
