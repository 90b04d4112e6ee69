"""What is done, what runs, and when it will end: read from the files that the jobs write."""

import json
import sys
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import mean
from typing import Any

from rspo.config import fingerprints
from rspo.config.experiment import BASE, Experiment
from rspo.core.files import fingerprint
from rspo.core.locks import is_locked
from rspo.core.provenance import provenance_path
from rspo.core.slurm_job import host_name
from rspo.training.origin import is_begun
from rspo.training.progress import Snapshot, read_progress

SECONDS_BETWEEN_LINES = 15
# A job on another host that reported so lately runs, whether its lock is seen here or not.
SECONDS_OF_NEWS = 120
FINISHED = "all finished"

# By policy, the suites that it is evaluated on.
Suites = Mapping[str, Collection[str]]


@dataclass(frozen=True)
class Standing:
    """Where one policy stands.

    state: "waiting", "running", "stopped", "trained", "evaluated", or "stale": trained with other
        settings than the config has now, and so to be trained again.
    """

    policy: str
    state: str
    snapshot: Snapshot | None
    seconds_left: float | None  # of work, on one core; None: nothing to tell it from


def suites_of_run(wildcards: Iterable[Mapping[str, str]]) -> dict[str, set[str]]:
    """What the jobs of a run are about, by Snakemake's names for it."""
    found: dict[str, set[str]] = {}
    for of_job in wildcards:
        if policy := of_job.get("policy") or of_job.get("cell"):
            suites = found.setdefault(policy, set())
            if suite := of_job.get("suite"):
                suites.add(suite)
    return dict(sorted(found.items()))


def _suites_of_all(experiment: Experiment) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {policy: set() for policy in experiment.policies}
    for policy, suite in experiment.evaluations:
        found[policy].add(suite)
    return found


def standings(experiment: Experiment, suites: Suites | None = None) -> list[Standing]:
    """Where the policies of a run stand, or all of the experiment's."""
    suites = suites or _suites_of_all(experiment)
    times = _Times(experiment, suites)
    return [_standing(experiment, policy, suites[policy], times) for policy in suites]


def _standing(
    experiment: Experiment, policy: str, suites: Collection[str], times: "_Times"
) -> Standing:
    training, evaluation = times.training_of(policy), times.evaluation if suites else 0.0
    snapshot = read_progress(experiment.checkpoint(policy))
    if snapshot is None and is_finished(experiment, policy):
        if suites and _is_evaluated(experiment, policy, suites):
            return Standing(policy, "evaluated", None, 0.0)
        return Standing(policy, "trained", None, evaluation)
    if snapshot is None:
        total = None if training is None else training + (evaluation or 0.0)
        state = "stale" if is_stale(experiment, policy) else "waiting"
        return Standing(policy, state, None, total)
    left = (snapshot.steps - snapshot.step) * snapshot.seconds_per_step + (evaluation or 0.0)
    runs = _runs(snapshot, experiment.folder(policy))
    return Standing(policy, "running" if runs else "stopped", snapshot, left)


def _is_evaluated(experiment: Experiment, policy: str, suites: Collection[str]) -> bool:
    """Whether all these curves are there, and of this policy, not of one before it."""
    try:
        trained = experiment.policy(policy).stat().st_mtime
        curves = [experiment.curves(policy, suite) for suite in suites]
        return all(file.stat().st_mtime >= trained for file in curves)
    except FileNotFoundError:
        return False


def is_finished(experiment: Experiment, policy: str) -> bool:
    """Whether a policy is there, made with the settings of now, and its training over.

    The checkpoint is the last that goes, when the notes beside the policy are written.
    """
    there = experiment.policy(policy).is_dir() and not is_begun(experiment.checkpoint(policy))
    return there and not is_stale(experiment, policy)


def is_stale(experiment: Experiment, policy: str) -> bool:
    """Whether a cell's policy was made with other settings, as its provenance note says."""
    if policy not in experiment.cells:
        return False
    try:
        made_with = _note(provenance_path(experiment.policy(policy)))["settings"]["settings"]
    except (OSError, ValueError, KeyError, TypeError):  # nobody says
        return False
    return fingerprint(made_with) != fingerprints.settings_hash(experiment, "train", policy)


def _runs(snapshot: Snapshot, folder: Path) -> bool:
    """Whether the job that reported lives: it has its folder, or is elsewhere and sends news.

    Not by its number: after a reboot, or in another container, that is another process.
    """
    elsewhere = snapshot.host != host_name()
    has_news = time.time() - snapshot.written < SECONDS_OF_NEWS
    return (elsewhere and has_news) or is_locked(folder)


