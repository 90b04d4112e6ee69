"""What this project does with SLURM's words, where no SLURM is needed to tell."""

import asyncio
import json
import logging
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from rspo.core.errors import InputError
from rspo.slurm import executor as plugin
from rspo.slurm import faults
from rspo.slurm.cluster import time_limit
from rspo.slurm.executor import submit_when_it_answers, with_plain_states
from rspo.slurm.messages import Controller, FailureLines, QueueLines, explanation
from rspo.slurm.queue import QueuedJob, jobs_in, jobs_of, require_no_jobs_in
from tests.support import ROOT, tiny_world
from tests.support.snakemake_project import SMALL_WORLD, jobs, make_project, snakemake

CELL = "small--rspo-pass--k4--n8--s0"


def plugins_message(state: str) -> str:
    return f"SLURM-job '12' failed, SLURM status is: '{state}'. Detailed failure reason unavailable"


@pytest.mark.parametrize(
    ("state", "printed", "expected"),
    [
        ("TIMEOUT", "", "SLURM job 12 ran past its time limit: set a longer runtime"),
        ("CANCELLED", "", "SLURM job 12 was cancelled (scancel)"),
        ("OUT_OF_MEMORY", "rspo: error: x", "SLURM job 12 needed more memory than its mem_mb"),
        ("FAILED", "rspo: error: a\nrspo: error: b", "SLURM job 12 failed: b"),
        ("FAILED", "error: Exceeded job memory limit", "needed more memory than its mem_mb"),
        ("FAILED", "slurmstepd: Detected 1 oom_kill event", "needed more memory than its mem_mb"),
        # Whoever lost a process to the kernel cannot say why; the kernel's or torch's word does.
        (
            "FAILED",
            "rspo: error: a: process 7 has died\nslurmstepd: Detected 1 oom_kill event in 12.0",
            "needed more memory than its mem_mb",
        ),
        (
            "FAILED",
            "torch.OutOfMemoryError: CUDA out of memory. Tried\nrspo: error: a: it has died",
            "needed more GPU memory: smaller ppo_max_token_len_per_gpu or gpu_memory_utilization",
        ),
        ("FAILED", "srun: error: n1: task 0: User defined signal 1", "before it had begun"),
        # A job that was requeued has the words of its earlier starts in its log.
        (
            "FAILED",
            "rspo: SLURM job 12 goes back into the queue\nrspo: error: late",
            "SLURM job 12 failed: late",
        ),
        (
            "FAILED",
            "oom_kill\nrspo: SLURM job 12 goes back into the queue\nrspo: error: late",
            "SLURM job 12 failed: late",
        ),
        ("ERROR", "", "SLURM job 12 ended as ERROR"),
    ],
)
def test_each_end_of_a_job_is_a_line(
    tmp_path: Path, state: str, printed: str, expected: str
) -> None:
    log = tmp_path / "12.log"
    log.write_text(printed)
    line = explanation("train a", plugins_message(state), [log])
    assert line.startswith("train a: SLURM job 12 ")
    assert expected in line
    assert line.endswith(f"[{log}]")
    assert "\n" not in line


def test_a_lost_node_is_a_line_where_slurm_does_not_requeue() -> None:
    message = "SLURM-job '12' failed due to a node failure, SLURM status is: 'NODE_FAIL'. Failed "
    assert explanation("train a", message, []) == "train a: SLURM job 12 lost its node []"


def test_the_states_that_have_a_meaning_are_those_that_the_plugin_reports() -> None:
    slurm = pytest.importorskip("snakemake_executor_plugin_slurm")
    constants = slurm.Executor.check_active_jobs.__code__.co_consts
    (reported,) = (known for known in constants if isinstance(known, tuple) and "TIMEOUT" in known)
    read_in_logs = {"GPU_MEMORY", "TOO_EARLY"}
    assert faults.MEANING.keys() - read_in_logs == set(reported) - {"ERROR"}


