"""What `rspo status` says is read from the files and nothing else."""

import json
import os
import platform
import time
from pathlib import Path

import pytest

from rspo.config import fingerprints
from rspo.config.experiment import Experiment
from rspo.core.locks import exclusive_lock
from rspo.core.provenance import provenance_path
from rspo.status import duration, ending, follow, line, standings, suites_of_run
from rspo.training.progress import Progress, Snapshot, read_progress
from tests.support import tiny_world

RUNNING, ELSEWHERE, SILENT, STOPPED, DONE = (
    "small--rspo-pass--k2--n16--s0",
    "small--hitchhiking--k2--n16--s0",
    "small--hitchhiking--k4--n16--s0",
    "small--rspo-pass--k4--n16--s0",
    "small--policy-gradient--k1--n16--s0",
)


@pytest.fixture
def experiment(tmp_path: Path) -> Experiment:
    return tiny_world.load(tmp_path)


def report(experiment: Experiment, policy: str, written: float, host: str = "") -> None:
    """A progress file as a job writes it."""
    folder = experiment.checkpoint(policy)
    folder.mkdir(parents=True)
    metrics = {"reward": 0.25, "entropy": 0.125}
    snapshot = Snapshot(50, 200, 0.5, metrics, host or platform.node(), os.getpid(), written)
    (folder / "progress.json").write_text(json.dumps(vars(snapshot)))


def finish(experiment: Experiment, policy: str, training: float) -> None:
    """The files of a policy that was trained and evaluated."""
    experiment.policy(policy).mkdir(parents=True)
    settings = (
        fingerprints.settings(experiment, "train", policy) if policy in experiment.cells else {}
    )
    note = json.dumps({"wall_seconds": training, "settings": {"settings": settings}})
    provenance_path(experiment.policy(policy)).write_text(note)
    for name, suite in experiment.evaluations:
        if name == policy:
            experiment.curves(policy, suite).parent.mkdir(exist_ok=True)
            experiment.curves(policy, suite).touch()
    files = {
        experiment.samples(policy, "linear", 0): 6,
        experiment.scores(policy, "linear", 0): 3,
        experiment.curves(policy, "standard"): 1,
    }
    for file, seconds in files.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        provenance_path(file).write_text(json.dumps({"wall_seconds": seconds}))


def test_every_state_is_told_apart(experiment: Experiment) -> None:
    finish(experiment, DONE, 80)
    report(experiment, RUNNING, written=time.time())
    report(experiment, STOPPED, written=time.time())  # before a reboot: its number is another's
    report(experiment, ELSEWHERE, written=time.time() - 60, host="node2")
    report(experiment, SILENT, written=time.time() - 7200, host="node2")
    experiment.policy("small--base").mkdir(parents=True)
    with exclusive_lock(experiment.folder(RUNNING)):
        states = {standing.policy: standing.state for standing in standings(experiment)}
    assert states[DONE] == "evaluated"
    assert states[RUNNING] == "running"
    assert states[STOPPED] == states[SILENT] == "stopped"
    assert states[ELSEWHERE] == "running"
    assert states["small--base"] == "trained"
    assert states["medium--base"] == "waiting"
    assert len(states) == 27


def test_a_silent_job_on_another_host_runs_as_long_as_it_has_its_folder(
    experiment: Experiment,
) -> None:
    report(experiment, SILENT, written=time.time() - 7200, host="node2")
    with exclusive_lock(experiment.folder(SILENT)):
        assert {s.state for s in standings(experiment, {SILENT: ["standard"]})} == {"running"}
    assert {s.state for s in standings(experiment, {SILENT: ["standard"]})} == {"stopped"}


def test_a_policy_of_other_settings_is_stale(experiment: Experiment, tmp_path: Path) -> None:
    finish(experiment, DONE, 80)
    changed = tiny_world.load(tmp_path, training={"steps": 7})
    assert {s.state for s in standings(changed, {DONE: ["standard"]})} == {"stale"}
    assert "0 of 1 policies trained, 0 evaluated" in line(changed, {DONE: ["standard"]})


def test_curves_of_the_policy_before_this_one_do_not_count(experiment: Experiment) -> None:
    finish(experiment, DONE, 80)
    os.utime(experiment.curves(DONE, "standard"), (1, 1))
    assert {s.state for s in standings(experiment, {DONE: ["standard"]})} == {"trained"}


