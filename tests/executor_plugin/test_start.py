"""One start of a job, with fake commands of SLURM: `srun` runs the step, `scontrol` a file."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from snakemake_executor_plugin_slurm_patient import start as module
from snakemake_executor_plugin_slurm_patient.start import START, STOPPED, TASK
from snakemake_executor_plugin_slurm_patient.task import Task, file_of
from tests.support.processes import wait_until

SNAKEFILE = """\
rule work:
    output: "made"
    shell: "{python} work.py"
"""
# Makes the output when the file `end` appears. At a request to stop it ends with status 75, or with
# the status in the file `end-when-asked`.
WORK = """\
import pathlib, signal, sys, time

def stop(*_):
    file = pathlib.Path("end-when-asked")
    status = int(file.read_text()) if file.exists() else 75
    if status == 0:
        pathlib.Path("made").touch()
    sys.exit(status)

signal.signal(signal.SIGUSR1, stop)
with open("starts", "a") as starts:
    starts.write("started\\n")
while not pathlib.Path("end").exists():
    time.sleep(0.05)
pathlib.Path("made").touch()
"""
SRUN = """\
#!/bin/sh
echo "$* | $(env | grep -o '^SLURM_[A-Z_]*' | sort | tr '\\n' ' ')" > {folder}/srun.words
while [ "$1" != "--end" ]; do shift; done
shift
exec setsid --wait "$@"
"""
SCONTROL = """\
#!/bin/sh
echo "$*" >> {folder}/scontrol.words
cat {folder}/job
"""
RUNNING = "JobId=7 JobState=RUNNING StartTime=2026-01-02T03:04:05 PreemptTime={preempted}\n"
NOW = "2026-01-02T04:00:00"


class Start:
    """A start of SLURM job 7, in a process group of its own, as SLURM starts a step."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "Snakefile").write_text(SNAKEFILE.format(python=sys.executable))
        (folder / "work.py").write_text(WORK)
        for name, script in (("srun", SRUN), ("scontrol", SCONTROL)):
            (folder / name).write_text(script.format(folder=folder))
            (folder / name).chmod(0o755)
        self.show(preempted="None")
        outputs = [str(folder / "made")]
        file = file_of(SimpleNamespace(name="work", output=outputs), folder / "tasks")
        self.task = Task(file, "run", outputs, finished_suffix="", step=["-n1", "--end"])
        self.task.write()
        self.processes: list[subprocess.Popen[str]] = []

    def show(self, preempted: str, state: str = "RUNNING") -> None:
        """What SLURM says about the job from now on."""
        text = RUNNING.format(preempted=preempted).replace("RUNNING", state)
        (self.folder / "job").write_text(text)

    def begin(self, restarts: int = 0) -> "subprocess.Popen[str]":
        environment = os.environ | {
            "PATH": f"{self.folder}:{os.environ['PATH']}",
            "SLURM_JOB_ID": "7",
            "SLURM_RESTART_COUNT": str(restarts),
            "SLURM_CPUS_PER_TASK": "3",
            "SLURM_CONF": "/etc/slurm.conf",
            TASK: str(self.task.file),
        }
        words = [sys.executable, str(Path(module.__file__)), "-m", "snakemake"]
        process = subprocess.Popen(
            [*words, "--cores=1", "--quiet=all", "--force", "--nolock", "made"],
            cwd=self.folder,
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.processes.append(process)
        return process

    def wait_for_work(self, starts: int = 1) -> None:
        file = self.folder / "starts"
        wait_until(lambda: file.exists() and len(file.read_text().splitlines()) >= starts)

    @property
    def requeues(self) -> int:
        """How often the job was put back into the queue."""
        file = self.folder / "scontrol.words"
        return file.read_text().splitlines().count("requeue 7") if file.exists() else 0


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    made = Start(tmp_path)
    yield made
    (tmp_path / "end").touch()  # ends the steps, whose process groups are others
    for process in made.processes:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


def test_a_start_runs_the_job_in_a_step_and_records_its_success(start: Start) -> None:
    process = start.begin(restarts=3)
    start.wait_for_work()
    assert not start.task.is_finished()
    (start.folder / "end").touch()
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0
    assert output.startswith(f"{START}3 of job 7")
    assert start.task.is_finished()
    words, _, variables = (start.folder / "srun.words").read_text().partition(" | ")
    assert words.startswith("-n1 --end ")
    assert "SLURM_JOB_ID" in variables
    assert "SLURM_CONF" in variables
    assert "SLURM_CPUS_PER_TASK" not in variables  # it would restrict the step


def test_a_start_after_a_success_does_nothing(start: Start) -> None:
    """Not even with the same number of restarts; Snakemake would remove the output."""
    (start.folder / "end").touch()
    assert start.begin().wait(300) == 0
    before = (start.folder / "made").stat()
    again = start.begin()
    output, _ = again.communicate(timeout=300)
    assert again.returncode == 0
    assert "slurm-patient: the outputs of this job are finished: nothing is left to do" in output
    assert (start.folder / "made").stat() == before
    assert (start.folder / "starts").read_text() == "started\n"


def test_a_second_start_waits_for_the_first_and_then_does_nothing(start: Start) -> None:
    """As one that Snakemake has submitted because SLURM had forgotten the first one."""
    first = start.begin()
    start.wait_for_work()
    second = start.begin()
    assert second.stdout is not None
    lines = [second.stdout.readline(), second.stdout.readline()]
    assert lines[1] == "slurm-patient: waiting for another start of this job (7.0) to end\n"
    (start.folder / "end").touch()
    assert first.wait(300) == 0
    before = (start.folder / "made").stat()
    assert second.wait(300) == 0
    assert (start.folder / "made").stat() == before
    assert (start.folder / "starts").read_text() == "started\n"


def test_a_second_start_goes_on_after_the_first_was_killed(start: Start) -> None:
    first = start.begin()
    start.wait_for_work()
    second = start.begin()
    os.killpg(first.pid, signal.SIGKILL)
    start.wait_for_work(starts=2)
    (start.folder / "end").touch()
    assert second.wait(300) == 0
    assert (start.folder / "made").exists()


def test_a_failed_start_has_the_status_of_snakemake_and_is_no_success(start: Start) -> None:
    (start.folder / "work.py").write_text("raise SystemExit(3)")
    assert start.begin().wait(300) == 1
    assert not start.task.is_finished()
    assert start.requeues == 0


@pytest.mark.parametrize(
    ("number", "state"),
    [
        (signal.SIGUSR1, "RUNNING"),
        (signal.SIGTERM, "RUNNING"),
        (signal.SIGTERM, "SIGNALING"),  # while SLURM sends it
    ],
)
@pytest.mark.parametrize(("when_asked", "status"), [(0, 0), (75, STOPPED)])
def test_a_request_to_stop_reaches_the_command_and_requeues_a_job_that_has_not_succeeded(
    start: Start, number: int, state: str, when_asked: int, status: int
) -> None:
    """SLURM signals the step: with SIGUSR1 before a time limit, with SIGTERM at a preemption."""
    start.show(preempted=NOW if number == signal.SIGTERM else "None", state=state)
    (start.folder / "end-when-asked").write_text(str(when_asked))
    process = start.begin()
    start.wait_for_work()
    os.kill(_step_of(process.pid), number)
    assert process.wait(300) == status
    assert start.requeues == (status != 0)


def test_another_sigterm_is_no_request_and_reaches_the_command(start: Start) -> None:
    """As the one of `scancel`, after which SLURM ends the job. It was preempted once before."""
    start.show(preempted="2026-01-01T00:00:00")
    process = start.begin()
    start.wait_for_work()
    os.kill(_step_of(process.pid), signal.SIGTERM)
    assert process.wait(300) == 1
    assert start.requeues == 0


def test_a_sigterm_is_no_request_if_slurm_does_not_say_that_it_preempts_the_job(
    start: Start,
) -> None:
    process = start.begin()
    start.wait_for_work()
    (start.folder / "job").unlink()
    (start.folder / "scontrol").write_text("#!/bin/sh\nexit 1\n")
    descendants = psutil.Process(process.pid).children(recursive=True)
    os.kill(_step_of(process.pid), signal.SIGTERM)
    assert process.wait(60) == 1
    _, alive = psutil.wait_procs(descendants, timeout=10)
    assert not alive  # it reached the command
    assert start.requeues == 0


def test_a_command_that_has_no_handler_yet_is_asked_again(start: Start) -> None:
    """Its first request is lost, because it imports its packages then."""
    first = "import pathlib, signal, sys, time\n"
    late = "open('starts', 'a').write('started\\n')\ntime.sleep(5)\n"
    (start.folder / "work.py").write_text(WORK.replace(first, first + late))
    process = start.begin()
    start.wait_for_work()
    os.kill(_step_of(process.pid), signal.SIGUSR1)
    assert process.wait(60) == STOPPED
    assert start.requeues == 1


def test_a_slow_handler_receives_one_request(start: Start) -> None:
    """Another one would interrupt it."""
    line = "def stop(*_):\n"
    slow = "    print('asked', file=open('asked', 'a'))\n    time.sleep(6)\n"
    (start.folder / "work.py").write_text(WORK.replace(line, line + slow))
    process = start.begin()
    start.wait_for_work()
    os.kill(_step_of(process.pid), signal.SIGUSR1)
    assert process.wait(300) == STOPPED
    assert (start.folder / "asked").read_text() == "asked\n"


def test_a_job_that_was_cancelled_meanwhile_is_not_requeued(start: Start) -> None:
    process = start.begin()
    start.wait_for_work()
    start.show(preempted=NOW, state="CANCELLED")
    os.kill(_step_of(process.pid), signal.SIGUSR1)
    assert process.wait(300) == STOPPED
    assert start.requeues == 0


def test_a_job_that_starts_its_steps_itself_runs_in_the_batch_script(start: Start) -> None:
    content = json.loads(start.task.file.read_text()) | {"step": None}
    start.task.file.write_text(json.dumps(content))
    process = start.begin()
    start.wait_for_work()
    os.kill(process.pid, signal.SIGUSR1)
    assert process.wait(300) == STOPPED
    assert not (start.folder / "srun.words").exists()
    assert start.requeues == 1


def _step_of(batch: int) -> int:
    """The process with the role of a step below a batch script."""
    descendants = psutil.Process(batch).children(recursive=True)
    (step,) = (process for process in descendants if process.cmdline()[2:3] == ["--step"])
    return step.pid
