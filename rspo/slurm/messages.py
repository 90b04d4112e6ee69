"""Messages about a run on SLURM: failed, requeued and forgotten jobs, and an absent controller."""

import contextlib
import logging
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence, Set
from pathlib import Path

from snakemake_interface_logger_plugins.common import LogEvent

from rspo.core.errors import InputError
from rspo.core.slurm_job import REQUEUED
from rspo.slurm import cluster
from rspo.slurm.queue import QueuedJob, jobs_of

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
    # Two of our own, read from the output of a job in state FAILED.
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
# A job that SLURM has not listed for this long, while Snakemake still waits for it, is forgotten.
SECONDS_TO_FORGET = 300


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
    status = re.search(r"SLURM status is: '(\w+)'", message)
    state, reason = status[1] if status else "", ""
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


class FailureLines(logging.Handler):
    """Log handler that prints `explanation` for every failed job, whether it is retried or not."""

    def __init__(self, logs: Path) -> None:
        super().__init__(logging.INFO)
        self.logs = logs  # folder of the rules' logs; the path of a log below it names the task
        self._failed: dict[str, str] = {}  # by task: the line of its last failure

    def emit(self, record: logging.LogRecord) -> None:
        event = getattr(record, "event", None)
        if event not in (LogEvent.JOB_INFO, LogEvent.JOB_ERROR):
            return
        # Snakemake appends a hint: "results/... (check log file(s) for error details)".
        logs = [Path(str(log).split(" (check")[0]) for log in getattr(record, "log", None) or []]
        task = self._task(getattr(record, "rule_name", ""), logs)
        if event == LogEvent.JOB_INFO:  # the job starts (again)
            self._failed.pop(task, None)
            return
        self._failed[task] = explanation(task, getattr(record, "rule_msg", None) or "", logs)
        _print(self._failed[task])

    def print_given_up(self) -> None:
        """Repeat the line of each job that failed and was not retried, and say what to do."""
        for line in self._failed.values():
            _print(f"given up: {line}")
        _print("the run is incomplete: the same command resumes it")

    def _task(self, rule: str, logs: Sequence[Path]) -> str:
        if logs and logs[0].is_relative_to(self.logs):
            return " ".join(logs[0].relative_to(self.logs).with_suffix("").parts)
        return rule


def print_given_up() -> None:
    """Print `FailureLines.print_given_up` if this Snakemake submitted jobs to SLURM."""
    from snakemake.logging import logger

    for handler in logger.handlers:
        if isinstance(handler, FailureLines):
            handler.print_given_up()


class QueueLines:
    """Compares a run's jobs in the queue with those of the previous look."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[QueuedJob, float]] = {}  # by number: the job and the time

    def lines(self, queue: Sequence[QueuedJob], unfinished: Set[str], now: float) -> Iterator[str]:
        """A line for each job that was requeued or forgotten by SLURM since the last call.

        Args:
            queue: all jobs of the run that SLURM remembers, including recently ended ones.
            unfinished: numbers of the jobs that Snakemake waits for.
            now: current time in seconds.
        """
        for job in queue:
            before = self._seen[job.number][0].restarts if job.number in self._seen else 0
            if job.restarts > before:
                yield f"{job.task}: SLURM job {job.number} was requeued (restart {job.restarts})"
            self._seen[job.number] = job, now
        for number in sorted(unfinished & self._seen.keys()):
            job, then = self._seen[number]
            if now - then > SECONDS_TO_FORGET:
                del self._seen[number]  # print the line once
                yield (
                    f"{job.task}: SLURM has forgotten job {number}, and Snakemake waits for it: "
                    "stop Snakemake with Ctrl-C and start it again to resume"
                )


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
                _print(f"SLURM's controller {'answers again' if answers else absent}")
            self._answered = answers
            return answers


def watch_queue(
    run: str, unfinished: Callable[[], Set[str]], controller: Controller, seconds: float
) -> None:
    """Print `QueueLines` and the messages of `Controller` until this process ends.

    Args:
        run: the job name that all jobs of the run share.
        unfinished: returns the numbers of the jobs that Snakemake waits for.
        seconds: between two looks at the queue.
    """

    def watch() -> None:
        queue = QueueLines()
        while True:
            time.sleep(seconds)
            with contextlib.suppress(InputError):  # SLURM did not answer; try again later
                if controller.answers():
                    for line in queue.lines(jobs_of(run), unfinished(), time.monotonic()):
                        _print(line)

    threading.Thread(target=watch, daemon=True).start()


def _print(line: str) -> None:
    print(f"rspo: {line}", file=sys.stderr, flush=True)


def _ping() -> bool:
    try:
        return " is UP" in cluster.run("scontrol", "ping").stdout
    except InputError:
        return False
