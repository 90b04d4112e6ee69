"""What the trainings of a trial must show before the real ones start: `rspo trial`.

Limits without another source are ours; no training of the paper's size was measured.
"""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rspo.config.experiment import Experiment
from rspo.config.schema import Trial
from rspo.core.files import read_json_lines
from rspo.pipeline import tasks
from rspo.rewards.verdict import INVALID_REPLY
from rspo.training.logs import MOST_CLIPPED, column, read_log, steps_above

# The mean absolute difference between the log-probabilities of the sampler and the actor, in nats
# per token. A correct sampler in bfloat16 differs by 0.004 to 0.01 (rspo/training/logs.py).
MOST_DIFFERENCE = 0.02
# How many times the difference in the last third of the steps may be that in the first third. If
# the sampler has old weights, it is about six times as large (docs/verl.md).
MOST_GROWTH = 1.5
# The least first difference with which a later one is compared. In float32, differences are
# rounding errors of 1e-6, and one may be ten times another one.
LEAST_DIFFERENCE = 0.001
# By how much the fraction of tokens that PPO clips may grow from the first third to the last.
MOST_MORE_CLIPPED = 0.05
# How many standard errors the mean reward of the last third must be above that of the first.
LEAST_STANDARD_ERRORS = 2
LEAST_FINISHED = 0.9  # of the responses; others are cut at their maximum length
LEAST_LENGTH = 0.99  # of the maximum, if responses ignore their end
MOST_INVALID = 0.01  # of the judge's replies: neither `correct` nor `incorrect`

Log = Sequence[dict[str, Any]]


@dataclass(frozen=True)
class Outcome:
    """One check of one cell.

    found: what the cell's files show, and what is allowed.
    """

    check: str
    cell: str
    is_met: bool
    found: str


def files(experiment: Experiment, name: str) -> list[Path]:
    """The files that a trial needs: training logs, and curves if it has a suite.

    Raises: InputError if the config has no such trial.
    """
    trial = _trial(experiment, name)
    paths = [experiment.files.training_log(cell.name) for cell in experiment.cells_of(name)]
    if trial.suite:
        for cell in experiment.cells_of(name):
            paths.extend(tasks.curves(experiment, cell.name, trial.suite).outputs)
    return paths


def outcomes(experiment: Experiment, name: str) -> list[Outcome]:
    """The outcome of each check for each cell of a trial.

    Raises: InputError if the config has no such trial, or a training is not finished.
    """
    trial = _trial(experiment, name)
    results = []
    for cell in experiment.cells_of(name):
        log = read_log(experiment, cell.name)
        for check in trial.checks:
            is_met, found = _CHECKS[check](experiment.for_cell(cell.name), trial, cell.name, log)
            results.append(Outcome(check, cell.name, is_met, found))
    return results


def is_go(results: Sequence[Outcome]) -> bool:
    """Whether all checks are met."""
    return all(outcome.is_met for outcome in results)


def text(experiment: Experiment, name: str, results: Sequence[Outcome]) -> str:
    """A line for each check, and whether the real trainings may start."""
    lines = []
    for outcome in results:
        state = "ok" if outcome.is_met else "no"
        lines.append(f"{state:3} {outcome.check:11} {outcome.cell}: {outcome.found}")
    failed = sum(not outcome.is_met for outcome in results)
    verdict = f"no go: {failed} of {len(results)} checks failed" if failed else "go"
    lines.append(f"trial {name} of scale {experiment.scale}: {verdict}")
    if "judge" in _trial(experiment, name).checks and not failed:
        lines.append(
            "before the real trainings, read about 100 verdicts of the judge yourself: "
            "whether they are right is not checked"
        )
    return "\n".join(lines)


def _trial(experiment: Experiment, name: str) -> Trial:
    """The trial with a name. Raises: InputError if the config has none."""
    trials = experiment.config.trials
    experiment.require_name("trial", name, trials)
    return trials[name]


