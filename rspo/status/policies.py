"""The state of each policy and the work left, read from the files that the jobs write."""

import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

from rspo.config import steps
from rspo.config.experiment import BASE, Experiment
from rspo.core.locks import LOCK, is_locked
from rspo.core.provenance import read_provenance
from rspo.core.slurm_job import host_name
from rspo.core.step import Step
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
    names = dict.fromkeys([*experiment.policies, *suites])
    policies = {name: _policy(experiment, name, suites.get(name, ())) for name in names}
    durations = _Durations(list(policies.values()))
    return [_status(policies[name], durations) for name in suites]


@dataclass(frozen=True)
class _Policy:
    """What the status of a policy is read from.

    kind, cost: of training, and its relative cost: responses per prompt for a cell.
    made: the step that makes it.
    curves, scores, samples: the steps of its evaluation.
    """

    name: str
    kind: str
    cost: float
    folder: Path
    checkpoint: Path
    made: Step
    curves: list[Step]
    scores: list[Step]
    samples: list[Step]

    @property
    def is_evaluated(self) -> bool:
        """Whether all curves and the scores behind them exist and have no fault."""
        return all(step.is_made() for step in (*self.curves, *self.scores))

    @property
    def is_finished(self) -> bool:
        """Whether it exists with the current settings and inputs, and its training is over.

        A job removes its checkpoint last, after it has written the provenance of the policy.
        """
        return not is_begun(self.checkpoint) and self.made.is_made()


def _policy(experiment: Experiment, name: str, suites: Collection[str] = ()) -> _Policy:
    cell = None if experiment.is_base(name) else experiment.cell(name)
    blocks = [(name, suite, block) for suite in suites for block in experiment.blocks()]
    return _Policy(
        name,
        cell.model if cell else BASE,
        float(cell.n) if cell else 1.0,
        experiment.folder(name),
        experiment.checkpoint(name),
        steps.policy_step(experiment, name),
        [steps.curves(experiment, name, suite) for suite in suites],
        [steps.score(experiment, *block) for block in blocks],
        [steps.sample(experiment, *block) for block in blocks],
    )


def is_finished(experiment: Experiment, policy: str) -> bool:
    """Whether a policy exists with the current settings and inputs, and its training is over."""
    return _policy(experiment, policy).is_finished


def _status(policy: _Policy, durations: "_Durations") -> Status:
    training = durations.training_of(policy)
    evaluation = durations.evaluation if policy.curves else 0.0
    snapshot = read_progress(policy.checkpoint)
    if snapshot is not None and not is_damaged(policy.checkpoint):
        state = "running" if _is_running(snapshot, policy.folder) else "stopped"
        left = seconds_of_training_left(snapshot) + (evaluation or 0.0)
        return Status(policy.name, state, snapshot, left)
    if policy.is_finished:
        if policy.curves and policy.is_evaluated:
            return Status(policy.name, "evaluated", None, 0.0)
        return Status(policy.name, "trained", None, evaluation)
    total = None if training is None else training + (evaluation or 0.0)
    made = policy.made
    is_stale = is_damaged(policy.checkpoint) or (made.is_finished() and not made.is_made())
    return Status(policy.name, "stale" if is_stale else "waiting", None, total)


def seconds_of_training_left(snapshot: Snapshot) -> float:
    return (snapshot.steps - snapshot.step) * snapshot.seconds_per_step


def _is_running(snapshot: Snapshot, folder: Path) -> bool:
    """Whether the job of a snapshot is alive: it holds its lock, or wrote recently on another host.

    The process ID would not tell: after a reboot or in a container it is another process.
    """
    on_other_host = snapshot.host != host_name()
    is_recent = time.time() - snapshot.written < SECONDS_OF_SILENCE
    return (on_other_host and is_recent) or is_locked(folder / LOCK)


class _Durations:
    """Seconds that finished jobs took, from their provenance files."""

    def __init__(self, policies: Sequence[_Policy]) -> None:
        self.per_cost: dict[str, list[float]] = {}
        for policy in policies:
            if seconds := _wall_seconds(policy.made.outputs[0]):
                self.per_cost.setdefault(policy.kind, []).append(seconds / policy.cost)
        evaluations = [
            sum(
                _wall_seconds(step.outputs[0]) or 0.0
                for step in (*policy.curves, *policy.samples, *policy.scores)
            )
            for policy in policies
            if policy.curves and policy.is_evaluated
        ]
        self.evaluation = mean(evaluations) if evaluations else None

    def training_of(self, policy: _Policy) -> float | None:
        """Estimated seconds to train a policy; None if nothing similar has finished."""
        known = self.per_cost.get(policy.kind)
        if known is None and policy.kind != BASE:  # cells of another model: better than no estimate
            known = [x for other, xs in self.per_cost.items() if other != BASE for x in xs]
        return policy.cost * mean(known) if known else None


def _wall_seconds(made: Path) -> float | None:
    seconds = read_provenance(made).get("wall_seconds")
    return None if seconds is None else float(seconds)
