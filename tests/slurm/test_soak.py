"""Six cells through `snakemake --profile slurm` while a random schedule kills all that they need.

Nobody acts except to start the same command again. The results equal those of a run without SLURM,
bit for bit. A schedule takes some minutes; `SOAK_SEEDS=20` tests the first twenty, and
`SOAK_SEEDS=11-20` the last ten of them.
"""

import json
import os
import random
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import chdir, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import psutil
import pytest

from rspo.config.experiment import Experiment
from rspo.core.files import read_json_lines
from rspo.evaluation.curves import curves
from rspo.evaluation.sample import sample_suite
from rspo.evaluation.score import score
from rspo.pipeline.provenance import provenance_path
from rspo.training.train import train
from tests.support import slurm_cluster, slurm_run, slurm_world
from tests.support.slurm_cluster import Cluster

pytestmark = [pytest.mark.long, pytest.mark.slurm, pytest.mark.release]

FIRST, _, LAST = os.environ.get("SOAK_SEEDS", "1").rpartition("-")
SEEDS = range(int(FIRST or 1), 1 + int(LAST))
CELLS = [f"small--rspo-pass--k4--n{n}--s{seed}" for n in (8, 16) for seed in range(3)]
FOLDERS = [Path("results/tiny/cells", cell) for cell in CELLS]
TARGETS = [str(folder / name) for folder in FOLDERS for name in ("policy", "training.jsonl")]
EVALUATED = ("samples/standard/0.parquet", "scores/standard/0.parquet", "curves/standard.parquet")
TARGETS += [str(FOLDERS[0] / name) for name in EVALUATED]
SECONDS_OF_KILLS = 30  # while jobs run; the schedule lasts that long
SECONDS_TO_END = 1200  # the run must end by itself, which takes it two to four minutes
SECONDS_TO_REQUEUE = 10  # at most, until SLURM starts a requeued job again
KINDS = (
    *("scancel", "kill process", "kill Snakemake", "kill slurmd", "kill node", "break launches"),
    *("kill controller", "lose seconds", "lose all jobs"),
)
# What may lose the results of a job that has just ended.
KINDS_AT_ENDS = ("kill Snakemake", "kill slurmd", "kill node", "kill controller", "lose seconds")

Item = TypeVar("Item")


@dataclass(frozen=True)
class Event:
    """One disturbance.

    at: seconds during which jobs must have run; None for the end of a training. If the target is
        absent, the event waits for it.
    target: selects one of the jobs, processes or nodes at that time, from 0 to 1.
    absent: seconds until what was killed starts again.
    """

    at: float | None
    kind: str
    target: float
    absent: float


def schedule(seed: int) -> list[Event]:
    """Each kind once, and two more, at random times; three events at ends of trainings."""
    draw = random.Random(seed)
    events = [
        Event(draw.uniform(0, SECONDS_OF_KILLS), kind, draw.random(), draw.uniform(0.5, 15))
        for kind in [*KINDS, *draw.choices(KINDS, k=2)]
    ]
    events += [
        Event(None, kind, draw.random(), draw.uniform(0.5, 15))
        for kind in draw.sample(KINDS_AT_ENDS, k=3)
    ]
    return events


