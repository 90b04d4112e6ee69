"""The state of each policy, read from the files that the jobs write."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from rspo.config import steps
from rspo.config.experiment import Experiment
from rspo.core.locks import LOCK, is_locked
from rspo.core.step import faults_behind
from rspo.training.checkpoint import STATE_FILE, is_begun, is_damaged
from rspo.training.progress import Snapshot, read_progress

# For each policy, the suites that it is evaluated on.
Suites = Mapping[str, Collection[str]]


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


def suites_of_run(wildcards: Iterable[Mapping[str, str]]) -> dict[str, set[str]]:
    """Policies of a Snakemake run, and their suites, from the wildcards of each of its jobs."""
    suites: defaultdict[str, set[str]] = defaultdict(set)
    for of_job in wildcards:
        if policy := of_job.get("policy") or of_job.get("cell"):
            suites[policy] |= {of_job["suite"]} if "suite" in of_job else set()
    return dict(sorted(suites.items()))


def statuses(experiment: Experiment, suites: Suites | None = None) -> list[Status]:
    """The status of each policy of a run.

    Default: of all policies of the grid, and of those of the studies for which anything was made.
    """
    if suites is None:
        found: defaultdict[str, set[str]] = defaultdict(set)
        for policy in experiment.policies:
            found[policy] |= {suite for other, suite in experiment.evaluations if other == policy}
        for name, study in experiment.config.studies.items():
            for policy in experiment.policies_of(name):
                if policy not in experiment.policies and experiment.folder(policy).exists():
                    found[policy].add(study.suite)
        suites = found
    return [Status(policy, *_state(experiment, policy, suites[policy])) for policy in suites]


def faults(experiment: Experiment) -> list[str]:
    """A sentence for each file that cannot be used, with the command that makes it again.

    Checks checkpoints and every result up to the curves by size and provenance, so that no file is
    read.
    """
    checkpoints = [
        f"{experiment.checkpoint(policy) / STATE_FILE} is damaged; "
        f"`{steps.policy_step(experiment, policy).command} --force` starts from step 1"
        for policy in experiment.policies
        if is_damaged(experiment.checkpoint(policy))
    ]
    found = faults_behind(steps.results(experiment))
    for policy in experiment.policies:
        if is_begun(experiment.checkpoint(policy)):
            # It is being made again, which resumes without --force: that would start from step 1.
            found.pop(steps.policy_step(experiment, policy).command, None)
    return [*checkpoints, *found.values()]


def _state(
    experiment: Experiment, policy: str, suites: Collection[str]
) -> tuple[str, Snapshot | None]:
    checkpoint = experiment.checkpoint(policy)
    snapshot, damaged = read_progress(checkpoint), is_damaged(checkpoint)
    if snapshot is not None and not damaged:
        is_running = is_locked(experiment.folder(policy) / LOCK)  # a process ID may be reused
        return "running" if is_running else "stopped", snapshot
    if is_finished(experiment, policy):
        is_evaluated = suites and _is_evaluated(experiment, policy, suites)
        return "evaluated" if is_evaluated else "trained", None
    step = steps.policy_step(experiment, policy)
    is_stale = damaged or (step.has_outputs() and not step.is_current())
    return "stale" if is_stale else "waiting", None


def _is_evaluated(experiment: Experiment, policy: str, suites: Collection[str]) -> bool:
    """Whether all curves and the scores behind them exist and have no fault."""
    made = [steps.curves(experiment, policy, suite) for suite in suites]
    made += [
        steps.score(experiment, policy, suite, block)
        for suite in suites
        for block in experiment.blocks()
    ]
    return all(step.is_current() for step in made)


def is_finished(experiment: Experiment, policy: str) -> bool:
    """Whether a policy exists with the current settings and inputs, and its training is over.

    A job removes its checkpoint last, after it has written the provenance of the policy.
    """
    is_over = not is_begun(experiment.checkpoint(policy))
    return is_over and steps.policy_step(experiment, policy).is_current()
