"""One submitted job that Snakemake waits for: what changed since the previous look at it."""

import time
from collections.abc import Callable
from typing import Any

from snakemake_executor_plugin_slurm_patient.queue import NoAnswer, QueuedJob, ask

RELEASES = 3  # how often a job that SLURM holds is released


class Submission:
    """A submitted job.

    info: Snakemake's `SubmittedJobInfo`; another submission of the same job has another one.
    """

    def __init__(self, info: Any, task: str, say: Callable[[str], None]) -> None:
        self.info = info
        self.number = str(info.external_jobid)
        self._name = f"{task}: SLURM job {self.number}"
        self._say = say
        self._restarts = self._releases = 0
        self._nodes = ""  # of the last start that was seen
        self._excluded: str | None = None  # nodes that the user excluded, before `_release`
        self._hold = ""  # reason of the hold that was printed
        self._missing_since: float | None = None

    def say(self, message: str) -> None:
        """Print a line about this job."""
        self._say(f"{self._name} {message}")

    def is_missing(self, seconds: float) -> bool:
        """Call it when SLURM does not list the job: whether that has lasted for `seconds`."""
        if self._missing_since is None:
            self._missing_since = time.monotonic()
        return time.monotonic() - self._missing_since >= seconds

    def update(self, job: QueuedJob) -> bool:
        """Print that the job was requeued or is held, and release it if SLURM itself holds it.

        Returns: False if it was released `RELEASES` times, or cannot be released. It is then
            cancelled.

        Raises: NoAnswer.
        """
        self._missing_since = None
        if job.restarts > self._restarts:
            self.say(f"was requeued (restart {job.restarts})")
        self._restarts, self._nodes = job.restarts, job.nodes or self._nodes
        if job.system_hold and not self._release(job):
            ask("scancel", self.number)
            return False
        if job.user_hold and job.user_hold != self._hold:
            self.say(f"is held ({job.user_hold}) and waits: scontrol release {self.number}")
        self._hold = job.user_hold
        return True

    def _release(self, job: QueuedJob) -> bool:
        without = ""
        try:
            if job.reason == "BadConstraints" and self._excluded is not None:
                # No other node can run it. A job with allowed nodes starts without `release`.
                self._exclude(self._excluded)
                self._excluded = None
                self.say("can start on no other node: the excluded nodes are allowed again")
                return True
            if self._releases == RELEASES:
                return False
            if self._nodes and job.reason != "BadConstraints":
                self._excluded = job.excluded if self._excluded is None else self._excluded
                self._exclude(",".join(filter(None, [job.excluded, self._nodes])))
                without = f", without {self._nodes}"
                self._nodes = ""
            ask("scontrol", "release", self.number)
        except NoAnswer as error:
            self.say(f"is held ({job.reason}) and could not be released: {error}")
            return False
        self._releases += 1
        self.say(f"was held ({job.reason}): released ({self._releases} of {RELEASES}){without}")
        return True

    def _exclude(self, nodes: str) -> None:
        ask("scontrol", "update", f"JobId={self.number}", f"ExcNodeList={nodes}")