def test_a_job_that_did_not_come_to_snakemake_is_told_in_its_last_words(tmp_path: Path) -> None:
    log = tmp_path / "12.log"
    log.write_text("/var/spool/slurm_script: 4: module: not found\n\n")
    line = explanation("train a", plugins_message("FAILED"), [log])
    assert line == (
        f"train a: SLURM job 12 failed: /var/spool/slurm_script: 4: module: not found [{log}]"
    )
    log.write_text("Building DAG of jobs...\nWorkflowError:\n")
    assert explanation("train a", plugins_message("FAILED"), [log]) == (
        f"train a: SLURM job 12 failed [{log}]"
    )


def test_what_sbatch_refused_is_a_line_too() -> None:
    message = (
        "SLURM sbatch failed. The error message was 'invalid partition'.\n    sbatch call:\n x"
    )
    expected = "train a: SLURM sbatch failed. The error message was 'invalid partition'."
    assert explanation("train a", message, []) == expected


def test_snakemakes_record_of_a_failed_job_is_printed_with_its_task(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    logger = logging.getLogger("test of failure lines")
    handler = FailureLines(tmp_path / "logs")
    logger.addHandler(handler)
    log = tmp_path / "logs" / "score" / CELL / "linear.log"
    details = {"rule_name": "score", "rule_msg": plugins_message("TIMEOUT")}
    marked = f"{log} (check log file(s) for error details)"
    logger.error("Error in rule score", extra=details | {"log": [marked]})
    logger.error("another error")
    logger.removeHandler(handler)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"rspo: score {CELL} linear: SLURM job 12 ran past its time limit")
    handler.tell_what_was_given_up([("score", [str(log)]), ("curves", [])])
    again, other, what_now = capsys.readouterr().err.splitlines()
    assert again == line.replace("rspo: ", "rspo: given up: ")
    assert other == "rspo: given up: curves"
    assert what_now.endswith("the same command goes on from what is there")


def queued(restarts: int = 0, number: str = "12") -> QueuedJob:
    comment = f"rule_train_wildcards_{CELL}"
    return QueuedJob(number, "me", "RUNNING", restarts, Path("/project"), comment)


def test_each_return_to_the_queue_is_a_line() -> None:
    queue = QueueLines()
    assert list(queue.lines([queued(0), queued(0, "13")], set(), 0)) == []
    (line,) = queue.lines([queued(2), queued(0, "13")], set(), 60)
    assert line == f"train {CELL}: SLURM job 12 was requeued (restart 2)"
    (line,) = queue.lines([queued(2), queued(0, "13"), queued(1, "14")], set(), 120)
    assert line == f"train {CELL}: SLURM job 14 was requeued (restart 1)"
    assert list(queue.lines([queued(2), queued(0, "13"), queued(1, "14")], set(), 180)) == []


def test_a_job_that_slurm_forgot_while_snakemake_waits_is_a_line() -> None:
    queue = QueueLines()
    assert list(queue.lines([queued()], {"12", "new"}, 0)) == []
    assert list(queue.lines([], {"12", "new"}, 290)) == []
    assert list(queue.lines([], {"new"}, 310)) == []  # Snakemake has seen its end
    (line,) = queue.lines([], {"12", "new"}, 320)
    assert line.startswith(f"train {CELL}: SLURM has forgotten job 12 and Snakemake waits for it")
    assert list(queue.lines([], {"12", "new"}, 330)) == []


