"""One line for each job that SLURM ended, and for a controller that does not answer."""

import logging
import re
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from rspo.slurm.job import REQUEUED

# SLURM's states of a job that ended badly, and what they mean to the person who started it.
MEANING = {
    "TIMEOUT": "ran past its time limit: set a longer runtime, or let --signal come earlier",
    "OUT_OF_MEMORY": "needed more memory than its mem_mb",
    "CANCELLED": "was cancelled (scancel)",
    "NODE_FAIL": "lost its node",
    "PREEMPTED": "was preempted",
    "DEADLINE": "ran past its deadline",
    "BOOT_FAIL": "did not start: its node did not boot",
    "FAILED": "failed",
    "TOO_EARLY": "was told to stop before it had begun: set a longer runtime",
}
# What a job that SLURM only calls FAILED printed.
_SIGNS = {
    "OUT_OF_MEMORY": re.compile(r"exceeded (job )?memory limit|oom[-_ ]kill|out of memory", re.I),
    "TOO_EARLY": re.compile(r"User defined signal 1"),
}
_OWN_LINE = re.compile(r"^rspo: (?:error: )?(.+)$", re.M)
SECONDS_BETWEEN_PINGS = 10


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
    if state == "FAILED" and not said:
        state = next((other for other, sign in _SIGNS.items() if sign.search(printed)), state)
    reason = f": {said[-1]}" if said and state == "FAILED" else ""
    if not number:
        return f"{task}: {_first_line(message)}"
    what = MEANING.get(state, f"ended as {state}")
    return f"{task}: SLURM job {number} {what}{reason} [{', '.join(map(str, logs[-1:]))}]"


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

    def emit(self, record: logging.LogRecord) -> None:
        if not hasattr(record, "rule_name") or not hasattr(record, "rule_msg"):
            return
        # Snakemake marks them: "results/... (check log file(s) for error details)".
        logs = [Path(str(log).split(" (check")[0]) for log in getattr(record, "log", None) or []]
        task = record.rule_name
        if logs and logs[0].is_relative_to(self.logs):
            task = " ".join(logs[0].relative_to(self.logs).with_suffix("").parts)
        print(
            f"rspo: {explanation(task, record.rule_msg or '', logs)}", file=sys.stderr, flush=True
        )


def watch_controller() -> None:
    """Say when SLURM's controller stops answering and when it is back, as long as this lives."""
    threading.Thread(target=_watch, daemon=True).start()


def _watch() -> None:
    answered = True
    while True:
        time.sleep(SECONDS_BETWEEN_PINGS)
        answers = _answers()
        if answers != answered:
            now = "answers again" if answers else "does not answer: waiting for it; the jobs go on"
            print(f"rspo: SLURM's controller {now}", file=sys.stderr, flush=True)
        answered = answers


def _answers() -> bool:
    try:
        done = subprocess.run(["scontrol", "ping"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return False
    return " is UP" in done.stdout
