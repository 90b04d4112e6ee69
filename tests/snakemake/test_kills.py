"""Kills and Ctrl-C at the ends of jobs: forty of them, in pieces of five, with resumed runs.

A run is disturbed when a policy, samples or scores appear, or up to 1.5 seconds later: while their
provenance is written, while the command ends, before Snakemake has noticed, or after it.
"""

import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path

import psutil
import pytest

from rspo.config.experiment import Experiment
from rspo.core.files import digest
from rspo.pipeline import tasks
from rspo.pipeline.provenance import provenance_path, read_provenance
from rspo.pipeline.state import is_begun, state
from rspo.pipeline.task import Task
from tests.support import tiny_world
from tests.support.processes import LONGEST_WAIT, wait_until
from tests.support.snakemake_project import PROGRAMS, SMALL_WORLD, make_project

pytestmark = pytest.mark.long

PIECES, KILLS_OF_A_PIECE = 8, 5
TARGET = "reports/fig_scalability.pdf"
KINDS = ("Ctrl-C", "kill Snakemake", "kill all")  # all: also its jobs, as when a machine fails
LONGEST_DELAY = 1.5  # seconds


class Run:
    """A `snakemake` in a process group of its own, as a terminal starts it."""

    def __init__(self, project: Path) -> None:
        self.log = project / "run.log"
        with self.log.open("a") as log:
            self.process = subprocess.Popen(
                [PROGRAMS / "snakemake", TARGET, "--config", *SMALL_WORLD],
                cwd=project,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def wait_for_one_of(self, paths: set[Path]) -> None:
        """Wait until one of some paths, of which none exists, appears."""
        wait_until(lambda: any(path.exists() for path in paths) or self.has_ended(), pause=0.002)
        assert not self.has_ended(), self.log.read_text()[-3000:]

    def has_ended(self) -> bool:
        return self.process.poll() is not None

    def end(self, kind: str) -> None:
        """Disturb it, and wait until none of its processes is left."""
        if kind == "Ctrl-C":
            os.killpg(self.process.pid, signal.SIGINT)
        elif kind == "kill Snakemake":
            self.process.kill()
        else:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(LONGEST_WAIT)
        wait_until(lambda: not self.others())

    def others(self) -> list[int]:
        """Its jobs: those of a killed Snakemake end within a second."""
        return [pid for pid in psutil.pids() if group_of(pid) == self.process.pid]

    def finish(self) -> None:
        assert self.process.wait(LONGEST_WAIT * 4) == 0, self.log.read_text()[-3000:]


def group_of(pid: int) -> int | None:
    try:
        return None if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE else os.getpgid(pid)
    except (psutil.NoSuchProcess, ProcessLookupError):
        return None


def watched(experiment: Experiment) -> dict[Path, Task]:
    """The results whose appearance disturbs a run, each with its step."""
    found: dict[Path, Task] = {}
    for policy in experiment.policies_of("scalability"):
        made = [tasks.policy_task(experiment, policy)]
        made += [step(experiment, policy, "standard", 0) for step in (tasks.sample, tasks.score)]
        found |= {step.outputs[0]: step for step in made}
    return found


def versions(finished: dict[Path, Task]) -> dict[Path, tuple[str, str, int]]:
    """Of results: their digest, when they were written, and the time of their provenance."""
    return {
        path: (
            digest(path),
            read_provenance(path)["written"],
            provenance_path(path).stat().st_mtime_ns,
        )
        for step in finished.values()
        for path in step.outputs
    }


def results() -> dict[str, object]:
    """All results and the figure, without what was measured in seconds."""
    found: dict[str, object] = {}
    for note in sorted(Path("results").rglob("*.provenance.json")):
        path = note.with_name(note.name.removesuffix(".provenance.json"))
        found[str(path)] = digest(path)
        if path.suffix == ".jsonl":
            times = {"seconds", "tokens_per_second"}
            records = [json.loads(line) for line in path.read_text().splitlines()]
            found[str(path)] = [
                {key: record[key] for key in record if key not in times} for record in records
            ]
    return found | {str(path): digest(path) for path in Path("reports").glob("fig_*.???")}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    project = make_project(tmp_path_factory.mktemp("undisturbed"))
    Run(project).finish()
    with chdir(project):
        return results()


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    folder = make_project(tmp_path / "project")
    with chdir(folder):
        yield folder


@pytest.mark.parametrize("piece", range(PIECES))
def test_a_run_that_is_killed_at_the_ends_of_jobs_loses_no_finished_result(
    project: Path, undisturbed: dict[str, object], piece: int
) -> None:
    draw = random.Random(piece)
    experiment = Experiment.load("tiny", tiny_world.OVERRIDES)
    steps_of = watched(experiment)
    kept: dict[Path, tuple[str, str, int]] = {}
    for number in range(KILLS_OF_A_PIECE):
        waiting = {path for path in steps_of if not path.exists()}
        kind, delay = draw.choice(KINDS), draw.uniform(0, LONGEST_DELAY)
        run = Run(project)
        run.wait_for_one_of(waiting)
        time.sleep(delay)
        run.end(kind)
        finished = {
            path: step
            for path, step in steps_of.items()
            if state(step).is_current and not is_begun(step)
        }
        now = versions(finished)
        print(f"{piece}.{number}: {kind} after {delay:.2f} s, {len(finished)} finished")
        assert {path: now.get(path) for path in kept} == kept
        kept = now
    Run(project).finish()
    assert results() == undisturbed
    assert {path: version for path, version in versions(steps_of).items() if path in kept} == kept
