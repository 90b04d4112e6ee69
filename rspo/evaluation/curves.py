"""`rspo curves` and `rspo tables`: Pass@k and Max@k of a policy, and of every policy in one CSV."""

from typing import Any

import pandas as pd

from rspo.config import steps
from rspo.config.experiment import Cell, Experiment
from rspo.config.names import Metric
from rspo.config.schema import POOLED
from rspo.core.tables import CURVES, read_frame, write_csv, write_frame
from rspo.evaluation.outcomes import Outcomes
from rspo.evaluation.pass_at_k import curve_points
from rspo.evaluation.read_outcomes import suite_scores

_METRICS: tuple[Metric, ...] = ("pass_at_k", "max_at_k")


def curves(experiment: Experiment, policy: str, suite: str, force: bool = False) -> None:
    """Write a policy's curves: a row for each benchmark (and "pooled"), metric and k."""
    experiment.model_of(policy)  # raises for an unknown policy
    step, config = steps.curves(experiment, policy, suite), experiment.config.evaluation

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

    step.run(work, force)


def write_curves_table(experiment: Experiment, force: bool = False) -> None:
    """Write the curves of every policy of the grid, with the policy's settings."""
    step = steps.tables(experiment)

    def work() -> None:
        frames = [
            read_frame(experiment.curves(policy, suite), CURVES).assign(
                suite=suite,
                **_columns(experiment.model_of(policy), experiment.cells.get(policy)),
            )
            for policy, suite in experiment.evaluations
        ]
        write_csv(step.outputs[0], pd.concat(frames), missing="nan")

    step.run(work, force)


def _columns(model: str, cell: Cell | None) -> dict[str, Any]:
    """The settings of a policy; empty where a base policy has none."""
    return {
        "model": model,
        "objective": cell.objective if cell else "base",
        "training_k": cell.k if cell else "",
        "n": cell.n if cell else "",
        "reward": cell.reward if cell else "",
        "seed": cell.seed if cell else "",
    }
