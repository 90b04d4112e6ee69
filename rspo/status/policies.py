"""The state of each policy, read from the files that the jobs write."""

from collections import defaultdict
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass

from rspo.config.experiment import Experiment
from rspo.core.locks import LOCK, is_locked
from rspo.pipeline import tasks
from rspo.pipeline.state import behind, has_outputs, is_begun, is_good, is_left, refusals
from rspo.training.checkpoint import checkpoint_state
from rspo.training.progress import (
    PROGRESS_FILE,
    Snapshot,
    read_progress,
    seconds_since_report,
)


@dataclass(frozen=True)
class Status:
    """The state of one policy.

    state: "waiting" (for its training), "running", "stopped" (in its training, which can resume),
        "trained", "scored" (its responses are verified, which is all that a study needs),
        "evaluated" (its curves exist, too), or "stale": damaged, or trained with other settings,
        problems or base policy than the config has now.
    is_to_be_evaluated: whether a suite is planned for it. Some cells are trained for their logs.
    snapshot: the progress of the training, if it is running or stopped; otherwise None.
    age: seconds since the last record of a running training, or since it began with its first step;
        otherwise None.
    """

    policy: str
    state: str
    is_to_be_evaluated: bool
    snapshot: Snapshot | None
    age: float | None = None


def statuses(experiment: Experiment) -> list[Status]:
    """The states of all policies of the grid, and of those of studies and trials with files."""
    # The suites on which each policy is to be evaluated.
    suites: defaultdict[str, set[str]] = defaultdict(set)
    for policy in experiment.policies:
        suites[policy] = {suite for other, suite in experiment.evaluations if other == policy}
    others = experiment.config.studies | experiment.config.trials
    for name, entry in others.items():
        for policy in experiment.policies_of(name):
            if policy not in experiment.policies and experiment.files.folder(policy).exists():
                suites[policy] |= {entry.suite} - {""}
    found = []
    for policy, planned in suites.items():
        state, snapshot = _state(experiment, policy, planned)
        age = None
        if state == "running" and snapshot is not None:
            age = seconds_since_report(experiment.files.checkpoint(policy))
        found.append(Status(policy, state, bool(planned), snapshot, age))
    return found


def running(experiment: Experiment) -> dict[str, Snapshot]:
    """The progress of each policy of the grid, the studies and trials that is being trained."""
    policies: dict[str, None] = {}  # a set that keeps the order
    config = experiment.config
    for grid in list(config.grid) + list(config.studies) + list(config.trials):
        policies |= dict.fromkeys(experiment.policies_of(grid))
    snapshots = {}
    for policy in policies:
        snapshot = _snapshot_of_owner(experiment, policy)
        if snapshot is not None and _is_running(experiment, policy):
            snapshots[policy] = snapshot
    return snapshots


def faults(experiment: Experiment) -> list[str]:
    """A sentence for each file that cannot be used, with the command that repairs it.

    This checks the checkpoints, and all results up to the curves. It checks results by size and
    provenance, without reading them.
    """
    sentences = []
    for policy in experiment.policies:
        checkpoint = checkpoint_state(tasks.policy_task(experiment, policy))
        if checkpoint.is_fault:
            sentences.append(checkpoint.refusal)
    for task, refusal in refusals(behind(tasks.results(experiment)).values()):
        # A training that was begun resumes without --force, which would start from step 1.
        if not is_begun(task):
            sentences.append(refusal)
    return sentences


def _state(
    experiment: Experiment, policy: str, suites: Collection[str]
) -> tuple[str, Snapshot | None]:
    """The state and the snapshot of a policy, as in `Status`.

    Args:
        suites: the suites on which the policy is to be evaluated.
    """
    snapshot = read_progress(experiment.files.checkpoint(policy))
    task = tasks.policy_task(experiment, policy)
    damaged = checkpoint_state(task).is_fault
    # A checkpoint with a progress file is of a training that has not finished, unless its process
    # was killed between the end of the training and the removal of the checkpoint.
    if snapshot is not None and not damaged and not is_left(task):
        if _is_running(experiment, policy):
            return "running", _snapshot_of_owner(experiment, policy)
        return "stopped", snapshot
    if is_finished(experiment, policy):
        return _evaluation(experiment, policy, suites), None
    is_stale = damaged or (has_outputs(task) and not is_good(task))
    return "stale" if is_stale else "waiting", None


def _snapshot_of_owner(experiment: Experiment, policy: str) -> Snapshot | None:
    """The progress of the last process that held the lock of a policy.

    A process writes its name into the lock file when it begins to hold the lock. Progress that is
    older than this was written by an earlier process, and may count steps behind the last
    checkpoint, which are lost.

    Returns: None if that process has written no progress.
    """
    checkpoint = experiment.files.checkpoint(policy)
    with suppress(FileNotFoundError):
        written = (checkpoint / PROGRESS_FILE).stat().st_mtime_ns
        if written < (experiment.files.folder(policy) / LOCK).stat().st_mtime_ns:
            return None
    return read_progress(checkpoint)


def _is_running(experiment: Experiment, policy: str) -> bool:
    """Whether a process works on a policy, on any host, by its lock.

    A process ID would not tell, because another process may get it later.
    """
    return is_locked(experiment.files.folder(policy) / LOCK)


def _evaluation(experiment: Experiment, policy: str, suites: Collection[str]) -> str:
    """The state of a policy whose training is finished: "trained", "scored" or "evaluated".

    It is evaluated if all its scores, and the curves made from them, exist and are current.
    """
    if not suites:
        return "trained"
    for suite in suites:
        for block in experiment.blocks():
            if not is_good(tasks.score(experiment, policy, suite, block)):
                return "trained"
    curves = [tasks.curves(experiment, policy, suite) for suite in suites]
    return "evaluated" if all(map(is_good, curves)) else "scored"


def is_finished(experiment: Experiment, policy: str) -> bool:
    """Whether a policy exists with the current settings and inputs, and its training is over.

    A job removes its checkpoint last, after it has written the provenance of the policy.
    """
    task = tasks.policy_task(experiment, policy)
    return not is_begun(task) and is_good(task)