@pytest.fixture
def squeue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Call it with records, each a list of fields: what `squeue` prints from then on, with its
    separators. Returns the file that its options go to."""
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    script, printed, asked = (tmp_path / "bin" / name for name in ("squeue", "printed", "asked"))
    script.parent.mkdir()

    def prints(*records: list[str | bytes]) -> Path:
        fields = [[os.fsencode(field) for field in record] for record in records]
        printed.write_bytes(b"".join(b"\x1f".join(record) + b"\x1e\n" for record in fields))
        script.write_text(f'#!/bin/sh\necho "$@" > {asked}\ncat {printed}\n')
        script.chmod(0o755)
        return asked

    return prints


@pytest.mark.parametrize("name", ["project", "a|b", "a\nb", b"a\xffb"])
def test_a_folders_jobs_are_found_whatever_it_is_called(
    tmp_path: Path, squeue: Callable[..., Path], name: str | bytes
) -> None:
    folder = tmp_path / os.fsdecode(name)
    squeue(
        ["12", "me", "RUNNING", "1", os.fsencode(folder), "rule_train_wildcards_a|b"],
        ["13", "me", "RUNNING", "0", os.fsencode(tmp_path), "rule_train_wildcards_c"],
    )
    assert jobs_in(folder) == [
        QueuedJob("12", "me", "RUNNING", 1, folder, "rule_train_wildcards_a|b")
    ]


def test_what_strangers_call_their_jobs_hides_none_of_ours(
    tmp_path: Path, squeue: Callable[..., Path]
) -> None:
    squeue(
        ["10", "you", "PENDING", "0", "/home/you", "a\nb|c"],
        ["11", "you", "PENDING", "0", b"/home/\xff", b"\xff"],
        ["12", "you", "PENDING", "0", "/home/you", "a\x1fb\x1ec"],
        ["13", "you", "PENDING", "N/A", tmp_path.as_posix(), "rule_a"],
        ["14", "me", "RUNNING", "0", tmp_path.as_posix(), b"rule_train_wildcards_\xff"],
    )
    with pytest.raises(InputError, match=r"in this folder: 14 \(rule_train_wildcards_\ufffd, me, "):
        require_no_jobs_in(tmp_path)


def test_a_runs_jobs_are_asked_for_by_its_name(squeue: Callable[..., Path]) -> None:
    asked = squeue(["12", "me", "COMPLETED", "0", "/project", "rule_train_wildcards_a"])
    (job,) = jobs_of("rspo_1")
    assert job.task == "train a"
    options = asked.read_text().split()
    assert {"--states=all", f"--user={os.getuid()}", "--name=rspo_1"} <= set(options)


def test_a_controller_that_is_away_is_told_once_and_when_it_is_back(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pings = [True, False, False, True, True]
    monkeypatch.setattr(faults, "_ping", lambda: answers.pop(0))
    answers, controller = list(pings), Controller()
    assert [controller.answers() for _ in pings] == pings
    assert capsys.readouterr().err.splitlines() == [
        "rspo: SLURM's controller does not answer: waiting for it; the jobs go on",
        "rspo: SLURM's controller answers again",
    ]


class Executor:
    """As the plugin's, without SLURM: what was submitted, and when it ended."""

    def __init__(self) -> None:
        self.did: list[str] = []

    def run_job(self, job: str) -> None:
        self.did.append(job)

    def cancel(self) -> None:
        self.did.append("cancel")
        self.shutdown()

    def shutdown(self) -> None:
        self.did.append("shutdown")


def test_a_job_is_submitted_when_the_controller_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugin, "SECONDS_BETWEEN_QUESTIONS", 0.01)
    answers, executor = [False, False, True, True], Executor()
    submit_when_it_answers(executor, lambda: answers.pop(0))
    executor.run_job("a")
    assert answers == [True]
    executor.run_job("b")
    assert executor.did == ["a", "b"]


def test_a_job_that_waited_for_long_fails_as_sbatch_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugin, "SECONDS_BETWEEN_QUESTIONS", 0.01)
    monkeypatch.setattr(plugin, "SECONDS_AWAY", 0.1)
    executor = Executor()
    submit_when_it_answers(executor, lambda: False)
    executor.run_job("a")
    assert executor.did == ["a"]


@pytest.mark.parametrize("ends", ["cancel", "shutdown"])
def test_nothing_waits_or_is_submitted_once_snakemake_ends(ends: str) -> None:
    executor = Executor()

    def ends_meanwhile() -> bool:
        getattr(executor, ends)()
        return False

    submit_when_it_answers(executor, ends_meanwhile)
    before = time.monotonic()
    executor.run_job("a")
    executor.run_job("b")
    assert time.monotonic() - before < plugin.SECONDS_BETWEEN_QUESTIONS
    assert executor.did == (["cancel", "shutdown"] if ends == "cancel" else ["shutdown"])


