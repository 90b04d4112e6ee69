"""The status of policies, and how it is printed."""

import json
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from rspo.cli import main
from rspo.config.experiment import Cell, Experiment
from rspo.core.files import write_text
from rspo.core.locks import LOCK, exclusive_lock
from rspo.pipeline import tasks
from rspo.pipeline.provenance import provenance_path
from rspo.pipeline.task import Task
from rspo.status.display import line, shown_in_terminal, table_text
from rspo.status.policies import statuses
from rspo.status.time_left import Pace
from rspo.training.checkpoint import STATE_FILE
from rspo.training.progress import Progress, Snapshot, read_progress, shown_metrics
from rspo.training.records import record_of
from rspo.training.rewards import Scored
from tests.support import tiny_world

RUNNING, STOPPED, DONE = (
    "small--rspo-pass--k2--n16--s0",
    "small--rspo-pass--k4--n16--s0",
    "small--policy-gradient--k1--n16--s0",
)


@pytest.fixture
def experiment(tmp_path: Path) -> Experiment:
    return tiny_world.load(tmp_path)


def report(experiment: Experiment, policy: str) -> None:
    """Write the progress file of a job."""
    folder = experiment.files.checkpoint(policy)
    folder.mkdir(parents=True)
    metrics = {"reward": 0.25, "pass_at_2": 0.5, "entropy": 0.125}
    snapshot = Snapshot(50, 200, metrics)
    (folder / "progress.json").write_text(json.dumps(vars(snapshot)))


def made(step: Task, seconds: float = 0.0, **more: Any) -> None:
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
    made(tasks.policy_task(experiment, policy), training)
    for name, suite in experiment.evaluations:
        if name == policy:
            for step, seconds in ((tasks.sample, 6), (tasks.score, 3)):
                made(step(experiment, policy, suite, 0), seconds * (suite == "standard"))
            made(tasks.curves(experiment, policy, suite), suite == "standard")


def state_of(experiment: Experiment, policy: str) -> str:
    (state,) = (one.state for one in statuses(experiment) if one.policy == policy)
    return state


def test_every_state_is_recognized(experiment: Experiment) -> None:
    finish(experiment, DONE, 80)
    report(experiment, RUNNING)
    report(experiment, STOPPED)  # its process ID may be reused
    made(tasks.pretrain(experiment, "small"))
    with exclusive_lock(experiment.files.folder(RUNNING)):
        states = {status.policy: status.state for status in statuses(experiment)}
    assert states[DONE] == "evaluated"
    assert states[RUNNING] == "running"
    assert states[STOPPED] == "stopped"
    assert states["small--base"] == "trained"
    assert states["medium--base"] == "waiting"
    assert len(states) == 28
    summary = "2 of 28 policies trained, 1 of 28 evaluated"
    assert summary in table_text(experiment).splitlines()


def test_a_base_policy_made_with_other_settings_is_stale_and_so_are_its_cells(
    experiment: Experiment, tmp_path: Path
) -> None:
    made(tasks.pretrain(experiment, "small"))
    finish(experiment, DONE, 80)
    retrained = tiny_world.load(tmp_path, training={"steps": 7})
    assert state_of(retrained, DONE) == "stale"
    assert (state_of(experiment, "small--base"), state_of(experiment, DONE)) == (
        "trained",
        "evaluated",
    )
    changed = tiny_world.load(tmp_path, models={"small": {"scratch": {"steps": 7}}})
    assert (state_of(changed, "small--base"), state_of(changed, DONE)) == ("stale", "stale")
    assert state_of(changed, RUNNING) == "waiting"  # it was never trained


def test_a_policy_stays_finished_without_its_inputs_but_not_with_others(
    experiment: Experiment,
) -> None:
    """As where only policies and curves were copied, or a base policy was deleted."""
    base = experiment.files.policy("small--base")
    finish(experiment, DONE, 80)
    made(tasks.pretrain(experiment, "small"))
    assert state_of(experiment, DONE) == "evaluated"
    made(tasks.pretrain(experiment, "small"), digest="second")
    assert state_of(experiment, DONE) == "stale"
    shutil.rmtree(base)
    provenance_path(base).unlink()
    assert state_of(experiment, DONE) == "evaluated"


