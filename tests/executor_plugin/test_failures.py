"""Why a job failed, in one line."""

from pathlib import Path

import pytest

from snakemake_executor_plugin_slurm_patient.failures import explanation, failure
from snakemake_executor_plugin_slurm_patient.start import START

STARTED = f"{START}0 of job 12 on n1\nBuilding DAG of jobs...\n"


@pytest.mark.parametrize(
    ("state", "printed", "expected"),
    [
        ("TIMEOUT", "", "ran past its time limit: set a longer runtime"),
        ("OUT_OF_MEMORY", "error: a worker has died", "needed more memory than its mem_mb"),
        ("CANCELLED", "", "was cancelled (scancel)"),
        ("NODE_FAIL", "", "lost its node"),
        ("BOOT_FAIL", "", "did not start: its node did not boot"),
        ("DEADLINE", "", "ran past its deadline"),
        ("HELD", "", "was held by SLURM and not released"),
        ("FORGOTTEN", "", "was forgotten by SLURM"),
        ("UNNOTICED", "", "has ended without SLURM's notice"),
        ("FAILED", "Traceback\nValueError: b", "failed: ValueError: b"),
        ("FAILED", "error: b\nsrun: error: n1: task 0: Exited with exit code 1", "failed: b"),
        # The kernel's or PyTorch's message says more than that of the command whose worker died.
        (
            "FAILED",
            "error: process 7 has died\nslurmstepd: Detected 1 oom_kill event in 12.0",
            "needed more memory than its mem_mb",
        ),
        (
            "FAILED",
            "torch.OutOfMemoryError: CUDA out of memory. Tried\nerror: a worker has died",
            "needed more GPU memory",
        ),
        (
            "FAILED",
            "srun: error: n1: task 0: User defined signal 1",
            "was asked to stop before it had started",
        ),
        # The log of a requeued job starts with the output of its earlier starts.
        ("FAILED", f"oom_kill\n{START}1 of job 12 on n1\nerror: late", "failed: late"),
        ("FAILED", "Building DAG of jobs...\nWorkflowError:\n", "failed"),
        # It failed before Snakemake started.
        (
            "FAILED",
            "/var/spool/slurm_script: 4: module: not found\n\n",
            "failed: /var/spool/slurm_script: 4: module: not found",
        ),
        ("ERROR", "", "ended in state ERROR"),
    ],
)
def test_each_failure_is_explained_in_one_line(
    tmp_path: Path, state: str, printed: str, expected: str
) -> None:
    log = tmp_path / "12.log"
    log.write_text(printed)
    line = explanation("12", failure("12", state), [tmp_path / "missing.log", log])
    assert line == f"SLURM job 12 {expected} [{log}]"


def test_the_log_of_the_rule_is_read_too(tmp_path: Path) -> None:
    rule, job = tmp_path / "sort.log", tmp_path / "12.log"
    rule.write_text("error: no such file")
    job.write_text(STARTED)
    line = explanation("12", failure("12", "FAILED"), [rule, job])
    assert line == f"SLURM job 12 failed: no such file [{job}]"


def test_a_refused_submission_quotes_sbatch() -> None:
    message = (
        "SLURM sbatch failed. The error message was 'invalid partition'.\n    sbatch call:\n x"
    )
    expected = "SLURM sbatch failed. The error message was 'invalid partition'."
    assert explanation(None, message, []) == expected
