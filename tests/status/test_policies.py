"""The status of policies, and how it is printed."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from rspo.config import steps
from rspo.config.experiment import Cell, Experiment
from rspo.core.files import write_text
from rspo.core.locks import exclusive_lock
from rspo.core.provenance import provenance_path
from rspo.core.step import Step
from rspo.status.display import MOST_NAMED, line, table_text
from rspo.status.policies import Status, Suites, statuses, suites_of_run
from rspo.training.checkpoint import STATE_FILE
from rspo.training.progress import Progress, Snapshot, read_progress, shown_metrics
from rspo.training.records import Scored, record_of
from tests.support import tiny_world
from tests.support.terminal import run_in_terminal

RUNNING, STOPPED, DONE = (
    "small--rspo-pass--k2--n16--s0",
    "small--rspo-pass--k4--n16--s0",
    "small--policy-gradient--k1--n16--s0",
)


def line_of(experiment: Experiment, suites: Suites | None = None) -> str:
    return line(statuses(experiment, suites))


@pytest.fixture
def experiment(tmp_path: Path) -> Experiment:
    return tiny_world.load(tmp_path)


def report(experiment: Experiment, policy: str) -> None:
    """Write the progress file of a job."""
    folder = experiment.checkpoint(policy)
    folder.mkdir(parents=True)
    metrics = {"reward": 0.25, "pass_at_2": 0.5, "entropy": 0.125}
    snapshot = Snapshot(50, 200, metrics)
    (folder / "progress.json").write_text(json.dumps(vars(snapshot)))


def made(step: Step, seconds: float = 0.0, **more: Any) -> None:
    """Write the outputs of a step, empty, with their provenance."""
    for path in step.outputs:
        if path.name == "policy":
            path.mkdir(parents=True, exist_ok=True)
        else:
            write_text(path, "")
        inputs = {str(source): "made" for source in step.input_files}
        note = {"file": str(path), "settings": step.settings, "digest": "made", "bytes": 0}
        provenance_path(path).write_text(
            json.dumps(note | {"inputs": inputs, "wall_seconds": seconds} | more)
        )


def finish(experiment: Experiment, policy: str, training: float) -> None:
    """Write the files of a policy that was trained and evaluated, in 10 s on `standard`."""
    made(steps.policy_step(experiment, policy), training)
    for name, suite in experiment.evaluations:
        if name == policy:
            for step, seconds in ((steps.sample, 6), (steps.score, 3)):
                made(step(experiment, policy, suite, 0), seconds * (suite == "standard"))
            made(steps.curves(experiment, policy, suite), suite == "standard")


def state_of(experiment: Experiment, policy: str) -> str:
    (status,) = statuses(experiment, {policy: ["standard"]})
    return status.state


def test_every_state_is_recognized(experiment: Experiment) -> None:
    finish(experiment, DONE, 80)
    report(experiment, RUNNING)
    report(experiment, STOPPED)  # its process ID may be reused
    made(steps.pretrain(experiment, "small"))
    with exclusive_lock(experiment.folder(RUNNING)):
        states = {status.policy: status.state for status in statuses(experiment)}
    assert states[DONE] == "evaluated"
    assert states[RUNNING] == "running"
    assert states[STOPPED] == "stopped"
    assert states["small--base"] == "trained"
    assert states["medium--base"] == "waiting"
    assert len(states) == 27


def test_a_base_policy_made_with_other_settings_is_stale_and_so_are_its_cells(
    experiment: Experiment, tmp_path: Path
) -> None:
    made(steps.pretrain(experiment, "small"))
    finish(experiment, DONE, 80)
    retrained = tiny_world.load(tmp_path, training={"steps": 7})
    assert "0 of 1 policies trained, 0 evaluated" in line_of(retrained, {DONE: ["standard"]})
    of_base_and_cell: Suites = {"small--base": [], DONE: []}
    assert [s.state for s in statuses(experiment, of_base_and_cell)] == ["trained", "trained"]
    changed = tiny_world.load(tmp_path, models={"small": {"scratch": {"steps": 7}}})
    assert [s.state for s in statuses(changed, of_base_and_cell)] == ["stale", "stale"]
    assert state_of(changed, RUNNING) == "waiting"  # it was never trained


def test_a_policy_stays_finished_without_its_inputs_but_not_with_others(
    experiment: Experiment,
) -> None:
    """As where only policies and curves were copied, or a base policy was deleted."""
    base = experiment.policy("small--base")
    finish(experiment, DONE, 80)
    made(steps.pretrain(experiment, "small"))
    assert state_of(experiment, DONE) == "evaluated"
    made(steps.pretrain(experiment, "small"), digest="second")
    assert state_of(experiment, DONE) == "stale"
    shutil.rmtree(base)
    provenance_path(base).unlink()
    assert state_of(experiment, DONE) == "evaluated"


@pytest.mark.parametrize("damaged", ["policy", "checkpoint"])
def test_damaged_weights_and_checkpoints_are_stale(experiment: Experiment, damaged: str) -> None:
    """By their size or ending: `rspo status` does not read gigabytes."""
    finish(experiment, DONE, 80)
    if damaged == "policy":
        made(steps.train(experiment, DONE), bytes=1)
    else:
        report(experiment, DONE)
        file = experiment.checkpoint(DONE) / STATE_FILE
        torch.save({"step": 3}, file)
        write_text(file.with_name("origin.json"), "{}")
        assert state_of(experiment, DONE) == "stopped"
        file.write_bytes(file.read_bytes()[:-9])
    assert state_of(experiment, DONE) == "stale"


def test_curves_of_other_settings_or_other_scores_do_not_count(
    experiment: Experiment, tmp_path: Path
) -> None:
    finish(experiment, DONE, 80)
    assert state_of(tiny_world.load(tmp_path, evaluation={"k": [1, 2]}), DONE) == "trained"
    scores = experiment.scores(DONE, "standard", 0)
    text = line_of(experiment, {DONE: ["standard"]})
    assert text == "1 of 1 policies trained, 1 evaluated"
    made(steps.curves(experiment, DONE, "standard"), inputs={str(scores): "made"})
    assert state_of(experiment, DONE) == "evaluated"
    made(steps.score(experiment, DONE, "standard", 0), digest="other")
    assert state_of(experiment, DONE) == "trained"


def test_the_line_has_counts_and_running_cells(experiment: Experiment) -> None:
    report(experiment, RUNNING)
    with exclusive_lock(experiment.folder(RUNNING)):
        text = line_of(experiment)
    metrics = "reward 0.250 Pass@k 0.500 entropy 0.125"
    assert text == f"0 of 27 policies trained, 0 evaluated | {RUNNING} step 50/200 {metrics}"
    for policy in experiment.policies:
        if policy != RUNNING:
            finish(experiment, policy, 80)
    with exclusive_lock(experiment.folder(RUNNING)):  # it is trained again: its curves are old
        assert f"26 evaluated | {RUNNING} step 50/200" in line_of(experiment)


def test_a_run_counts_only_its_own_policies(experiment: Experiment) -> None:
    """And only the suites on which this run evaluates them."""
    run = suites_of_run(
        [
            {"data_set": "train"},
            {"cell": STOPPED},
            {"policy": STOPPED, "suite": "standard", "block": "0"},
            {"cell": DONE},
        ]
    )
    assert (STOPPED, "contamination_free") in experiment.evaluations
    for policy in (STOPPED, DONE):
        finish(experiment, policy, 80)
    experiment.curves(STOPPED, "standard").unlink()
    assert line_of(experiment, run) == "2 of 2 policies trained, 0 evaluated"
    made(steps.curves(experiment, STOPPED, "standard"))
    experiment.curves(STOPPED, "contamination_free").unlink()
    # A cell that was requested by itself is not evaluated in this run.
    assert line_of(experiment, run) == "2 of 2 policies trained, 1 evaluated"
    assert STOPPED in {s.policy for s in statuses(experiment) if s.state == "trained"}


def test_a_line_names_a_few_running_policies_and_counts_the_others() -> None:
    snapshot = Snapshot(50, 200, {})
    running = [Status(f"cell{number}", "running", snapshot) for number in range(25)]
    text = line(running, (3, 9))
    assert text.startswith("3 of 9 jobs done, 0 of 25 policies trained, 0 evaluated | cell0 step ")
    assert text.count(" step 50/200") == MOST_NAMED
    assert text.endswith(f" | {25 - MOST_NAMED} more are running")


def test_below_the_table_is_what_is_wrong_and_the_command_that_mends_it(
    experiment: Experiment, tmp_path: Path
) -> None:
    for policy in experiment.policies:
        finish(experiment, policy, 80)
    report(experiment, RUNNING)
    with exclusive_lock(experiment.folder(RUNNING)):
        rows = [row.split() for row in table_text(experiment).splitlines()]
    assert rows[0] == ["policy", "state", "step", "reward", "Pass@k", "entropy"]
    assert [row[0] for row in rows[1:28]] == experiment.policies
    assert [RUNNING, "running", "50/200", "0.250", "0.500", "0.125"] in rows
    assert [DONE, "evaluated"] in rows
    shutil.rmtree(experiment.checkpoint(RUNNING))
    assert table_text(experiment).splitlines()[-1] == "27 of 27 policies trained, 27 evaluated"
    changed = tiny_world.load(tmp_path, training={"steps": 7})
    *_, summary, first, second = table_text(changed).splitlines()[: 27 + 4]
    assert summary.startswith("2 of 27 policies trained, ")
    cell = next(iter(changed.cells))
    assert first == (
        f"{changed.policy(cell)} was made with other settings (training.steps: 6 -> 7); "
        f"`{steps.train(changed, cell).command} --force` makes it again"
    )
    assert second.startswith(f"{changed.policy([*changed.cells][1])} was made with other settings")
    assert table_text(changed).splitlines()[-1] == f"and {len(changed.cells) - 20} more"


def test_the_table_has_the_values_of_the_last_step_of_finished_cells(
    experiment: Experiment,
) -> None:
    finish(experiment, DONE, 80)
    log = experiment.training_log(DONE)

    def rows_with(text: str) -> list[list[str]]:
        log.write_text(text)
        note = json.loads(provenance_path(log).read_text()) | {"bytes": len(text)}
        provenance_path(log).write_text(json.dumps(note))
        return [row.split() for row in table_text(experiment).splitlines()]

    records = [
        {"step": step, "reward": step / 8, "pass_at_1": step / 4, "entropy": 1} for step in (1, 2)
    ]
    rows = rows_with("".join(json.dumps(record) + "\n" for record in records))
    assert [DONE, "evaluated", "2/2", "0.250", "0.500", "1.000"] in rows
    for damaged in ("", "[1]", '{"step": 2'):
        assert [DONE, "evaluated"] in rows_with(damaged)


def test_training_shows_its_progress_in_a_terminal(tmp_path: Path) -> None:
    tiny_world.load_prepared(tmp_path)
    status, output = run_in_terminal(tiny_world.command("train", STOPPED), tmp_path)
    assert status == 0, output
    assert "1 of 1 policies trained" in output
    assert "training.jsonl" in output.splitlines()[-1]


@pytest.mark.parametrize(("k", "n", "shown"), [(1, 16, 1), (4, 4, 4), (7, 16, 4), (12, 12, 8)])
def test_a_cell_reports_pass_at_the_largest_power_of_two_up_to_its_k(
    tmp_path: Path, k: int, n: int, shown: int
) -> None:
    shape = (1, n)
    correct = torch.arange(n).view(shape) == 0
    scored = Scored(torch.ones(shape), correct, correct, correct.double(), torch.ones(shape))
    optimizer = tiny_world.load(tmp_path).config.training.optimizer
    record = record_of(0, scored, 0.5, [{"gradient_norm": 1.0}], {"sample": 1.0}, optimizer)
    metrics = shown_metrics(record, Cell("small", "rspo_pass_at_k", k, n, "binary", 0))
    assert list(metrics) == ["reward", f"pass_at_{shown}", "entropy"]
    assert metrics[f"pass_at_{shown}"] == pytest.approx(shown / n)  # 1 of n is correct


def test_a_job_reports_its_last_step(tmp_path: Path) -> None:
    progress = Progress(tmp_path, start=10, steps=12)
    progress.report(11, {"reward": 0.1})
    begun = read_progress(tmp_path)
    assert begun is not None
    assert begun.step == 10  # written at most once a second
    progress.report(12, {"reward": 0.2})
    snapshot = read_progress(tmp_path)
    assert snapshot is not None
    assert (snapshot.step, snapshot.steps) == (12, 12)
    assert snapshot.metrics == {"reward": 0.2}


def test_policies_of_a_study_are_listed_once_something_was_made_for_them(tmp_path: Path) -> None:
    cells = [{"model": "small", "objective": "grpo", "n": n} for n in (4, 16)]
    study = {"title": "Mine", "suite": "standard", "cells": cells, "contrasts": []}
    contrast = {"family": "mine", "minus": "base", "k": [1]}
    experiment = tiny_world.load(tmp_path, studies={"mine": study | {"contrasts": [contrast]}})
    assert [status.policy for status in statuses(experiment)] == experiment.policies
    report(experiment, "small--grpo--k1--n4--s0")
    *others, last = statuses(experiment)
    assert [status.policy for status in others] == experiment.policies
    assert (last.policy, last.state) == ("small--grpo--k1--n4--s0", "stopped")