@pytest.mark.parametrize("damaged", ["policy", "checkpoint"])
def test_damaged_weights_and_checkpoints_are_stale(experiment: Experiment, damaged: str) -> None:
    """By their size or ending: `rspo status` does not read gigabytes."""
    finish(experiment, DONE, 80)
    if damaged == "policy":
        made(tasks.train(experiment, DONE), bytes=1)
    else:
        report(experiment, DONE)
        file = experiment.files.checkpoint(DONE) / STATE_FILE
        torch.save({"step": 3}, file)
        write_text(file.with_name("origin.json"), "{}")
        assert state_of(experiment, DONE) == "stopped"
        file.write_bytes(file.read_bytes()[:-9])
    assert state_of(experiment, DONE) == "stale"


def test_curves_of_other_settings_or_other_scores_do_not_count(
    experiment: Experiment, tmp_path: Path
) -> None:
    finish(experiment, DONE, 80)
    assert state_of(tiny_world.load(tmp_path, evaluation={"k": [1, 2]}), DONE) == "scored"
    scores = experiment.files.scores(DONE, "standard", 0)
    assert state_of(experiment, DONE) == "evaluated"
    made(tasks.curves(experiment, DONE, "standard"), inputs={str(scores): "made"})
    assert state_of(experiment, DONE) == "evaluated"
    made(tasks.score(experiment, DONE, "standard", 0), digest="other")
    assert state_of(experiment, DONE) == "scored"


