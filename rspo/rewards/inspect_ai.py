"""For Inspect: the scorer `verdict`, the reducer `max_at` and the metric `stderr_within`.

    Task(dataset, scorer=verdict(), epochs=Epochs(16, ["rspo/max_at_1", "rspo/max_at_4"]))

The entry point `rspo` of the group `inspect_ai` makes them known to Inspect by these names.
"""

import math
from functools import partial

import anyio.to_thread
import inspect_ai.scorer as scoring
from inspect_ai.solver import TaskState

from rspo.estimators import max_at_k, max_at_k_variance
from rspo.rewards import verify
from rspo.rewards.extraction import last_box

VARIANCE = "variance_within"  # in the metadata of a reduced score


@scoring.metric
def stderr_within() -> scoring.Metric:
    """The part of the standard error that comes from sampling, for the same problems.

    NaN unless `max_at` reduced the scores, with at least 2k epochs.
    """

    def error(scores: list[scoring.SampleScore]) -> float:
        variances = [(one.score.metadata or {}).get(VARIANCE, math.nan) for one in scores]
        return math.sqrt(sum(variances)) / len(variances) if variances else math.nan

    return error


@scoring.scorer(metrics=[scoring.accuracy(), scoring.stderr(), stderr_within()])
def verdict(verifier: str = "rules", time_limit: float = 5.0) -> scoring.Scorer:
    """Whether the last \\boxed{} of a response is equal to any of the targets.

    Args:
        verifier, time_limit: see `rspo.rewards.verify`.

    Returns: scores with the content of the box as answer, and the reason as explanation.
    """

    async def score(state: TaskState, target: scoring.Target) -> scoring.Score:
        response = state.output.completion
        call = partial(verify, [response], [list(target)], verifier, time_limit)
        (found,) = await anyio.to_thread.run_sync(call, abandon_on_cancel=True)
        value = scoring.CORRECT if found.correct else scoring.INCORRECT
        return scoring.Score(value=value, answer=last_box(response), explanation=found.reason)

    return score


@scoring.score_reducer
def max_at(k: int) -> scoring.ScoreReducer:
    """Unbiased Max@k of a sample's epochs; of scores that are right or wrong, this is Pass@k.

    NaN if fewer than k epochs have a score.
    """
    as_float = scoring.value_to_float()

    def reduce(scores: list[scoring.Score]) -> scoring.Score:
        values = [as_float(one.value) for one in scores]
        scored = [value for value in values if not math.isnan(value)]
        if len(scored) < k:
            return scoring.Score.unscored(reason=f"{len(scored)} scored epochs, but k = {k}")
        variance = {VARIANCE: float(max_at_k_variance(scored, k))}
        return scoring.Score(value=float(max_at_k(scored, k)), metadata=variance)

    return reduce
