"""One line for each job that SLURM ended, requeued or forgot, and for a controller that is away."""

import contextlib
import logging
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from pathlib import Path

from rspo.core.errors import InputError
from rspo.core.slurm_job import REQUEUED
from rspo.slurm.queue import QueuedJob, jobs_of

# SLURM's states in which the plugin gives a job up, and what they mean to who started it.
# (A lost node only where `slurm-requeue` was taken out of the profile; preemption never.)
MEANING = {
    "TIMEOUT": "ran past its time limit: set a longer runtime, or let --signal come earlier",
    "OUT_OF_MEMORY": "needed more memory than its mem_mb",
    "CANCELLED": "was cancelled (scancel)",
    "NODE_FAIL": "lost its node",
    "DEADLINE": "ran past its deadline",
    "BOOT_FAIL": "did not start: its node did not boot",
    "FAILED": "failed",
    "GPU_MEMORY": (
        "needed more GPU memory: smaller ppo_max_token_len_per_gpu or gpu_memory_utilization"
    ),
    "TOO_EARLY": "was told to stop before it had begun: set a longer runtime",
}
# What a job that SLURM only calls FAILED printed.  Who lost a process to the kernel does not know
# why, so the reason goes before what the command itself said.
_REASONS = {
    "OUT_OF_MEMORY": re.compile(r"oom[-_ ]kill|exceeded (job )?memory limit", re.I),
    "GPU_MEMORY": re.compile(r"CUDA out of memory|CUDA error: out of memory"),
}
_TOO_EARLY = re.compile(r"User defined signal 1")
_OWN_LINE = re.compile(r"^rspo: (?:error: )?(.+)$", re.M)
_SNAKEMAKE = "Building DAG of jobs"  # the first that it prints in a job
SECONDS_TO_FORGET = 300  # out of SLURM's memory, while Snakemake still waits


def explanation(task: str, message: str, logs: Sequence[Path]) -> str:
    """One line about a job that failed: which, why, and what comes next.

    Args:
        task: such as `train small--rspo-pass--k4--n16--s0`.
        message: the plugin's, with the job's number and state.
        logs: what the job printed.
    """
    number, state = _number_and_state(message)
    printed = "\n".join(log.read_text(errors="replace") for log in logs if log.is_file())
    printed = printed.rpartition(REQUEUED)[2]  # what the job did before it went back is over
    said = _OWN_LINE.findall(printed)
    if state == "FAILED":
        state = next((other for other, sign in _REASONS.items() if sign.search(printed)), state)
    if state == "FAILED" and not said and _TOO_EARLY.search(printed):
        state = "TOO_EARLY"
    if state == "FAILED" and not said:
        said = _words_before_snakemake(printed)
    reason = f": {said[-1]}" if said and state == "FAILED" else ""
    if not number:
        return f"{task}: {_first_line(message)}"
    what = MEANING.get(state, f"ended as {state}")
    return f"{task}: SLURM job {number} {what}{reason} [{', '.join(map(str, logs[-1:]))}]"


def _words_before_snakemake(printed: str) -> list[str]:
    """Of a job that it did not come to: the lines of a node, or of a `precommand`."""
    if _SNAKEMAKE in printed:
        return []
    return [line.strip() for line in printed.splitlines() if line.strip()]


def _number_and_state(message: str) -> tuple[str, str]:
    number = re.search(r"SLURM-job '(\w+)'", message)
    state = re.search(r"SLURM status is: '(\w+)'", message)
    return (number[1] if number else "", state[1] if state else "")


def _first_line(message: str) -> str:
    return " ".join(message.split("sbatch call:")[0].split()) or "failed"