def test_the_plugin_reads_states_of_sacct_as_it_compares_them() -> None:
    slurm = pytest.importorskip("snakemake_executor_plugin_slurm")
    query, logger = with_plain_states(slurm.query_job_status), logging.getLogger("test of states")
    sacct = shlex.join(["printf", r"12|CANCELLED by 1000\n13|RUNNING\n14|\n"])
    states, _ = asyncio.run(query(sacct, logger))
    assert states == {"12": "CANCELLED", "13": "RUNNING", "14": ""}
    assert asyncio.run(query("false", logger)) == (None, None)


def test_the_plugin_is_adapted_to_what_it_is() -> None:
    """Its names that are replaced are those that it uses, by the threads that it uses."""
    slurm = pytest.importorskip("snakemake_executor_plugin_slurm")
    used = slurm.Executor.check_active_jobs.__code__.co_names
    assert {"get_min_job_age", "query_job_status"} <= set(used)
    assert "run_job" in slurm.Executor._submit_job.__code__.co_names
    module = SimpleNamespace(get_min_job_age=lambda: ages.pop(), query_job_status=None)
    ages = [300]
    plugin.adapt(module, Executor(), lambda: True)
    assert [module.get_min_job_age(), module.get_min_job_age()] == [300, 300]


@pytest.mark.parametrize(
    ("text", "minutes"),
    [("2-00:00:00", 2880), ("4:00:00", 240), ("30:00", 30), ("1:30", 1.5), ("infinite", None)],
)
def test_slurms_time_limits_are_read(text: str, minutes: float | None) -> None:
    assert time_limit(text) == minutes


def test_the_signal_reaches_the_command_and_spares_what_is_between(tmp_path: Path) -> None:
    """As in a job: a Python that forwards, the rules' shell, and a command with its own handler.

    Where SLURM signals only the first process of a step, nothing else brings the signal down.
    """
    command = (
        "import signal, time; signal.signal(signal.SIGUSR1, lambda *_: print('told') or exit(75));"
        "print('ready', flush=True); [time.sleep(0.1) for _ in range(600)]"
    )
    shell = f'''set -euo pipefail; trap "" USR1; {sys.executable} -c "{command}" | tee -i log'''
    first = (
        "import subprocess; from rspo.core.slurm_job import forward_requests; forward_requests();"
        f"print(subprocess.call(['bash', '-c', {shell!r}]))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", first],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(10)
    assert process.communicate(timeout=60)[0] == "told\n75\n"
    assert (tmp_path / "log").read_text() == "ready\ntold\n"


def test_a_cell_that_a_job_finished_without_its_snakemake_is_not_trained_again(
    tmp_path: Path,
) -> None:
    """Snakemake has a record of the cell with other settings; the job that went on renews it, and
    who only asks writes nothing."""
    folder = make_project(tmp_path / "project")
    shutil.copytree(ROOT / "slurm", folder / "slurm")
    target = f"results/tiny/cells/{CELL}/policy"
    assert snakemake(folder, target, "--config", *SMALL_WORLD).returncode == 0
    training = tiny_world.OVERRIDES["training"] | {"steps": 3}
    changed = [item for item in SMALL_WORLD if not item.startswith("training")]
    changed.append(f"training={json.dumps(training)}")
    plan = ["-n", target, "--config", *changed]
    assert jobs(snakemake(folder, *plan))["train"] == 1
    overrides = tiny_world.OVERRIDES | {"training": training}
    sets = [f"--set={key}={json.dumps(value)}" for key, value in overrides.items()]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "rspo.cli", "train", CELL, *sets]
    subprocess.run(command, cwd=folder, env=environment, check=True)
    done = snakemake(folder, *plan)
    assert "Nothing to be done" in done.stdout + done.stderr
    # With the settings from before, it is out of date as ever.
    assert jobs(snakemake(folder, "-n", target, "--config", *SMALL_WORLD)).get("train", 0) == 1


def test_several_nodes_in_an_image_are_refused(tmp_path: Path) -> None:
    folder = make_project(tmp_path / "project")
    several = ["engine=verl", "verl={nodes: 2}"]
    done = snakemake(folder, "-n", "data", "--sdm", "apptainer", "--config", *SMALL_WORLD, *several)
    assert done.returncode == 1
    assert "verl.nodes above 1 starts processes with srun, which no image has" in done.stdout
