"""The state of each policy, read from the files that the jobs write."""

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass

from rspo.config.experiment import Experiment
from rspo.core.locks import LOCK, is_locked
from rspo.pipeline import tasks
from rspo.pipeline.state import behind, has_outputs, is_begun, is_good, is_left, refusals
from rspo.training.checkpoint import checkpoint_state
from rspo.training.progress import Snapshot, read_progress


@dataclass(frozen=True)
class Status:
    """The state of one policy.

    state: "waiting", "running", "stopped", "trained", "evaluated", or "stale": damaged, or trained
        with other settings, problems or base policy than the config's.
    snapshot: the progress of its job, if the job is running or stopped.
    """

    policy: str
    state: str
    snapshot: Snapshot | None


def statuses(experiment: Experiment) -> list[Status]:
    """Of all policies of the grid, and of those of the studies for which anything was made."""
    suites: defaultdict[str, set[str]] = defaultdict(set)
    for policy in experiment.policies:
        suites[policy] = {suite for other, suite in experiment.evaluations if other == policy}
    for name, study in experiment.config.studies.items():
        for policy in experiment.policies_of(name):
            if policy not in experiment.policies and experiment.files.folder(policy).exists():
                suites[policy].add(study.suite)
    return [Status(policy, *_state(experiment, policy, suites[policy])) for policy in suites]


def running(experiment: Experiment) -> dict[str, Snapshot]:
    """The progress of each policy of the grid and the studies that a job works on."""
    policies: dict[str, None] = {}  # in their order, each once
    for grid in list(experiment.config.grid) + list(experiment.config.studies):
        policies |= dict.fromkeys(experiment.policies_of(grid))
    found = {}
    for policy in policies:
        snapshot = read_progress(experiment.files.checkpoint(policy))
        if snapshot is not None and _is_running(experiment, policy):
            found[policy] = snapshot
    return found


def faults(experiment: Experiment) -> list[str]:
    """A sentence for each file that cannot be used, with the command that makes it again.

    Checks checkpoints, and every result up to the curves by size and provenance, so that no file is
    read.
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
    """The state of a policy for `Status`, and the progress of its job."""
    snapshot = read_progress(experiment.files.checkpoint(policy))
    task = tasks.policy_task(experiment, policy)
    damaged = checkpoint_state(task).is_fault
    if snapshot is not None and not damaged and not is_left(task):
        return "running" if _is_running(experiment, policy) else "stopped", snapshot
    if is_finished(experiment, policy):
        if suites and _is_evaluated(experiment, policy, suites):
            return "evaluated", None
        return "trained", None
    is_stale = damaged or (has_outputs(task) and not is_good(task))
    return "stale" if is_stale else "waiting", None


def _is_running(experiment: Experiment, policy: str) -> bool:
    return is_locked(experiment.files.folder(policy) / LOCK)  # a process ID may be reused


def _is_evaluated(experiment: Experiment, policy: str, suites: Collection[str]) -> bool:
    """Whether all curves and the scores behind them exist and have no fault."""
    for suite in suites:
        if not is_good(tasks.curves(experiment, policy, suite)):
            return False
        for block in experiment.blocks():
            if not is_good(tasks.score(experiment, policy, suite, block)):
                return False
    return True


def is_finished(experiment: Experiment, policy: str) -> bool:
    """Whether a policy exists with the current settings and inputs, and its training is over.

    A job removes its checkpoint last, after it has written the provenance of the policy.
    """
    task = tasks.policy_task(experiment, policy)
    return not is_begun(task) and is_good(task)