def test_work_left_follows_from_what_took_how_long(experiment: Experiment) -> None:
    """A finished cell of n = 16 took 80 s and its evaluation 10 s."""
    finish(experiment, DONE, 80)
    report(experiment, RUNNING, written=time.time())
    left = {standing.policy: standing.seconds_left for standing in standings(experiment)}
    assert left[DONE] == 0
    assert left[RUNNING] == pytest.approx(150 * 0.5 + 10)
    assert left["small--rspo-pass--k4--n32--s0"] == pytest.approx(160 + 10)
    assert left["small--rspo-pass--k4--n4--s0"] == pytest.approx(20 + 10)
    assert left["small--base"] is None  # no base has finished yet


def test_the_line_names_counts_running_cells_and_the_end(experiment: Experiment) -> None:
    report(experiment, RUNNING, written=time.time())
    with exclusive_lock(experiment.folder(RUNNING)):
        text = line(experiment)
    assert text.startswith("0 of 27 policies trained, 0 evaluated")
    assert f"{RUNNING} step 50/200  reward 0.250  entropy 0.125" in text
    assert text.endswith("end not known before the first cell is done")
    for policy in experiment.policies:
        if policy != RUNNING:
            finish(experiment, policy, 80)
    assert "about 85 s left (until " in line(experiment)


def test_a_cell_that_is_trained_again_runs_although_its_old_curves_are_there(
    experiment: Experiment,
) -> None:
    for policy in experiment.policies:
        finish(experiment, policy, 80)
    report(experiment, RUNNING, written=time.time())
    with exclusive_lock(experiment.folder(RUNNING)):
        assert f"26 evaluated | {RUNNING} step 50/200" in line(experiment)


def test_a_run_of_a_few_policies_is_told_of_those(experiment: Experiment) -> None:
    """Its jobs tell which, and on which suites: others that the config has come in another run."""
    run = suites_of_run(
        [
            {"data_set": "train"},
            {"cell": STOPPED},
            {"policy": STOPPED, "benchmark": "linear", "block": "0"},
            {"policy": STOPPED, "suite": "standard"},
            {"cell": DONE},
        ]
    )
    assert (STOPPED, "contamination_free") in experiment.evaluations
    for policy in (STOPPED, DONE):
        finish(experiment, policy, 80)
    experiment.curves(STOPPED, "standard").unlink()
    assert "2 of 2 policies trained, 0 evaluated | end not known" in line(experiment, run)
    experiment.curves(STOPPED, "standard").touch()
    experiment.curves(STOPPED, "contamination_free").unlink()
    # Nothing is evaluated of a cell that was asked for alone.
    assert line(experiment, run) == "2 of 2 policies trained, 1 evaluated | all finished"
    assert STOPPED in {s.policy for s in standings(experiment) if s.state == "trained"}


def test_all_evaluated_is_finished(experiment: Experiment) -> None:
    for policy in experiment.policies:
        finish(experiment, policy, 80)
    assert line(experiment) == "27 of 27 policies trained, 27 evaluated | all finished"
    assert ending(standings(experiment)) == "all finished"


def test_following_prints_what_changed_and_ends_with_the_work(
    experiment: Experiment, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    waits = []

    def wait(seconds: float) -> None:
        """Stands for sleeping; the third time, all work is done."""
        waits.append(seconds)
        if len(waits) == 3:
            for policy in experiment.policies:
                finish(experiment, policy, 80)

    monkeypatch.setattr("rspo.status.time.sleep", wait)
    follow(experiment)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert "0 of 27 policies trained" in lines[0]
    assert lines[1].endswith("27 evaluated | all finished")


@pytest.mark.parametrize(("seconds", "words"), [(45, "45 s"), (720, "12 min"), (19_800, "5.5 h")])
def test_durations_are_said_in_the_unit_that_fits(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_a_job_reports_its_last_step_and_its_speed(tmp_path: Path) -> None:
    progress = Progress(tmp_path, start=10, steps=12)
    progress.report(11, {"reward": 0.1})
    assert read_progress(tmp_path) is None  # at most once a second
    time.sleep(0.05)
    progress.report(12, {"reward": 0.2})
    snapshot = read_progress(tmp_path)
    assert snapshot is not None
    assert (snapshot.step, snapshot.steps, snapshot.process) == (12, 12, os.getpid())
    assert snapshot.metrics == {"reward": 0.2}
    assert 0.02 < snapshot.seconds_per_step < 1
