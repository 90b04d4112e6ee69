"""Why a job failed, in one line, from the SLURM plugin's message and the job's output."""

import re
from collections.abc import Sequence
from pathlib import Path

from snakemake_executor_plugin_slurm_patient.start import START

# The SLURM states for which the SLURM plugin reports a failed job. The last three are states that
# this plugin adds.
MEANING = {
    "TIMEOUT": "ran past its time limit: set a longer runtime",
    "OUT_OF_MEMORY": "needed more memory than its mem_mb",
    "CANCELLED": "was cancelled (scancel)",
    "NODE_FAIL": "lost its node",
    "DEADLINE": "ran past its deadline",
    "BOOT_FAIL": "did not start: its node did not boot",
    "FAILED": "failed",
    "HELD": "was held by SLURM and not released",
    "FORGOTTEN": "was forgotten by SLURM",
    "UNNOTICED": "has ended without SLURM's notice",
}
# Patterns in the output of a job in state FAILED. They take precedence over the message of the
# command, because a command whose worker was killed does not know the reason.
_SIGNS = {
    MEANING["OUT_OF_MEMORY"]: re.compile(r"oom[-_ ]kill|exceeded (job )?memory limit", re.I),
    "needed more GPU memory": re.compile(r"CUDA out of memory|CUDA error: out of memory"),
    "was asked to stop before it had started": re.compile(r"User defined signal 1"),
}
# It matches `error: no such file` and `ValueError: x`, but not what `srun` says about its command.
_ERROR = re.compile(r"^(?!srun|slurmstepd)(?:[\w.-]+: )?(?:error: |(?=[\w.]+Error: ))(.+)$", re.M)
_SNAKEMAKE = "Building DAG of jobs"  # the first line that Snakemake prints


def failure(number: str, state: str) -> str:
    """A message as the SLURM plugin writes it."""
    return f"SLURM-job '{number}' failed, SLURM status is: '{state}'. "


def state_of(message: str) -> str:
    """The state of the SLURM job in the plugin's message about its failure; empty without one."""
    status = re.search(r"SLURM status is: '(\w+)'", message)
    return status[1] if status else ""


def explanation(number: str | None, message: str, logs: Sequence[Path]) -> str:
    """Why a job failed, and where its output is.

    Args:
        number: the number of the SLURM job; None if its submission failed.
        message: the message of the SLURM plugin, with the job's state.
        logs: the logs of the rule, and then the output of the SLURM job.
    """
    if number is None:
        return " ".join(message.split("sbatch call:")[0].split()) or "failed"
    state = state_of(message)
    reason = MEANING.get(state, f"ended in state {state}")
    if state == "FAILED":
        outputs = [_output_of_last_start(log) for log in logs]
        reason = _reason("\n".join(outputs))
    file = logs[-1] if logs else ""
    return f"SLURM job {number} {reason} [{file}]"


def _reason(output: str) -> str:
    for reason, sign in _SIGNS.items():
        if sign.search(output):
            return reason
    errors = _ERROR.findall(output)
    if errors:
        return f"failed: {errors[-1]}"
    # Without a line of Snakemake, the job failed before it started, as in its `precommand`.
    lines = output.strip().splitlines()
    if lines and _SNAKEMAKE not in output:
        return f"failed: {lines[-1].strip()}"
    return "failed"


def _output_of_last_start(log: Path) -> str:
    """The output of a job since SLURM last started it."""
    if not log.is_file():
        return ""
    _, _, output = log.read_text(errors="replace").rpartition(START)
    return output