def _thirds(values: Sequence[float]) -> tuple[Sequence[float], Sequence[float]]:
    """The first and the last third, each with at least one value."""
    count = max(1, len(values) // 3)
    return values[:count], values[-count:]


def _column(experiment: Experiment, cell: str, log: Log, key: str) -> list[float]:
    return column(experiment.files.training_log(cell), log, key)


def _seconds(experiment: Experiment, trial: Trial, cell: str, log: Log) -> tuple[bool, str]:
    """The median step is short enough."""
    assert trial.step_seconds is not None  # by the check of the config
    median = statistics.median(sum(record["seconds"].values()) for record in log)
    found = f"{median:.1f} seconds in the median step, at most {trial.step_seconds:g}"
    return median <= trial.step_seconds, found


def _sampler(experiment: Experiment, trial: Trial, cell: str, log: Log) -> tuple[bool, str]:
    """The sampler has the actor's weights."""
    measured = [record["sampler"] for record in log if isinstance(record.get("sampler"), Mapping)]
    if experiment.config.engine == "local":
        return True, "the local engine's sampler is the actor"
    if len(measured) < len(log):
        return False, f"{len(log) - len(measured)} steps have no log-probabilities of the sampler"
    differences = [float(one["difference"]) for one in measured]
    first, last = _thirds(differences)
    growth = statistics.mean(last) / max(statistics.mean(first), LEAST_DIFFERENCE)
    found = (
        f"differs from the actor by at most {max(differences):.4f} (allowed: {MOST_DIFFERENCE:g}), "
        f"at the end by {growth:.1f} times the first difference (allowed: {MOST_GROWTH:g})"
    )
    bounded = all(difference <= MOST_DIFFERENCE for difference in differences)  # not if NaN
    return bounded and growth <= MOST_GROWTH and not steps_above(log), found


def _clipping(experiment: Experiment, trial: Trial, cell: str, log: Log) -> tuple[bool, str]:
    """Most gradients keep their norm, and PPO clips about as many tokens at the end."""
    gradients = statistics.mean(_column(experiment, cell, log, "gradient_clipped"))
    first, last = _thirds(_column(experiment, cell, log, "clipped"))
    more = statistics.mean(last) - statistics.mean(first)
    found = (
        f"{gradients:.0%} of the gradients are clipped (at most {MOST_CLIPPED:.0%}), and PPO clips "
        f"{more:+.3f} of the tokens more at the end (at most {MOST_MORE_CLIPPED:g})"
    )
    return gradients <= MOST_CLIPPED and more <= MOST_MORE_CLIPPED, found


def _reward(experiment: Experiment, trial: Trial, cell: str, log: Log) -> tuple[bool, str]:
    """The reward has risen by more than its noise."""
    first, last = _thirds(_column(experiment, cell, log, "reward"))
    rise = statistics.mean(last) - statistics.mean(first)
    if len(first) < 2:
        return False, f"{len(log)} steps are too few"
    noise = math.sqrt((statistics.variance(first) + statistics.variance(last)) / len(first))
    found = (
        f"the reward of the last third is {rise:+.3f} above the first, standard error {noise:.3f} "
        f"(at least {LEAST_STANDARD_ERRORS} of them)"
    )
    return rise > LEAST_STANDARD_ERRORS * noise, found


def _finished(experiment: Experiment, trial: Trial, cell: str, log: Log) -> tuple[bool, str]:
    """Few responses are cut."""
    _, last = _thirds(_column(experiment, cell, log, "finished"))
    share = statistics.mean(last)
    found = f"{share:.1%} of the responses of the last third end by themselves"
    return share > LEAST_FINISHED, f"{found} (more than {LEAST_FINISHED:.0%})"


def _full_length(experiment: Experiment, trial: Trial, cell: str, log: Log) -> tuple[bool, str]:
    """Every response has the maximum length, so that the memory was that of the longest step."""
    most = experiment.config.sampling.max_response_tokens
    shortest = min(_column(experiment, cell, log, "response_tokens"))
    found = f"{shortest:.0f} of {most} tokens in a response, in the step with the fewest"
    return shortest >= LEAST_LENGTH * most, found


def _judge(experiment: Experiment, trial: Trial, cell: str, log: Log) -> tuple[bool, str]:
    """The judge replies with a verdict."""
    if experiment.config.verifier != "xverify":
        return True, "no judge"
    replies = read_json_lines(experiment.files.verdicts(cell, "train"))
    if not replies:
        return False, "no replies"
    invalid = sum(reply["verdict"] == INVALID_REPLY for reply in replies)
    share = invalid / len(replies)
    found = f"{share:.2%} of {len(replies)} replies are invalid (less than {MOST_INVALID:.0%})"
    return share < MOST_INVALID, found


_CHECKS: dict[str, Callable[[Experiment, Trial, str, Log], tuple[bool, str]]] = {
    "seconds": _seconds,
    "sampler": _sampler,
    "clipping": _clipping,
    "reward": _reward,
    "finished": _finished,
    "full_length": _full_length,
    "judge": _judge,
}
