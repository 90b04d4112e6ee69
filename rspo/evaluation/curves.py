"""`rspo curves`: Pass@k and Max@k of a policy."""

import pandas as pd

from rspo.config.experiment import Experiment
from rspo.config.names import Metric
from rspo.config.schema import POOLED
from rspo.core.tables import CURVES, write_frame
from rspo.evaluation.outcomes import Outcomes
from rspo.evaluation.pass_at_k import curve_points
from rspo.evaluation.read_outcomes import suite_scores
from rspo.pipeline import tasks
from rspo.pipeline.run import run

_METRICS: tuple[Metric, ...] = ("pass_at_k", "max_at_k")


def curves(experiment: Experiment, policy: str, suite: str, force: bool = False) -> None:
    """Write a policy's curves: a row for each benchmark (and "pooled"), metric and k."""
    experiment.model_of(policy)  # raises for an unknown policy
    step, config = tasks.curves(experiment, policy, suite), experiment.config.evaluation

    def work() -> None:
        scores = suite_scores(experiment, policy, suite)
        scores[POOLED] = Outcomes.pooled(scores.values())
        how = config.k, config.resamples, config.seed
        points = [
            {"cell": policy, "benchmark": name} | point
            for name, outcomes in scores.items()
            for point in curve_points(outcomes, _METRICS[: 1 + outcomes.has_rewards], *how)
        ]
        write_frame(step.outputs[0], CURVES, pd.DataFrame(points))

    run(step, work, force)
