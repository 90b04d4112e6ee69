"""What a trial's trainings must show before the real ones start: `rspo trial`."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rspo.analysis import trials
from rspo.cli import main
from rspo.config.experiment import Experiment
from rspo.core.errors import InputError
from rspo.training.verl.verl_config import verl_config
from tests.support import ROOT, paper_scale, tiny_world
from tests.support.snakemake_project import make_project

CELL = "small--rspo-pass--k4--n16--short--s0"
STEPS = 12
PILOT = {
    "cells": [
        {"model": "small", "objective": "rspo_pass_at_k", "k": 4, "n": 16, "variant": "short"}
    ],
    "checks": ["seconds", "sampler", "clipping", "reward", "finished", "full_length", "judge"],
    "step_seconds": 45,
}
SMALL: dict[str, Any] = {
    "engine": "verl",
    "verifier": "xverify",
    "xverify": {
        "prompt": {"repository": "upstream", "commit": "0" * 40},
        "model": "my/judge",
        "start_seconds": 60,
        "concurrent_requests": 8,
        "request_seconds": 5,
        "retry_seconds": 2,
    },
    "variants": {"short": {"training": {"steps": STEPS}}},
    "trials": {"pilot": PILOT},
}


def record(step: int, most_tokens: int) -> dict[str, Any]:
    """A step of a training that passes each check; rewards rise with some noise."""
    return {
        "step": step,
        "reward": 0.2 + 0.02 * step + 0.01 * (-1) ** step,
        "finished": 0.95,
        "response_tokens": most_tokens,
        "clipped": 0.01,
        "gradient_clipped": 0.4,
        "sampler": {"difference": 0.006, "correlation": 0.99},
        "seconds": {"sample": 20.0, "reward": 2.0, "update": 8.0},
    }


@pytest.fixture
def experiment(tmp_path: Path) -> Experiment:
    experiment = tiny_world.load(tmp_path, **SMALL)
    write(experiment, lambda step: {})
    write_verdicts(experiment, invalid=0)
    return experiment


def write(experiment: Experiment, changes: Callable[[int], dict[str, Any]]) -> None:
    """Write the training log of the cell, with changes of each step."""
    most = experiment.config.sampling.max_response_tokens
    records = [record(step, most) | changes(step) for step in range(1, STEPS + 1)]
    path = experiment.files.training_log(CELL)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(row)}\n" for row in records))


def write_verdicts(experiment: Experiment, invalid: int, count: int = 1000) -> None:
    path = experiment.files.verdicts(CELL, "train")
    path.parent.mkdir(parents=True, exist_ok=True)
    verdicts = ["invalid reply"] * invalid + ["correct"] * (count - invalid)
    path.write_text("".join(f"{json.dumps({'verdict': one})}\n" for one in verdicts))


def failed(experiment: Experiment) -> list[str]:
    return [one.check for one in trials.outcomes(experiment, "pilot") if not one.is_met]


def test_a_training_that_shows_everything_is_go(
    experiment: Experiment, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert failed(experiment) == []
    monkeypatch.chdir(experiment.root)
    assert main(["trial", "pilot"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"ok  seconds     {CELL}: 30.0 seconds in the median step, at most")
    assert lines[-2] == "trial pilot of scale tiny: go"
    assert "read about 100 verdicts" in lines[-1]


def sampler(difference: float) -> dict[str, Any]:
    return {"sampler": {"difference": difference, "correlation": 0.9}}


@pytest.mark.parametrize(
    ("check", "changes"),
    [
        ("seconds", lambda step: {"seconds": {"sample": 40.0, "update": 5.5}}),
        ("sampler", lambda step: sampler(0.021 if step == 5 else 0.006)),
        ("sampler", lambda step: sampler(0.006 if step < 9 else 0.012)),  # it grows
        ("sampler", lambda step: sampler(0.019 if step == 5 else 0.006)),  # three times the first
        ("sampler", lambda step: sampler(float("nan") if step == 5 else 0.006)),
        ("sampler", lambda step: {"sampler": None}),
        ("clipping", lambda step: {"gradient_clipped": 0.6}),
        ("clipping", lambda step: {"clipped": 0.01 if step < 9 else 0.07}),
        ("reward", lambda step: {"reward": 0.3 + 0.1 * (-1) ** step}),
        ("reward", lambda step: {"reward": 0.5 - 0.02 * step}),
        ("finished", lambda step: {"finished": 0.95 if step < 9 else 0.89}),
        ("full_length", lambda step: {"response_tokens": 1}),
    ],
)
def test_each_fault_of_a_log_fails_its_check_only(
    experiment: Experiment, check: str, changes: Callable[[int], dict[str, Any]]
) -> None:
    write(experiment, changes)
    assert failed(experiment) == [check]


def test_rounding_errors_of_the_sampler_may_grow(experiment: Experiment) -> None:
    """In float32, one may be ten times another one."""
    write(experiment, lambda step: sampler(1e-7 if step < 9 else 1e-5))
    assert failed(experiment) == []
    write(experiment, lambda step: sampler(1e-7 if step < 9 else 0.002))
    assert failed(experiment) == ["sampler"]


@pytest.mark.parametrize(("invalid", "expected"), [(9, []), (10, ["judge"])])
def test_less_than_one_percent_of_the_replies_may_be_invalid(
    experiment: Experiment, invalid: int, expected: list[str]
) -> None:
    write_verdicts(experiment, invalid)
    assert failed(experiment) == expected


def test_a_trial_that_fails_has_status_1(
    experiment: Experiment, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write(experiment, lambda step: {"finished": 0.5})
    monkeypatch.chdir(experiment.root)
    assert main(["trial", "pilot"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "trial pilot of scale tiny: no go: 1 of 7 checks failed"


def test_unfinished_trainings_and_unknown_trials_are_errors(experiment: Experiment) -> None:
    with pytest.raises(InputError, match=r"no trial 'pilto' in config/tiny\.yaml"):
        trials.outcomes(experiment, "pilto")
    path = experiment.files.training_log(CELL)
    path.write_text("\n".join(path.read_text().splitlines()[:3]) + "\n")
    with pytest.raises(InputError, match="has 3 rows, expected one for each step 1 to 12"):
        trials.outcomes(experiment, "pilot")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"step_seconds": None}, "step_seconds: needed with the check seconds"),
        ({"checks": ["speed"]}, "speed"),
        ({"checks": []}, "checks"),
        ({"suite": "none"}, r"trials\.pilot\.suite"),
    ],
)
def test_a_trial_that_cannot_be_checked_is_one_error(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        tiny_world.load(tmp_path, **SMALL | {"trials": {"pilot": PILOT | changes}})


# --- the trials of the paper's scale --------------------------------------------------------------


def test_verl_accepts_the_trials_of_the_paper_and_samples_beyond_the_end_for_stress(
    tmp_path: Path,
) -> None:
    experiment = paper_scale.load(tmp_path)
    assert list(experiment.config.trials) == ["stress", "pilot"]
    for name in experiment.config.trials:
        for cell in experiment.cells_of(name):
            config = verl_config(experiment.for_cell(cell.name), cell.name)
            assert config.actor_rollout_ref.rollout.ignore_eos == (name == "stress")
            assert config.trainer.total_training_steps == {"stress": 2, "pilot": 60}[name]


def test_the_pilot_warms_up_as_the_real_training(tmp_path: Path) -> None:
    """As many updates, or the first 60 steps would have other learning rates."""
    experiment = paper_scale.load(tmp_path)
    pilot = experiment.for_cell(experiment.cells_of("pilot")[0].name).config.training
    real = experiment.config.training
    updates = real.prompts_per_step // real.prompts_per_update
    counts = [int(one.optimizer.warmup_ratio * one.steps * updates) for one in (pilot, real)]
    assert counts == [232, 232]


@pytest.mark.parametrize(
    ("target", "jobs"),
    [
        ("stress", {"train": 2, "stress": 1}),
        ("pilot", {"train": 2, "sample": 2, "score": 2, "curves": 2, "pilot": 1}),
    ],
)
def test_a_trial_is_a_target(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str, jobs: dict[str, int]
) -> None:
    monkeypatch.chdir(make_project(tmp_path))
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.snakemake_jobs", "paper", target],
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    rules = [json.loads(line)["rule"] for line in done.stdout.splitlines() if line[:1] == "{"]
    made_first = {"prepare", "pretrain", "fetch_judge", "judge"}
    counts = {rule: rules.count(rule) for rule in rules if rule not in made_first}
    assert counts == jobs