class Soak:
    """Starts the command until it succeeds, and applies a schedule meanwhile."""

    def __init__(self, cluster: Cluster, project: Path, events: list[Event]) -> None:
        self.cluster, self.project = cluster, project
        self.log = project / "run.log"
        self.started = time.monotonic()
        self.ticked = self.seconds_of_jobs = 0.0  # the second one while jobs run
        self.events = events  # that were not applied yet
        self.applied: Counter[str] = Counter()  # by kind
        self.applied_at_ends = 0  # as many of these events as ends find their targets
        self.repairs: list[tuple[float, Callable[[], None]]] = []  # with the time of each
        self.state = cluster.folder / "state-before"  # of the controller, some seconds ago
        self.serviced = 0.0
        self.finished: set[str] = set()  # cells that are trained
        self.just_finished: set[str] = set()  # since the look before

    @property
    def now(self) -> float:
        return time.monotonic() - self.started

    def run(self) -> None:
        """Returns when the command has succeeded."""
        process = self.start()
        try:
            while (status := process.poll()) != 0:
                if self.now > SECONDS_TO_END:
                    raise AssertionError(f"the run does not end:\n{self.cluster.queue()}")
                if status is not None:
                    time.sleep(8)
                    process = self.start()
                self.repair(self.now)
                self.disturb(process)
                if "slurmctld" in self.cluster.daemons and self.now - self.serviced > 10:
                    self.service()
                time.sleep(0.2)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            self.repair(float("inf"))
        self.say("done")

    def start(self) -> "subprocess.Popen[str]":
        self.say("starting the command")
        return slurm_world.start(self.cluster, self.project, *TARGETS, log=self.log)

    def say(self, text: str) -> None:
        print(f"{self.now:6.1f} s  {text}", flush=True)
        with self.log.open("a") as log:
            log.write(f"--- {self.now:.1f} s: {text}\n")

    def repair(self, now: float) -> None:
        """Start again what has been absent for long enough."""
        for entry in [entry for entry in self.repairs if entry[0] <= now]:
            self.repairs.remove(entry)
            entry[1]()

    def service(self) -> None:
        """Copy the controller's state, and resume drained nodes that are fixed."""
        self.serviced = self.now
        shutil.rmtree(self.state, ignore_errors=True)
        with suppress(OSError, shutil.Error):  # the controller replaces its files meanwhile
            shutil.copytree(self.cluster.folder / "state", self.state)
        with suppress(AssertionError):  # the controller does not answer yet
            self.cluster.resume_nodes()

    def disturb(self, process: "subprocess.Popen[str]") -> None:
        """Apply the events that are due and whose targets are there."""
        before, self.ticked = self.ticked, self.now
        if self.cluster.job_processes():
            self.seconds_of_jobs += min(self.ticked - before, 1)
        for event in self.due():
            # If the target is absent, or SLURM does not answer, the event waits.
            with suppress(IndexError, AssertionError, psutil.NoSuchProcess):
                self.apply(event, process)
                self.events.remove(event)
                self.applied[event.kind] += 1
                self.applied_at_ends += event.at is None
                when = " at the end of a training" if event.at is None else ""
                target = f"(target {event.target:.2f}, absent {event.absent:.1f} s)"
                self.say(f"{event.kind}{when} {target}")

    def due(self) -> list[Event]:
        """The events whose time has come; one of those at ends for each look that finds an end."""
        seconds = self.seconds_of_jobs
        due = [event for event in self.events if event.at is not None and event.at <= seconds]
        finished = {folder.name for folder in FOLDERS if is_finished(self.project / folder)}
        self.just_finished = finished - self.finished
        self.finished = finished
        if self.just_finished:
            due += [event for event in self.events if event.at is None][:1]
        return due

    def apply(self, event: Event, process: "subprocess.Popen[str]") -> None:
        """Raises IndexError, AssertionError or NoSuchProcess if the target is absent."""
        match event.kind:
            case "kill Snakemake":
                assert process.poll() is None
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            case "kill process":
                pick(self.cluster.job_processes(), event).kill()
            case "scancel":
                self.cluster.command("scancel", pick(self.jobs(event), event)[0])
            case "kill slurmd" | "kill node" | "break launches":
                self.disturb_node(event, *pick(self.jobs(event), event))
            case _:
                self.disturb_controller(event)

    def jobs(self, event: Event) -> list[tuple[str, str]]:
        """Number and node of each job of a rule that runs on a node that is up.

        For an event at the end of a training, the job of that training only.

        Not of `srun`, with which a run checks a node: SLURM does not notice that a node which soon
        returns has lost it, and only its time limit of two minutes ends it.
        """
        if "slurmctld" not in self.cluster.daemons:
            return []
        jobs = [job for job in self.cluster.jobs("%T %i %N %k") if job[0] == "RUNNING"]
        jobs = [job for job in jobs if job[2] in self.cluster.daemons]
        jobs = [job for job in jobs if job[3].startswith("rule_")]
        if event.at is None:
            jobs = [job for job in jobs if any(cell in job[3] for cell in self.just_finished)]
        return [(number, node) for _, number, node, _ in jobs]

    def disturb_node(self, event: Event, job: str, node: str) -> None:
        cluster = self.cluster
        match event.kind:
            case "kill slurmd":
                cluster.stop_daemon(node)
                self.later(event, lambda: cluster.start_node(node))
            case "kill node":
                cluster.stop_node(node)
                self.later(event, lambda: cluster.start_node(node))
            case "break launches":
                # A job must start there meanwhile: this one, or one that waited for its place.
                cluster.command("scontrol", "requeue", job)
                cluster.break_launches(node)
                self.later(event, lambda: cluster.fix_launches(node), SECONDS_TO_REQUEUE)

    def disturb_controller(self, event: Event) -> None:
        assert "slurmctld" in self.cluster.daemons
        assert self.state.exists()
        self.cluster.stop_controller()
        if event.kind != "kill controller":
            self.cluster.lose_state(self.state if event.kind == "lose seconds" else None)
        self.later(event, self.cluster.start_controller)

    def later(self, event: Event, repair: Callable[[], None], seconds: float = 0) -> None:
        self.repairs.append((self.now + event.absent + seconds, repair))


