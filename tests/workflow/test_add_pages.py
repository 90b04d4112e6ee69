"""The pages of docs/add/, followed word for word in a project with finished results."""

import contextlib
import csv
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from rspo.config.merge import merge
from rspo.config.names import ALPHABET
from rspo.core.tables import CURVES, PROBLEMS, SAMPLES, SCORES, read_frame, read_table
from tests.support import ROOT, hub_model, pages, tiny_world
from tests.support.made_once import made_once
from tests.support.snakemake_project import jobs, make_project, snakemake

pytestmark = pytest.mark.ci

PAGES = ROOT / "docs" / "add"
CELLS = [
    {"model": "small", "objective": "policy_gradient", "n": 16},
    {"model": "small", "objective": "rspo_pass_at_k", "k": 4, "n": 16},
]
GRADIENT = "small--policy-gradient--k1--n16--s0"


def make_results(root: Path) -> None:
    """A project after `make demo`, with two cells and small sizes in config/tiny.yaml."""
    from rspo.config.experiment import Experiment
    from rspo.datasets.prepare import prepare
    from rspo.evaluation.curves import curves
    from rspo.evaluation.sample import sample_suite
    from rspo.evaluation.score import score
    from rspo.training.pretraining import make_base_policy
    from rspo.training.train import train

    config = make_project(root) / "config" / "tiny.yaml"
    values = merge(yaml.safe_load(config.read_text()), tiny_world.OVERRIDES)
    values["grid"] = {"main": {"suite": "standard", "cells": CELLS}}
    config.write_text(yaml.safe_dump(values, sort_keys=False))
    with contextlib.chdir(root):
        experiment = Experiment.load()
        for data_set in experiment.data_sets:
            prepare(experiment, data_set)
        make_base_policy(experiment, "small")
        for cell in experiment.cells:
            train(experiment, cell)
        for policy in experiment.policies:
            sample_suite(experiment, policy, "standard")
            score(experiment, policy, "standard")
            curves(experiment, policy, "standard")


