"""A training set and a benchmark in files of the user: what is out of date after a change."""

import json
import os
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.support.snakemake_project import PROGRAMS, SMALL_WORLD, jobs, make_project, snakemake

pytestmark = pytest.mark.ci

FILE = {"problem": "question", "answer": "gold"}
CELL = {"model": "small", "objective": "policy_gradient", "n": 8}
NO_GRID = ("main", "scalability", "model_size", "contamination_free", "max_at_k", "grpo")
DATA: dict[str, Any] = {
    "train": {"generated": None, "file": "train.jsonl", **FILE},
    "suites": {"own": {"mine": {"label": "Mine", "file": "mine.csv", **FILE}}},
}
GRID = {**dict.fromkeys(NO_GRID), "own": {"suite": "own", "cells": [CELL]}}
SETTINGS = [
    *(item for item in SMALL_WORLD if not item.startswith("data=")),
    f"data={json.dumps(DATA)}",
    f"grid={json.dumps(GRID)}",
]
CURVES = [
    f"results/tiny/cells/{policy}/curves/own.parquet"
    for policy in ("small--base", "small--policy-gradient--k1--n8--s0")
]
EVALUATION = {"sample": 2, "score": 2, "curves": 2}


def rspo(folder: Path, *words: str) -> str:
    options = [word for item in SETTINGS for word in ("--set", item)]
    done = subprocess.run(
        [PROGRAMS / "rspo", *words, *options],
        cwd=folder,
        env=os.environ | {"COLUMNS": "200"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def states(folder: Path) -> Counter[str]:
    words = [line.split() for line in rspo(folder, "status").splitlines()]
    return Counter(line[1] for line in words if line and line[0].startswith("small--"))


def planned(folder: Path) -> dict[str, int]:
    plan = jobs(snakemake(folder, "-n", *CURVES, "--config", *SETTINGS))
    return {rule: count for rule, count in plan.items() if rule != "total"}


def prepare(folder: Path, data_set: str) -> None:
    done = snakemake(folder, f"results/tiny/problems/{data_set}.parquet", "--config", *SETTINGS)
    assert done.returncode == 0, done.stderr


def write_train(folder: Path, first: int) -> None:
    rows = [{"question": f"{n}+5=?", "gold": n + 5} for n in range(first, first + 10)]
    (folder / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = make_project(tmp_path_factory.mktemp("own_file"))
    write_train(folder, 10)
    (folder / "mine.csv").write_text("question,gold\n1+1=?,2\n2*7=?,14\n")
    done = snakemake(folder, "--cores", "2", *CURVES, "--config", *SETTINGS)
    assert done.returncode == 0, done.stderr
    return folder


def test_a_changed_file_makes_the_same_out_of_date_for_snakemake_and_status(made: Path) -> None:
    assert planned(made) == {}
    assert states(made) == {"evaluated": 2}
    (made / "mine.csv").touch()
    assert planned(made) == {}
    (made / "mine.csv").write_text("question,gold\n1+1=?,2\n")
    assert planned(made) == {"prepare": 1, **EVALUATION}
    assert states(made) == {"trained": 2}
    prepare(made, "mine")
    assert planned(made) == EVALUATION
    assert states(made) == {"trained": 2}
    write_train(made, 20)
    assert planned(made) == {"prepare": 1, "train": 1, **EVALUATION}
    assert states(made) == {"trained": 1, "stale": 1}
    prepare(made, "train")
    assert planned(made) == {"train": 1, **EVALUATION}
    assert states(made) == {"trained": 1, "stale": 1}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("question,gold\n1&1=?,2\n", "mine.csv, line 2: '1&1=?' has '&', which model small cannot"),
        (None, "mine.csv: no such file"),
    ],
)
def test_a_bad_file_stops_before_anything_runs(
    tmp_path: Path, content: str | None, message: str
) -> None:
    folder = make_project(tmp_path)
    write_train(folder, 10)
    if content is not None:
        (folder / "mine.csv").write_text(content)
    done = snakemake(folder, "--cores", "2", *CURVES, "--config", *SETTINGS)
    assert done.returncode != 0
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert not (folder / "results").exists()