def is_finished(folder: Path) -> bool:
    """Whether the training of a cell has written its last file, in the last second or before."""
    return (folder / "training.jsonl.provenance.json").exists()


def pick(items: Sequence[Item], event: Event) -> Item:
    return items[int(event.target * len(items))]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    training = slurm_run.TRAINING | {"steps": 24}
    folder = tmp_path_factory.mktemp("prepared")
    return slurm_run.prepare_project(folder, training, seeds=3, base_per_seed=False)


@pytest.fixture(scope="module")
def undisturbed(prepared: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The results of the same cells, made in this process."""
    folder = tmp_path_factory.mktemp("undisturbed") / "project"
    shutil.copytree(prepared, folder)
    with chdir(folder):
        experiment = Experiment.load("tiny")
        for cell in CELLS:
            train(experiment, cell)
        sample_suite(experiment, CELLS[0], "standard")
        score(experiment, CELLS[0], "standard")
        curves(experiment, CELLS[0], "standard")
    return results_of(folder)


def results_of(project: Path) -> dict[str, bytes]:
    """Each cell's weights and records (without times), and the curves."""
    experiment = Experiment.load("tiny", root=project)
    results = {name: (project / FOLDERS[0] / name).read_bytes() for name in EVALUATED}
    for cell in CELLS:
        records = read_json_lines(experiment.files.training_log(cell))
        for record in records:
            del record["seconds"], record["tokens_per_second"]
        results[f"{cell} records"] = json.dumps(records).encode()
        results[f"{cell} weights"] = (
            experiment.files.policy(cell) / "model.safetensors"
        ).read_bytes()
        assert not experiment.files.checkpoint(cell).exists()
        assert is_finished(experiment.files.folder(cell))
    for target in TARGETS:
        assert provenance_path(project / target).exists()
    return results


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    slurm_cluster.require_slurm()
    with slurm_cluster.started(nodes=3) as running:
        yield running


@pytest.mark.timeout(SECONDS_TO_END + 600)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_run_survives_a_random_schedule(
    cluster: Cluster, prepared: Path, undisturbed: dict[str, bytes], tmp_path: Path, seed: int
) -> None:
    project = tmp_path / "project"
    shutil.copytree(prepared, project)
    events = schedule(seed)
    print(f"seed {seed}:", *events, sep="\n")
    soak = Soak(cluster, project, events)
    try:
        soak.run()
    except BaseException:
        print(soak.log.read_text()[-20000:])
        raise
    left = [event for event in soak.events if event.at is not None]
    assert not left, "the run ended before these events: let it take more steps"
    assert soak.applied_at_ends > 0
    assert set(soak.applied) == set(KINDS)
    assert results_of(project) == undisturbed
