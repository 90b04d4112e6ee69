"""Explain in one line why a job failed, by the SLURM plugin's message and the job's output."""

import re
from collections.abc import Sequence
from pathlib import Path

from snakemake_executor_plugin_slurm_patient.start import START

# What to tell the user about a job in each of the SLURM states for which the SLURM plugin reports a
# failure. The last three are no states of SLURM; this plugin adds them.
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
# Reasons for the state FAILED, with a pattern in the output of the job that shows each. They take
# precedence over the error of the command, because a command whose worker process was killed does
# not know the reason. The last one is the message of a shell that SIGUSR1 has killed.
_SIGNS = {
    MEANING["OUT_OF_MEMORY"]: re.compile(r"oom[-_ ]kill|exceeded (job )?memory limit", re.I),
    "needed more GPU memory": re.compile(r"CUDA out of memory|CUDA error: out of memory"),
    "was asked to stop before it had started": re.compile(r"User defined signal 1"),
}
# A line with an error, whose message is the group: `error: no such file` gives `no such file`, and
# `ValueError: x` gives all of it. `rspo: ` or another name may precede. The pattern does not match
# lines of `srun` and `slurmstepd`, which only repeat that the command has failed.
_ERROR = re.compile(r"^(?!srun|slurmstepd)(?:[\w.-]+: )?(?:error: |(?=[\w.]+Error: ))(.+)$", re.M)
_SNAKEMAKE = "Building DAG of jobs"  # the first line that Snakemake prints


def failure(number: str, state: str) -> str:
    """A message about a failed job in the words of the SLURM plugin, which `state_of` can read."""
    return f"SLURM-job '{number}' failed, SLURM status is: '{state}'. "


def state_of(message: str) -> str:
    """The state of the SLURM job that the plugin's message names; empty if it names none."""
    status = re.search(r"SLURM status is: '(\w+)'", message)
    return status[1] if status else ""


def explanation(number: str | None, message: str, logs: Sequence[Path]) -> str:
    """A line that says why a job failed, and where its output is.

    Args:
        number: the number of the SLURM job; None if `sbatch` failed.
        message: the message of the SLURM plugin, with the job's state or the error of `sbatch`.
        logs: the logs of the rule, and last the output of the SLURM job.
    """
    if number is None:
        # The message of the SLURM plugin ends with the command line, which is long.
        return " ".join(message.split("sbatch call:")[0].split()) or "failed"
    state = state_of(message)
    reason = MEANING.get(state, f"ended in state {state}")
    if state == "FAILED":
        outputs = [_output_of_last_start(log) for log in logs]
        reason = _reason("\n".join(outputs))
    file = logs[-1] if logs else ""
    return f"SLURM job {number} {reason} [{file}]"


def _reason(output: str) -> str:
    """The reason for the state FAILED, as far as the output of the job shows it."""
    for reason, sign in _SIGNS.items():
        if sign.search(output):
            return reason
    errors = _ERROR.findall(output)
    if errors:
        return f"failed: {errors[-1]}"
    # If Snakemake has printed nothing, the job failed before Snakemake started, such as in its
    # `precommand`, and the last line is the error.
    lines = output.strip().splitlines()
    if lines and _SNAKEMAKE not in output:
        return f"failed: {lines[-1].strip()}"
    return "failed"


def _output_of_last_start(log: Path) -> str:
    """The output of a job since SLURM last started it; empty if there is no file."""
    if not log.is_file():
        return ""
    _, _, output = log.read_text(errors="replace").rpartition(START)
    return output
