"""One cell trained by `snakemake --profile slurm`, for tests that disturb it."""

import json
import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import chdir, contextmanager
from pathlib import Path
from typing import Any

from rspo.config.experiment import Experiment
from rspo.datasets.prepare import prepare
from rspo.training.pretraining import make_base_policy
from tests.support import slurm_world
from tests.support.processes import LONGEST_WAIT
from tests.support.slurm_cluster import Cluster

CELL = "small--rspo-pass--k4--n16--s0"
POLICY = f"results/tiny/cells/{CELL}/policy"
# 4 to 15 seconds of training on an idle core, 30 checkpoints.
TRAINING = {
    "steps": 120,
    "prompts_per_step": 20,
    "mini_batch_prompts": 10,
    "checkpoint_every": 4,
}


def prepare_project(folder: Path, training: dict[str, int], **more: Any) -> Path:
    """Make a project with the problems and the base policy that training reads."""
    slurm_world.make_project(folder, training=training, **more)
    with chdir(folder):  # provenance has the paths that Snakemake uses
        make_inputs(Experiment.load("tiny"))
    return folder


def make_inputs(experiment: Experiment) -> None:
    for data_set in ("train", "linear"):
        prepare(experiment, data_set)
    make_base_policy(experiment, "small")


def provenance(project: Path) -> dict[str, Any]:
    """The provenance of the trained cell."""
    path = (project / POLICY).with_name("policy.provenance.json")
    record: dict[str, Any] = json.loads(path.read_text())
    return record


def lines(output: str) -> list[str]:
    """The messages of `rspo` and of the executor plugin in what Snakemake printed."""
    return re.findall(r"^(?:rspo|slurm-patient): (.*)$", output, flags=re.M)


def restarts(output: str, number: str) -> list[str]:
    """The restart counts in the messages about a requeued job."""
    line = rf"train {CELL}: SLURM job {number} was requeued \(restart (\d+)\)"
    return [match[1] for text in lines(output) if (match := re.fullmatch(line, text))]


class Run:
    """One `snakemake --profile slurm` that a test disturbs."""

    def __init__(self, cluster: Cluster, project: Path, *words: str) -> None:
        self.cluster, self.project = cluster, project
        self.log = project / "run.log"
        self.checkpoint = (project / POLICY).with_name("checkpoint") / "state.pt"
        self.process = slurm_world.start(cluster, project, POLICY, *words, log=self.log)

    def wait_for(self, condition: Callable[[], Any]) -> Any:
        deadline = time.monotonic() + LONGEST_WAIT
        while not (result := condition()):
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.1)
        return result

    def wait_for_checkpoint(self) -> str:
        """Wait for the first checkpoint and the first usage record; returns the job's number."""
        self.wait_for(self.checkpoint.exists)
        self.wait_for(self.checkpoint.with_name("progress.json").exists)
        ((number, *_),) = self.cluster.jobs()
        return number

    def end(self) -> tuple[int, str]:
        """Wait until Snakemake exits; returns its exit status and its output."""
        try:
            status = self.process.wait(timeout=slurm_world.LONGEST_RUN)
        finally:
            self.kill()
        return status, self.log.read_text()

    def job_logs(self) -> str:
        """What the jobs themselves printed."""
        logs = sorted((self.project / "logs" / "slurm").rglob("*.log"))
        return "".join(f"\n{log}:\n{log.read_text()}" for log in logs)

    def kill(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


@contextmanager
def cleaned_up(run: Run) -> Iterator[Run]:
    """Kill Snakemake and cancel all jobs at the end of the block."""
    try:
        yield run
    finally:
        run.kill()
        run.cluster.command("scancel", "--user=root", check=False)
