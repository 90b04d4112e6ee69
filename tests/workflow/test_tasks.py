"""The rules of the workflow have the inputs, outputs and settings of the steps of `rspo`."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from rspo import report
from rspo.analysis import claims, studies
from rspo.config.experiment import Experiment
from rspo.config.load import read_values
from rspo.figures import figures_of
from rspo.pipeline import tasks
from rspo.pipeline.task import Task
from tests.support import ROOT
from tests.support.snakemake_project import make_project

# The task of a rule, from the experiment and the wildcards of a job.
STEPS: dict[str, Callable[..., Task]] = {
    "prepare": tasks.prepare,
    "pretrain": tasks.pretrain,
    "train": lambda e, cell: tasks.train(e, cell),
    "derive": tasks.derive,
    "sample": lambda e, policy, suite, block: tasks.sample(e, policy, suite, int(block)),
    "score": lambda e, policy, suite, block: tasks.score(e, policy, suite, int(block)),
    "curves": tasks.curves,
    "cost": tasks.cost,
    "fetch_judge": tasks.fetch_judge,
    "claims": claims.task,
    "study": lambda e, study: studies.task(e, study),
    "figure": lambda e, figure: figures_of(e)[figure].task(e),
    "report": report.task,
}
WITHOUT_STEP = {"all", "data", "models", "judge"}


@pytest.mark.parametrize(
    ("scale", "others"),
    [("tiny", {"study", "derive"}), ("paper", {"fetch_judge"})],
)
def test_each_job_has_the_inputs_outputs_and_settings_of_its_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scale: str, others: set[str]
) -> None:
    """Of `snakemake all`, the data, and a study of the tiny scale with a derived policy."""
    monkeypatch.chdir(make_project(tmp_path))
    targets = ["all", "data"]
    if scale == "tiny":
        add_study(Path("config/tiny.yaml"))
        targets.append("reports/fig_averages.pdf")
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.snakemake_jobs", scale, *targets],
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    experiment = Experiment.load(scale)
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    rules = {job["rule"] for job in found}
    optional = {"study", "derive", "fetch_judge"}
    assert rules - WITHOUT_STEP >= STEPS.keys() - optional | others
    for job in found:
        if job["rule"] in WITHOUT_STEP:
            continue
        step = STEPS[job["rule"]](experiment, **job["wildcards"])
        assert set(job["output"]) == {*map(str, step.outputs)}
        assert job["settings"] == step.settings_hash
        assert job["task"] == [*map(str, step.outputs)]  # Snakemake keeps it with the settings
        assert inputs_of(experiment, job) == {*map(str, made(experiment, step, job["rule"]))}


def add_study(config: Path) -> None:
    """Add a study of two seeds, each with a base policy of its own, and of averaged policies."""
    values = read_values(config)
    cells = [{"model": "small", "objective": "grpo", "n": 16, "variant": ["default", "averaged"]}]
    contrasts = [{"family": "averages", "minus": "default"}]
    study = {"title": "a", "suite": "standard", "seeds": 2, "cells": cells, "contrasts": contrasts}
    values["base_per_seed"] = True
    values["studies"]["averages"] = study
    values["variants"]["averaged"] = {"derived": {"base_share": 0.5}}
    config.write_text(yaml.safe_dump(values, sort_keys=False))


def inputs_of(experiment: Experiment, job: dict[str, object]) -> set[str]:
    """The inputs of a job, with the files of the judge in place of their stamp."""
    inputs = set(job["input"])  # type: ignore[call-overload]
    stamp = str(experiment.files.results / "judge" / "ready")
    if stamp in inputs:
        files = experiment.files.judge_prompt, experiment.judge_model
        inputs |= {str(file) for file in files if file}
    unread = {str(experiment.files.problems("validation"))} if job["rule"] == "train" else set()
    return inputs - {stamp} - unread


def made(experiment: Experiment, step: Task, rule: str) -> list[Path]:
    """The inputs of a step; those of the cost are the curves that exist, and here none does."""
    if rule == "cost":
        return [path for path, _ in tasks.every_curve(experiment)]
    return step.input_files
