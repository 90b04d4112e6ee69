"""Messages about a run on SLURM: failed jobs, and a controller that does not answer."""

import logging
import re
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from snakemake_interface_logger_plugins.common import LogEvent

from rspo.core.errors import InputError
from rspo.core.slurm_job import REQUEUED
from rspo.slurm import cluster

# The SLURM states for which the plugin reports a failed job, and what to tell the user. (NODE_FAIL
# only occurs if `slurm-requeue` was removed from the profile.)
MEANING = {
    "TIMEOUT": "ran past its time limit: set a longer runtime, or let --signal come earlier",
    "OUT_OF_MEMORY": "needed more memory than its mem_mb",
    "CANCELLED": "was cancelled (scancel)",
    "NODE_FAIL": "lost its node",
    "DEADLINE": "ran past its deadline",
    "BOOT_FAIL": "did not start: its node did not boot",
    "FAILED": "failed",
    # Two that `Executor` reports.
    "HELD": "was held by SLURM and not released",
    "FORGOTTEN": "was forgotten by SLURM, as earlier submissions of it were",
    # Two that are read from the output of a job in state FAILED.
    "GPU_MEMORY": (
        "needed more GPU memory: smaller ppo_max_token_len_per_gpu or gpu_memory_utilization"
    ),
    "TOO_EARLY": "was asked to stop before it had started: set a longer runtime",
}
# Signs in the output of a job in state FAILED. They take precedence over the command's own message,
# because a command whose worker was killed does not know why.
_REASONS = {
    "OUT_OF_MEMORY": re.compile(r"oom[-_ ]kill|exceeded (job )?memory limit", re.I),
    "GPU_MEMORY": re.compile(r"CUDA out of memory|CUDA error: out of memory"),
}
_TOO_EARLY = re.compile(r"User defined signal 1")
_OWN_LINE = re.compile(r"^rspo: (?:error: )?(.+)$", re.M)
_SNAKEMAKE = "Building DAG of jobs"  # the first line that Snakemake prints in a job
# Errors of `srun` that another try may avoid. Others, such as `Memory required by task is not
# available`, would occur again.
_NO_STEP = re.compile(
    r"^srun: error: (Unable to (?:confirm allocation for job .+|create step for job .*"
    r"(?:Invalid job id|already completing|timed out|unable to contact|communication|connection|"
    r"connect failure|transmitted or received).*))$",
    re.M | re.I,
)


def explanation(task: str, message: str, logs: Sequence[Path]) -> str:
    """One line about a failed job: which one, why, and where its output is.

    Args:
        task: such as `train small--rspo-pass--k4--n16--s0`.
        message: the plugin's message, with the job's number and state.
        logs: files with the job's output.
    """
    number = re.search(r"SLURM-job '(\w+)'", message)
    if not number:  # the submission failed
        return f"{task}: {' '.join(message.split('sbatch call:')[0].split()) or 'failed'}"
    state, reason = state_of(message), ""
    if state == "FAILED":
        printed = "\n".join(log.read_text(errors="replace") for log in logs if log.is_file())
        state, reason = _cause(printed.rpartition(REQUEUED)[2])  # only of the job's last start
    meaning = MEANING.get(state, f"ended in state {state}")
    return f"{task}: SLURM job {number[1]} {meaning}{reason} [{', '.join(map(str, logs[-1:]))}]"


def _cause(printed: str) -> tuple[str, str]:
    """Key of `MEANING`, and the command's own message, from the output of a job in state FAILED."""
    for state, sign in _REASONS.items():
        if sign.search(printed):
            return state, ""
    if own_lines := _OWN_LINE.findall(printed):
        return "FAILED", f": {own_lines[-1]}"
    if _TOO_EARLY.search(printed):
        return "TOO_EARLY", ""
    if _SNAKEMAKE not in printed and printed.strip():  # it failed before, as in its `precommand`
        return "FAILED", f": {printed.strip().splitlines()[-1].strip()}"
    return "FAILED", ""


def state_of(message: str) -> str:
    """The state of the SLURM job in the plugin's message about its failure; empty if none."""
    status = re.search(r"SLURM status is: '(\w+)'", message)
    return status[1] if status else ""


def failure(number: str, state: str) -> str:
    """A message as the plugin writes it, for `explanation`."""
    return f"SLURM-job '{number}' failed, SLURM status is: '{state}'. "


def step_error(log: Path) -> str:
    """What `srun` printed if SLURM did not start the rule's command in the job's last start.

    Empty if the command was started. Then Snakemake's first line was printed twice: in the job and
    in its step.
    """
    printed = log.read_text(errors="replace") if log.is_file() else ""
    match = _NO_STEP.search(printed.rpartition(_SNAKEMAKE)[2])
    return match[1] if match else ""


def task_name(rule: str, logs: Sequence[Path], folder: Path) -> str:
    """Such as `train small--rspo-pass--k4--n16--s0`.

    Args:
        logs: of the rule.
        folder: of the rules' logs; the path of a log below it names the task.
    """
    if logs and logs[0].is_relative_to(folder):
        return " ".join(logs[0].relative_to(folder).with_suffix("").parts)
    return rule


class FailureLines(logging.Handler):
    """Log handler that prints `explanation` for every failed job, whether it is retried or not."""

    def __init__(self, logs: Path) -> None:
        super().__init__(logging.INFO)
        self.logs = logs  # folder of the rules' logs
        self._failed: dict[str, str] = {}  # by task: the line of its last failure

    def emit(self, record: logging.LogRecord) -> None:
        event = getattr(record, "event", None)
        if event not in (LogEvent.JOB_INFO, LogEvent.JOB_ERROR):
            return
        # Snakemake appends a hint: "results/... (check log file(s) for error details)".
        logs = [Path(str(log).split(" (check")[0]) for log in getattr(record, "log", None) or []]
        task = task_name(getattr(record, "rule_name", ""), logs, self.logs)
        if event == LogEvent.JOB_INFO:  # the job starts (again)
            self._failed.pop(task, None)
            return
        self._failed[task] = explanation(task, getattr(record, "rule_msg", None) or "", logs)
        say(self._failed[task])

    def print_given_up(self) -> None:
        """Repeat the line of each job that failed and was not retried, and say what to do."""
        for line in self._failed.values():
            say(f"given up: {line}")
        say("the run is incomplete: the same command resumes it")


def print_given_up() -> None:
    """Print `FailureLines.print_given_up` if this Snakemake submitted jobs to SLURM."""
    from snakemake.logging import logger

    for handler in logger.handlers:
        if isinstance(handler, FailureLines):
            handler.print_given_up()


class Controller:
    """SLURM's controller; prints a line when it stops answering and when it answers again."""

    def __init__(self) -> None:
        self._answered = True
        self._lock = threading.Lock()  # otherwise an old answer may overtake a newer one

    def answers(self) -> bool:
        """Whether it answers now; may be called from any thread."""
        with self._lock:
            answers = _ping()
            if answers != self._answered:
                absent = "does not answer: waiting for it; running jobs continue"
                say(f"SLURM's controller {'answers again' if answers else absent}")
            self._answered = answers
            return answers


def say(line: str) -> None:
    print(f"rspo: {line}", file=sys.stderr, flush=True)


def _ping() -> bool:
    try:
        return " is UP" in cluster.run("scontrol", "ping").stdout
    except InputError:
        return False