class FailureLines(logging.Handler):
    """Prints `explanation` for every failed job that Snakemake logs, tried again or not."""

    def __init__(self, logs: Path) -> None:
        """
        Args:
            logs: folder of the rules' logs, below which a log's name tells its task.
        """
        super().__init__(logging.ERROR)
        self.logs = logs
        self._last: dict[str, str] = {}  # by task

    def emit(self, record: logging.LogRecord) -> None:
        if not hasattr(record, "rule_name") or not hasattr(record, "rule_msg"):
            return
        # Snakemake marks them: "results/... (check log file(s) for error details)".
        logs = [Path(str(log).split(" (check")[0]) for log in getattr(record, "log", None) or []]
        task = self._task(record.rule_name, logs)
        self._last[task] = explanation(task, record.rule_msg or "", logs)
        _say(self._last[task])

    def tell_what_was_given_up(self, jobs: Iterable[tuple[str, Sequence[str]]]) -> None:
        """Print the last line of each job again, and what to do, where a run ends.

        Args:
            jobs: rule and logs of each that was not tried again.
        """
        for rule, logs in jobs:
            task = self._task(rule, [Path(log) for log in logs])
            _say(f"given up: {self._last.get(task, task)}")
        _say("not everything is done: the same command goes on from what is there")

    def _task(self, rule: str, logs: Sequence[Path]) -> str:
        if logs and logs[0].is_relative_to(self.logs):
            return " ".join(logs[0].relative_to(self.logs).with_suffix("").parts)
        return rule


class QueueLines:
    """What became of a run's jobs since the last look at the queue."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[QueuedJob, float]] = {}  # by number, and when

    def lines(self, queue: Sequence[QueuedJob], awaited: Set[str], now: float) -> Iterator[str]:
        """A line for each job that went back into the queue, or that SLURM has forgotten.

        Args:
            queue: the run's jobs in all of SLURM's memory, those that ended minutes ago included.
            awaited: numbers of the jobs that Snakemake waits for.
            now: seconds.
        """
        for job in queue:
            before = self._seen[job.number][0].restarts if job.number in self._seen else 0
            if job.restarts > before:
                yield (
                    f"{job.task}: SLURM job {job.number} went back into the queue "
                    f"(restart {job.restarts})"
                )
            self._seen[job.number] = job, now
        for number in sorted(awaited & self._seen.keys()):
            job, then = self._seen[number]
            if now - then > SECONDS_TO_FORGET:
                del self._seen[number]  # told once
                yield (
                    f"{job.task}: SLURM has forgotten job {number} and Snakemake waits for it: "
                    "end Snakemake with Ctrl-C and start it again, it goes on from there"
                )


class Controller:
    """SLURM's: whether it answers, and a line each time that it is away or back."""

    def __init__(self) -> None:
        self._answered = True
        self._one_at_a_time = threading.Lock()  # or an old answer may follow a newer one

    def answers(self) -> bool:
        """Ask it now; from any thread."""
        with self._one_at_a_time:
            answers = _ping()
            if answers != self._answered:
                away = "does not answer: waiting for it; the jobs go on"
                _say(f"SLURM's controller {'answers again' if answers else away}")
            self._answered = answers
            return answers


def watch_queue(
    run: str, awaited: Callable[[], Set[str]], controller: Controller, seconds: float
) -> None:
    """Print `QueueLines`, and when SLURM's controller is away and back, as long as this lives.

    Args:
        run: the name of all of its jobs.
        awaited: numbers of the jobs that Snakemake waits for, at any time.
        seconds: between two looks.
    """
    arguments = run, awaited, controller, seconds
    threading.Thread(target=_watch, args=arguments, daemon=True).start()


def _watch(
    run: str, awaited: Callable[[], Set[str]], controller: Controller, seconds: float
) -> None:
    queue = QueueLines()
    while True:
        time.sleep(seconds)
        with contextlib.suppress(InputError):  # a later look will tell
            if controller.answers():
                for line in queue.lines(jobs_of(run), awaited(), time.monotonic()):
                    _say(line)


def _say(line: str) -> None:
    print(f"rspo: {line}", file=sys.stderr, flush=True)


def _ping() -> bool:
    try:
        done = subprocess.run(["scontrol", "ping"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return False
    return " is UP" in done.stdout
