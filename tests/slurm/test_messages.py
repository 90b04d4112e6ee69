"""Messages about failed jobs, and reading the queue, without SLURM."""

import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import snakemake_executor_plugin_slurm as plugin
from snakemake_interface_logger_plugins.common import LogEvent

from rspo.core.errors import InputError
from rspo.slurm import messages
from rspo.slurm.cluster import Slurm
from rspo.slurm.job_ends import forget_starts
from rspo.slurm.messages import MEANING, Controller, FailureLines, explanation
from rspo.slurm.queue import QueuedJob, jobs_in, jobs_of, require_no_jobs_in
from tests.support import ROOT

ON_NODES = ["(null)", "n[1-2]"]  # fields of a running job: excluded nodes, its nodes
CELL = "small--rspo-pass--k4--n8--s0"


def message_of_plugin(state: str) -> str:
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
        # The kernel's or PyTorch's message says more than that of the command whose worker died.
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
        ("FAILED", "srun: error: n1: task 0: User defined signal 1", "before it had started"),
        # The log of a requeued job starts with the output of its earlier starts.
        (
            "FAILED",
            "rspo: SLURM job 12 is requeued\nrspo: error: late",
            "SLURM job 12 failed: late",
        ),
        (
            "FAILED",
            "oom_kill\nrspo: SLURM job 12 is requeued\nrspo: error: late",
            "SLURM job 12 failed: late",
        ),
        ("ERROR", "", "SLURM job 12 ended in state ERROR"),
    ],
)
def test_each_failure_is_explained_in_one_line(
    tmp_path: Path, state: str, printed: str, expected: str
) -> None:
    log = tmp_path / "12.log"
    log.write_text(printed)
    line = explanation("train a", message_of_plugin(state), [log])
    assert line.startswith("train a: SLURM job 12 ")
    assert expected in line
    assert line.endswith(f"[{log}]")
    assert "\n" not in line


def test_a_lost_node_without_requeue_is_explained() -> None:
    message = "SLURM-job '12' failed due to a node failure, SLURM status is: 'NODE_FAIL'. Failed "
    assert explanation("train a", message, []) == "train a: SLURM job 12 lost its node []"


def test_every_state_that_the_plugin_reports_has_an_explanation() -> None:
    # The plugin has the names in its code only.
    constants = plugin.Executor.check_active_jobs.__code__.co_consts
    (reported,) = (known for known in constants if isinstance(known, tuple) and "TIMEOUT" in known)
    read_in_logs = {"GPU_MEMORY", "TOO_EARLY"} | {"HELD", "FORGOTTEN"}
    assert MEANING.keys() - read_in_logs == set(reported) - {"ERROR"}


def test_a_failure_before_snakemake_started_quotes_the_last_line(tmp_path: Path) -> None:
    log = tmp_path / "12.log"
    log.write_text("/var/spool/slurm_script: 4: module: not found\n\n")
    line = explanation("train a", message_of_plugin("FAILED"), [log])
    assert line == (
        f"train a: SLURM job 12 failed: /var/spool/slurm_script: 4: module: not found [{log}]"
    )
    log.write_text("Building DAG of jobs...\nWorkflowError:\n")
    assert explanation("train a", message_of_plugin("FAILED"), [log]) == (
        f"train a: SLURM job 12 failed [{log}]"
    )


def test_a_refused_submission_quotes_sbatch() -> None:
    message = (
        "SLURM sbatch failed. The error message was 'invalid partition'.\n    sbatch call:\n x"
    )
    expected = "train a: SLURM sbatch failed. The error message was 'invalid partition'."
    assert explanation("train a", message, []) == expected