def test_the_line_has_jobs_and_some_of_the_running_policies(
    experiment: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    with exclusive_lock(experiment.files.folder(RUNNING)):
        assert line(experiment) == ""  # the job has only started
    report(experiment, STOPPED)
    with exclusive_lock(experiment.files.folder(RUNNING)):
        report(experiment, RUNNING)
        assert line(experiment, (3, 9)) == (
            f"3 of 9 jobs done | {RUNNING} step 50/200 reward 0.250 Pass@k 0.500 entropy 0.125"
        )
        times = iter([0.0, 30.0])  # ten steps in half a minute: the other 150 take 7.5
        pace = Pace(lambda: next(times))
        pace.seconds_left(RUNNING, 40, 200)
        text = line(experiment, (3, 9), 7200.0, pace)
        assert text.startswith("3 of 9 jobs done, 2 h 0 min left | ")
        assert text.endswith(" entropy 0.125, 8 min left")
        monkeypatch.setattr("rspo.status.display.POLICIES_IN_LINE", 0)
        assert line(experiment) == "1 more are running"


def test_the_progress_of_an_earlier_process_is_not_shown(experiment: Experiment) -> None:
    """It may count steps behind the last checkpoint, which the present process makes again."""
    report(experiment, RUNNING)
    file = experiment.files.checkpoint(RUNNING) / "progress.json"
    os.utime(file, ns=(0, 0))
    with exclusive_lock(experiment.files.folder(RUNNING)):
        assert line(experiment) == ""
        rows = [row.split() for row in table_text(experiment).splitlines()]
        assert [RUNNING, "running"] in rows
        os.utime(file)
        assert line(experiment).startswith(f"{RUNNING} step 50/200")
    os.utime(file, ns=(0, 0))
    rows = [row.split() for row in table_text(experiment).splitlines()]
    assert [RUNNING, "stopped", "50/200", "0.250", "0.500", "0.125"] in rows


def test_below_the_table_is_what_is_wrong_and_the_command_that_mends_it(
    experiment: Experiment, tmp_path: Path
) -> None:
    for policy in experiment.policies:
        finish(experiment, policy, 80)
    with exclusive_lock(experiment.files.folder(RUNNING)):
        report(experiment, RUNNING)
        # The training began five minutes ago, and its last record is three minutes old.
        now = time.time()
        lock = experiment.files.folder(RUNNING) / LOCK
        progress = experiment.files.checkpoint(RUNNING) / "progress.json"
        os.utime(lock, (now - 300, now - 300))
        os.utime(progress, (now - 180, now - 180))
        rows = [row.split() for row in table_text(experiment).splitlines()]
    assert rows[0] == ["policy", "state", "step", "reward", "Pass@k", "entropy", "last", "record"]
    assert [row[0] for row in rows[1:29]] == experiment.policies
    row = [RUNNING, "running", "50/200", "0.250", "0.500", "0.125", "3", "min", "ago"]
    assert row in rows
    assert [DONE, "evaluated"] in rows
    shutil.rmtree(experiment.files.checkpoint(RUNNING))
    assert table_text(experiment).splitlines()[-1] == ("28 policies trained, 28 of 28 evaluated")
    experiment.files.curves(DONE, "standard").unlink()
    assert table_text(experiment).splitlines()[28 + 1] == (
        "28 policies trained, 28 of 28 scored, 27 of 28 evaluated: `snakemake all` makes the "
        "curves, which a study does not need"
    )
    experiment.files.scores(DONE, "standard", 0).unlink()
    assert table_text(experiment).splitlines()[28 + 1] == (
        "28 policies trained, 27 of 28 evaluated: `snakemake all` evaluates the others"
    )
    changed = tiny_world.load(tmp_path, training={"steps": 7})
    *_, summary, first, second = table_text(changed).splitlines()[: 28 + 4]
    assert summary.startswith("2 of 28 policies trained, ")
    cell = next(iter(changed.cells))
    assert first == (
        f"{changed.files.policy(cell)} was made with other settings (training.steps: 6 -> 7); "
        f"`{tasks.train(changed, cell).command} --force` makes it again"
    )
    assert second.startswith(
        f"{changed.files.policy([*changed.cells][1])} was made with other settings"
    )
    assert table_text(changed).splitlines()[-1] == f"and {len(changed.cells) - 20} more"


def test_a_file_of_the_user_that_is_missing_is_named_below_the_table(tmp_path: Path) -> None:
    tiny_world.load(tmp_path)
    mine = {"label": "Mine", "file": "my.csv", "problem": "question", "answer": "gold"}
    experiment = tiny_world.load(tmp_path, data={"suites": {"standard": {"mine": mine}}})
    assert f"{tmp_path}/my.csv: cannot be read" in table_text(experiment).splitlines()[-1]


@pytest.mark.promise("rspo status")
def test_the_command_prints_what_is_done_running_and_left(
    experiment: Experiment,
    promised: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    finish(experiment, DONE, 80)
    monkeypatch.chdir(experiment.files.reports.parent)
    with exclusive_lock(experiment.files.folder(RUNNING)):
        report(experiment, RUNNING)
        assert main(promised) == 0
    rows = {row.split()[0]: row.split()[1] for row in capsys.readouterr().out.splitlines()[1:28]}
    assert (rows.pop(DONE), rows.pop(RUNNING)) == ("evaluated", "running")
    assert set(rows.values()) == {"waiting"}


def test_the_table_has_the_values_of_the_last_step_of_finished_cells(
    experiment: Experiment,
) -> None:
    finish(experiment, DONE, 80)
    log = experiment.files.training_log(DONE)

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


def test_the_table_has_no_values_of_a_training_that_is_to_be_made_again(
    experiment: Experiment, tmp_path: Path
) -> None:
    finish(experiment, DONE, 80)
    record = {"step": 2, "reward": 0.25, "pass_at_1": 0.5, "entropy": 1}
    experiment.files.training_log(DONE).write_text(json.dumps(record))
    changed = tiny_world.load(tmp_path, training={"steps": 7})
    assert [DONE, "stale"] in [row.split() for row in table_text(changed).splitlines()]


@pytest.mark.parametrize("in_terminal", [True, False])
def test_a_training_by_hand_shows_its_progress_in_a_terminal(
    experiment: Experiment,
    in_terminal: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: in_terminal)
    with exclusive_lock(experiment.files.folder(RUNNING)):
        report(experiment, RUNNING)
        with shown_in_terminal(experiment):
            pass
    shown = capsys.readouterr().err
    assert (f"{RUNNING} " in shown) == in_terminal
    assert ("step 50/200  reward 0.250" in shown) == in_terminal


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


def test_only_a_running_training_has_an_age(experiment: Experiment) -> None:
    report(experiment, STOPPED)
    with exclusive_lock(experiment.files.folder(RUNNING)):
        # A training that has not reported yet has none, even if an earlier one left its progress.
        assert [status.age for status in statuses(experiment)] == [None] * len(statuses(experiment))
        report(experiment, RUNNING)
        ages = {status.policy: status.age for status in statuses(experiment)}
    assert [policy for policy, age in ages.items() if age is not None] == [RUNNING]


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
    shutil.rmtree(experiment.files.checkpoint(last.policy))
    made(tasks.policy_task(experiment, last.policy))
    assert state_of(experiment, last.policy) == "trained"
    for task in (tasks.sample, tasks.score):
        made(task(experiment, last.policy, "standard", 0))
    made(tasks.curves(experiment, last.policy, "standard"))
    assert state_of(experiment, last.policy) == "evaluated"