class _Times:
    """Seconds that finished work took, from the provenance notes beside it."""

    def __init__(self, experiment: Experiment, suites: Suites) -> None:
        self.experiment = experiment
        self.per_cost: dict[str, list[float]] = {}
        evaluations = []
        for policy in experiment.policies:
            if seconds := _wall_seconds(provenance_path(experiment.policy(policy))):
                kind, cost = self._cost(policy)
                self.per_cost.setdefault(kind, []).append(seconds / cost)
        for policy, of_policy in suites.items():
            if of_policy and _is_evaluated(experiment, policy, of_policy):
                made = _made_by_evaluation(experiment, policy, of_policy)
                seconds_of = (_wall_seconds(provenance_path(file)) for file in made)
                evaluations.append(sum(seconds or 0.0 for seconds in seconds_of))
        self.evaluation = mean(evaluations) if evaluations else None

    def _cost(self, policy: str) -> tuple[str, float]:
        """Kind of work, and how much of it: responses per prompt for a cell."""
        if policy.endswith(f"--{BASE}"):
            return BASE, 1.0
        cell = self.experiment.cell(policy)
        return cell.model, float(cell.n)

    def training_of(self, policy: str) -> float | None:
        """Seconds that a policy's training should take; None if nothing like it has finished."""
        kind, cost = self._cost(policy)
        known = self.per_cost.get(kind)
        if known is None and kind != BASE:  # another model's cells are a better guess than none
            known = [x for other, xs in self.per_cost.items() if other != BASE for x in xs]
        return cost * mean(known) if known else None


def _made_by_evaluation(
    experiment: Experiment, policy: str, suites: Collection[str]
) -> Iterator[Path]:
    """Files with the samples, the scores and the curves of a policy."""
    for suite in suites:
        yield experiment.curves(policy, suite)
        for benchmark in experiment.benchmarks_of(suite):
            yield from experiment.sample_files(policy, benchmark)
            yield from experiment.score_files(policy, benchmark)


def _wall_seconds(note: Path) -> float | None:
    try:
        return float(_note(note)["wall_seconds"])
    except (OSError, ValueError, KeyError):
        return None


def _note(path: Path) -> Any:
    return _read_note(path, path.stat().st_mtime_ns)


@cache
def _read_note(path: Path, changed: int) -> Any:
    """Hundreds of notes are asked for with every line, of which hardly any is new."""
    return json.loads(path.read_text())


def ending(all_standings: list[Standing]) -> str:
    """When the work will be finished, in words."""
    left = [standing.seconds_left for standing in all_standings]
    if any(seconds is None for seconds in left):
        return "end not known before the first cell is done"
    total = sum(seconds for seconds in left if seconds is not None)
    if total == 0:
        return FINISHED
    running = [s.seconds_left for s in all_standings if s.state == "running" and s.seconds_left]
    # Side by side, but never sooner than the longest of the running ones.
    seconds = max([total / max(1, len(running)), *running])
    clock = time.strftime("%H:%M", time.localtime(time.time() + seconds))
    return f"about {duration(seconds)} left (until {clock})"


def duration(seconds: float) -> str:
    """`45 s`, `12 min` or `5.5 h`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _metrics(snapshot: Snapshot) -> str:
    values = "  ".join(f"{name} {value:.3f}" for name, value in snapshot.metrics.items())
    return f"step {snapshot.step}/{snapshot.steps}  {values}"


def line(experiment: Experiment, suites: Suites | None = None) -> str:
    """One line: how many policies are done, what each running one does, when all will be."""
    found = standings(experiment, suites)
    done = sum(standing.state == "evaluated" for standing in found)
    trained = sum(standing.state in ("trained", "evaluated") for standing in found)
    running = [
        f"{standing.policy} {_metrics(standing.snapshot)}"
        for standing in found
        if standing.state == "running" and standing.snapshot
    ]
    counts = f"{trained} of {len(found)} policies trained, {done} evaluated"
    return " | ".join([counts, *running, ending(found)])


def table(experiment: Experiment) -> str:
    """Every policy with its state, for a person who asks."""
    found = standings(experiment)
    width = max(len(standing.policy) for standing in found)
    lines = []
    for standing in found:
        details = f"  {_metrics(standing.snapshot)}" if standing.snapshot else ""
        lines.append(f"{standing.policy:{width}}  {standing.state:9}{details}".rstrip())
    return "\n".join([*lines, line(experiment)])


def follow(experiment: Experiment, suites: Suites | None = None) -> None:
    """Print `line` to standard error whenever it changed, until everything is evaluated."""
    last = ""
    while not last.endswith(FINISHED):
        now = line(experiment, suites)
        if now != last:
            print(f"[{time.strftime('%H:%M:%S')}] {now}", file=sys.stderr, flush=True)
            last = now
        time.sleep(SECONDS_BETWEEN_LINES)
