"""`rspo curves`: write Pass@k and Max@k of a policy against k."""

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
    """Write the table of a policy's curves: a row for each benchmark, metric and k.

    The rows of the benchmark "pooled" are about the problems of all benchmarks together.
    """
    experiment.model_of(policy)  # raises for an unknown policy
    task = tasks.curves(experiment, policy, suite)
    config = experiment.config.evaluation

    def work() -> None:
        scores = suite_scores(experiment, policy, suite)
        scores[POOLED] = Outcomes.pooled(scores.values())
        rows = []
        for name, outcomes in scores.items():
            # Scores that were restored from evidence may lack rewards, which Max@k needs.
            metrics = _METRICS if outcomes.has_rewards else _METRICS[:1]
            points = curve_points(outcomes, metrics, config.k, config.resamples, config.seed)
            rows += [{"cell": policy, "benchmark": name} | point for point in points]
        write_frame(task.outputs[0], CURVES, pd.DataFrame(rows))

    run(task, work, force)