def test_failed_jobs_are_printed_and_repeated_at_the_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A job that is retried is not repeated at the end."""
    logger = logging.getLogger("test of failure lines")
    logger.setLevel(logging.INFO)
    handler = FailureLines(tmp_path / "logs")
    logger.addHandler(handler)

    def log(event: LogEvent, rule: str, message: str = "") -> None:
        file = f"{tmp_path}/logs/{rule}/{CELL}/linear.log"
        marked = f"{file} (check log file(s) for error details)"
        details = {"event": event, "rule_name": rule, "rule_msg": message, "log": [marked]}
        logger.error("Error in rule", extra=details)

    log(LogEvent.JOB_ERROR, "score", message_of_plugin("TIMEOUT"))
    log(LogEvent.JOB_ERROR, "sample", message_of_plugin("FAILED"))
    log(LogEvent.JOB_INFO, "sample")
    logger.error("another error")
    logger.removeHandler(handler)
    score, sample = capsys.readouterr().err.splitlines()
    assert score.startswith(f"rspo: score {CELL} linear: SLURM job 12 ran past its time limit")
    assert sample.startswith(f"rspo: sample {CELL} linear: SLURM job 12 failed")
    handler.print_given_up()
    assert capsys.readouterr().err.splitlines() == [
        score.replace("rspo: ", "rspo: given up: "),
        "rspo: the run is incomplete: the same command resumes it",
    ]


@pytest.fixture
def squeue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """A fake `squeue`: call it with the records (lists of fields) to print.

    Returns the file to which it writes its options.
    """
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    script, printed, options_file = (
        tmp_path / "bin" / name for name in ("squeue", "printed", "options_file")
    )
    script.parent.mkdir()

    def fake(*records: list[str | bytes]) -> Path:
        fields = [[os.fsencode(field) for field in record] for record in records]
        printed.write_bytes(b"".join(b"\x1f".join(record) + b"\x1e\n" for record in fields))
        script.write_text(f'#!/bin/sh\necho "$@" > {options_file}\ncat {printed}\n')
        script.chmod(0o755)
        return options_file

    return fake


@pytest.mark.parametrize("name", ["project", "a|b", "a\nb", b"a\xffb"])
def test_jobs_are_found_in_a_folder_of_any_name(
    tmp_path: Path, squeue: Callable[..., Path], name: str | bytes
) -> None:
    folder = tmp_path / os.fsdecode(name)
    squeue(
        ["12", "me", "RUNNING", "1", os.fsencode(folder), *ON_NODES, "rule_train_wildcards_a|b"],
        ["13", "me", "RUNNING", "0", os.fsencode(tmp_path), *ON_NODES, "rule_train_wildcards_c"],
    )
    assert jobs_in(folder) == [
        QueuedJob("12", "me", "RUNNING", 1, folder, "", "n[1-2]", "rule_train_wildcards_a|b")
    ]


def test_other_users_comments_cannot_hide_a_job(
    tmp_path: Path, squeue: Callable[..., Path]
) -> None:
    squeue(
        ["10", "you", "PENDING", "0", "/home/you", *ON_NODES, "a\nb|c"],
        ["11", "you", "PENDING", "0", b"/home/\xff", *ON_NODES, b"\xff"],
        ["12", "you", "PENDING", "0", "/home/you", *ON_NODES, "a\x1fb\x1ec"],
        ["13", "you", "PENDING", "N/A", tmp_path.as_posix(), *ON_NODES, "rule_a"],
        ["14", "me", "RUNNING", "0", tmp_path.as_posix(), *ON_NODES, b"rule_train_wildcards_\xff"],
    )
    with pytest.raises(InputError, match=r"in this folder: 14 \(rule_train_wildcards_\ufffd, me, "):
        require_no_jobs_in(tmp_path)


def test_held_jobs_of_a_killed_run_are_cancelled(
    tmp_path: Path, squeue: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """Not those that a person holds."""
    here, system = tmp_path.as_posix(), "(launch failed requeued held)"
    squeue(["12", "me", "PENDING", "1", here, "(null)", system, "rule_a"])
    scancel = tmp_path / "bin" / "scancel"
    scancel.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/cancelled\n')
    scancel.chmod(0o755)
    require_no_jobs_in(tmp_path)
    assert (tmp_path / "cancelled").read_text() == "12\n"
    expected = "rspo: cancelled SLURM job 12 of an earlier run, which was held (launch failed"
    assert capsys.readouterr().err.startswith(expected)
    squeue(["13", "me", "PENDING", "0", here, "(null)", "(JobHeldUser)", "rule_a"])
    with pytest.raises(InputError, match=r"scancel 13$"):
        require_no_jobs_in(tmp_path)


@pytest.mark.parametrize(
    ("restarts", "runs", "silent", "cancelled"),
    [
        (0, False, 200, True),
        (0, True, 0, False),
        (0, False, 60, False),
        (1, False, 200, False),
    ],
    ids=["ended", "running", "without locks across nodes", "requeued, not started"],
)
def test_jobs_whose_end_slurm_did_not_notice_are_cancelled(
    tmp_path: Path,
    squeue: Callable[..., Path],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    restarts: int,
    runs: bool,
    silent: int,
    cancelled: bool,
) -> None:
    squeue(["12", "me", "RUNNING", f"{restarts}", tmp_path.as_posix(), *ON_NODES, "rule_a"])
    scancel = tmp_path / "bin" / "scancel"
    scancel.write_text("#!/bin/sh\n")
    scancel.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    record = "from rspo.slurm.job_ends import record_start; record_start(); print(); input()"
    command = [sys.executable, "-c", record]
    environment = os.environ | {"SLURM_JOB_ID": "12", "PYTHONPATH": str(ROOT)}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, env=environment, **pipes) as job:  # type: ignore[call-overload]
        assert job.stdout.readline()
        if not runs:
            job.communicate(b"\n")
            for start in (tmp_path / ".snakemake" / "rspo.starts").glob("12.*"):
                os.utime(start, (time.time() - silent,) * 2)
        if cancelled:
            require_no_jobs_in(tmp_path)
            assert "job 12 of an earlier run, which has ended" in capsys.readouterr().err
            forget_starts("12")
        with pytest.raises(InputError, match=r"scancel 12$"):
            require_no_jobs_in(tmp_path)


def test_jobs_of_a_run_are_selected_by_its_name(squeue: Callable[..., Path]) -> None:
    options_file = squeue(
        ["12", "me", "COMPLETED", "0", "/project", *ON_NODES, "rule_train_wildcards_a"]
    )
    (job,) = jobs_of("rspo_1")
    assert (job.nodes, job.reason) == ("n[1-2]", "")
    options = options_file.read_text().split()
    assert {"--states=all", f"--user={os.getuid()}", "--name=rspo_1"} <= set(options)


def test_the_users_options_of_squeue_have_no_effect(
    squeue: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SQUEUE_STATES", "RUNNING")
    script = squeue().with_name("squeue")
    script.write_text('#!/bin/sh\nprintf "%s" "$SQUEUE_STATES"\n')
    assert Slurm().ask("squeue") == ""


def test_an_absent_controller_is_printed_once_and_its_return_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pings = [True, False, False, True, True]
    monkeypatch.setattr(messages, "_ping", lambda: answers.pop(0))
    answers, controller = list(pings), Controller()
    assert [controller.answers() for _ in pings] == pings
    assert capsys.readouterr().err.splitlines() == [
        "rspo: SLURM's controller does not answer: waiting for it; running jobs continue",
        "rspo: SLURM's controller answers again",
    ]
