"""The state of each policy and the work left, read from the files that the jobs write."""

import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

from rspo.config import steps
from rspo.config.experiment import BASE, Experiment
from rspo.core.locks import LOCK, is_locked
from rspo.core.provenance import read_provenance
from rspo.core.slurm_job import host_name
from rspo.training.origin import is_begun, is_damaged
from rspo.training.progress import Snapshot, read_progress

# A job on another host that wrote its progress this recently is running, even if its lock is not
# visible on this host.
SECONDS_OF_SILENCE = 120

# For each policy, the suites that it is evaluated on.
Suites = Mapping[str, Collection[str]]


@dataclass(frozen=True)
class Status:
    """The state of one policy.

    state: "waiting", "running", "stopped", "trained", "evaluated", or "stale": damaged, or trained
        with other settings, problems or base policy than the config's.
    snapshot: the progress of its job, if the job is running or stopped.
    seconds_left: compute time on one core; None if nothing similar has finished yet.
    """

    policy: str
    state: str
    snapshot: Snapshot | None
    seconds_left: float | None


def suites_of_run(wildcards: Iterable[Mapping[str, str]]) -> dict[str, set[str]]:
    """Policies of a Snakemake run, and their suites, from the wildcards of each of its jobs."""
    suites: defaultdict[str, set[str]] = defaultdict(set)
    for of_job in wildcards:
        if policy := of_job.get("policy") or of_job.get("cell"):
            suites[policy] |= {of_job["suite"]} if "suite" in of_job else set()
    return dict(sorted(suites.items()))


def statuses(experiment: Experiment, suites: Suites | None = None) -> list[Status]:
    """The status of each policy of a run; default: of all policies of the experiment."""
    if suites is None:
        suites = {
            policy: [suite for other, suite in experiment.evaluations if other == policy]
            for policy in experiment.policies
        }
    durations = _Durations(experiment, suites)
    return [_status(experiment, policy, suites[policy], durations) for policy in suites]


def _status(
    experiment: Experiment, policy: str, suites: Collection[str], durations: "_Durations"
) -> Status:
    training = durations.training_of(policy)
    evaluation = durations.evaluation if suites else 0.0
    snapshot = read_progress(experiment.checkpoint(policy))
    if snapshot is not None and not is_damaged(experiment.checkpoint(policy)):
        state = "running" if _is_running(snapshot, experiment.folder(policy)) else "stopped"
        left = seconds_of_training_left(snapshot) + (evaluation or 0.0)
        return Status(policy, state, snapshot, left)
    if is_finished(experiment, policy):
        if suites and _is_evaluated(experiment, policy, suites):
            return Status(policy, "evaluated", None, 0.0)
        return Status(policy, "trained", None, evaluation)
    total = None if training is None else training + (evaluation or 0.0)
    step = steps.policy_step(experiment, policy)
    is_stale = is_damaged(experiment.checkpoint(policy)) or (
        experiment.policy(policy).is_dir() and step.is_finished() and not step.is_made()
    )
    return Status(policy, "stale" if is_stale else "waiting", None, total)


def seconds_of_training_left(snapshot: Snapshot) -> float:
    return (snapshot.steps - snapshot.step) * snapshot.seconds_per_step


def _is_evaluated(experiment: Experiment, policy: str, suites: Collection[str]) -> bool:
    """Whether all curves and the scores behind them exist and have no fault."""
    made = [steps.curves(experiment, policy, suite) for suite in suites]
    made += [
        steps.score(experiment, policy, suite, block)
        for suite in suites
        for block in experiment.blocks()
    ]
    return all(step.is_made() for step in made)


def is_finished(experiment: Experiment, policy: str) -> bool:
    """Whether a policy exists with the current settings and inputs, and its training is over.

    A job removes its checkpoint last, after it has written the provenance of the policy.
    """
    is_over = not is_begun(experiment.checkpoint(policy))
    return is_over and steps.policy_step(experiment, policy).is_made()


def _is_running(snapshot: Snapshot, folder: Path) -> bool:
    """Whether the job of a snapshot is alive: it holds its lock, or wrote recently on another host.

    The process ID would not tell: after a reboot or in a container it is another process.
    """
    on_other_host = snapshot.host != host_name()
    is_recent = time.time() - snapshot.written < SECONDS_OF_SILENCE
    return (on_other_host and is_recent) or is_locked(folder / LOCK)


class _Durations:
    """Seconds that finished jobs took, from their provenance files."""

    def __init__(self, experiment: Experiment, suites: Suites) -> None:
        self.experiment = experiment
        self.per_cost: dict[str, list[float]] = {}
        for policy in dict.fromkeys([*experiment.policies, *suites]):
            if seconds := _wall_seconds(experiment.policy(policy)):
                kind, cost = self._cost(policy)
                self.per_cost.setdefault(kind, []).append(seconds / cost)
        evaluations = [
            sum(
                _wall_seconds(file) or 0.0
                for file in _files_of_evaluation(experiment, policy, of_policy)
            )
            for policy, of_policy in suites.items()
            if of_policy and _is_evaluated(experiment, policy, of_policy)
        ]
        self.evaluation = mean(evaluations) if evaluations else None

    def _cost(self, policy: str) -> tuple[str, float]:
        """Kind of training, and its relative cost: responses per prompt for a cell."""
        if policy.endswith(f"--{BASE}"):
            return BASE, 1.0
        cell = self.experiment.cell(policy)
        return cell.model, float(cell.n)

    def training_of(self, policy: str) -> float | None:
        """Estimated seconds to train a policy; None if nothing similar has finished."""
        kind, cost = self._cost(policy)
        known = self.per_cost.get(kind)
        if known is None and kind != BASE:  # cells of another model are better than no estimate
            known = [x for other, xs in self.per_cost.items() if other != BASE for x in xs]
        return cost * mean(known) if known else None


def _files_of_evaluation(
    experiment: Experiment, policy: str, suites: Collection[str]
) -> Iterator[Path]:
    for suite in suites:
        yield experiment.curves(policy, suite)
        yield from experiment.sample_files(policy, suite)
        yield from experiment.score_files(policy, suite)


def _wall_seconds(made: Path) -> float | None:
    seconds = read_provenance(made).get("wall_seconds")
    return None if seconds is None else float(seconds)