@pytest.fixture
def project(tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> Path:
    made = made_once(tmp_path_factory, "made_before", make_results)
    return shutil.copytree(made, tmp_path / "project")  # with the times of the files


def rows_of(file: Path) -> list[dict[str, str]]:
    with file.open() as stream:
        return list(csv.DictReader(stream))


def methods(project: Path, figure: str) -> set[str]:
    return {row["objective"] for row in rows_of(project / "reports" / f"{figure}.csv")}


def objective(project: Path) -> None:
    assert methods(project, "fig_all_of_k") == {"base", "policy_gradient", "all_of_k"}
    plan = jobs(snakemake(project, "-n", "reports/fig_estimator_variance.csv"))
    assert plan == {"figure": 1, "total": 1}
    file = project / "all_of_k.py"
    file.write_text(file.read_text().replace("binary=True", "binary=True, version=2"))
    assert jobs(snakemake(project, "-n", "reports/fig_all_of_k.pdf"))["train"] == 1


def reward(project: Path) -> None:
    cell = project / "results/tiny/cells/small--rspo-max--k4--n16--concise--s0"
    assert methods(project, "fig_concise") == {"base", "rspo_max_at_k"}
    for policy in (cell, cell.parent / "small--base"):
        samples = read_frame(policy / "samples/standard/0.parquet", SAMPLES)
        scores = read_frame(policy / "scores/standard/0.parquet", SCORES)
        assert scores["correct"].any()
        short = samples["tokens"] <= 9  # of at most 18
        assert (scores["reward"] == scores["correct"] * (0.5 + 0.5 * short)).all()
    file = project / "concise.py"
    file.write_text(file.read_text().replace('"concise", concise', '"concise", concise, 2'))
    plan = jobs(snakemake(project, "-n", "reports/fig_concise.pdf"))
    assert plan["train"] == 1
    assert plan["score"] == 2


def verifier(project: Path) -> None:
    lines = (project / "answers.verdicts.jsonl").read_text().splitlines()
    assert [json.loads(line)["correct"] for line in lines] == [True, False]


def benchmark(project: Path) -> None:
    rows = read_table(project / "results/tiny/problems/products.parquet", PROBLEMS)
    assert [row["answers"] for row in rows] == [["102"], ["7"], ["432", "432.0"]]
    drawn = rows_of(project / "reports" / "fig_mine.csv")
    assert {row["benchmark"] for row in drawn} == {"products", "pooled"}


def model(project: Path) -> None:
    assert (project / "results/tiny/cells/narrow--policy-gradient--k1--n16--s0/policy").is_dir()
    assert (project / "results/paper/cells/mine--base/policy/model.safetensors").is_file()


def figure(project: Path) -> None:
    drawn = rows_of(project / "reports" / "fig_gain.csv")
    curves = {
        policy: read_frame(project / f"results/tiny/cells/{policy}/curves/standard.parquet", CURVES)
        for policy in ("small--base", GRADIENT)
    }
    found = {float(row["k"]): float(row["gain"]) for row in drawn if row["method"] == "PG"}
    for k, gain in found.items():
        base, trained = (
            frame.query(f"metric == 'pass_at_k' and benchmark == 'pooled' and k == {k}")["estimate"]
            for frame in curves.values()
        )
        assert gain == pytest.approx(100 * (trained.item() - base.item()))
    assert set(found) == {1, 2, 4}
    file = project / "gain.py"
    file.write_text(file.read_text().replace("gain (points)", "gain"))
    assert jobs(snakemake(project, "-n", "reports/fig_gain.pdf"))["figure"] == 1


def claim(project: Path) -> None:
    (row,) = (row for row in rows_of(project / "reports" / "claims.csv") if row["claim"] == "M1")
    assert row["comparison"] == "M1/PG/RSPO k=4/pass_at_k/1/pooled"
    file = project / "one_answer.py"
    file.write_text(file.read_text().replace("ks=(1,)", "ks=(2,)"))
    assert jobs(snakemake(project, "-n", "reports/claims.csv"))["claims"] == 1


def table(project: Path) -> None:
    rows = rows_of(project / "results/tiny/distinct/small--base/standard.csv")
    samples = read_frame(
        project / "results/tiny/cells/small--base/samples/standard/0.parquet", SAMPLES
    )
    clear = 0
    for row in rows:
        texts = samples[samples["problem_id"] == row["problem_id"]]["text"]
        boxes = [re.findall(r"\\boxed\{([^{}]*)\}", text) for text in texts]
        # This small model also writes unclosed boxes and several of them.
        if all(
            text.count("boxed") == len(found) < 2 for text, found in zip(texts, boxes, strict=True)
        ):
            assert int(row["distinct"]) == len({found[0] for found in boxes if found})
            clear += 1
    assert clear > 0
    assert {row["problem_id"] for row in rows} == {*samples["problem_id"]}


def study(project: Path) -> None:
    rows = rows_of(project / "results/tiny/tables/rates.csv")
    (change,) = (
        row
        for row in rows
        if row["family"] == "rates" and row["method_a"] == "RSPO k=4" and row["k"] == "4"
    )
    assert change["variant"] == "rate-third"
    page = (project / "results/tiny/tables/rates.md").read_text()
    (shown,) = re.findall(r"Pass@4 of RSPO significantly: (\S+) \(", page)
    value = float(shown.replace("\u2212", "-"))
    assert value == pytest.approx(100 * float(change["estimate"]), abs=0.051)
    assert {row["part"] for row in rows_of(project / "reports/fig_rates.csv")} == {
        "forest",
        "frontier",
    }


# What each page promises, checked after its last block.
PROMISES: dict[str, Callable[[Path], None]] = {
    check.__name__: check
    for check in (objective, reward, verifier, benchmark, model, figure, claim, study, table)
}


def test_every_page_is_followed() -> None:
    assert {page.stem for page in PAGES.glob("*.md")} == {"README", *PROMISES}


def test_the_page_about_benchmarks_names_the_characters_of_the_tiny_models() -> None:
    assert f"`{ALPHABET}`" in " ".join((PAGES / "benchmark.md").read_text().split("\n"))


@pytest.mark.parametrize("page", PROMISES)
def test_a_page_does_what_it_says(project: Path, page: str) -> None:
    if page == "model":
        hub_model.write(project / "mirror" / "somebody" / "my-model", hub_model.ANSWER)
    pages.follow(PAGES / f"{page}.md", project)
    PROMISES[page](project)
