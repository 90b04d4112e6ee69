"""`rspo pass-at-k`: Pass@k with errors, from verdicts that a user has."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from rspo.config.names import Metric
from rspo.evaluation.pass_at_k import (
    RESAMPLES,
    SEED,
    accuracy,
    chosen_ks,
    curve_points,
    pass_at_k_table,
    sizes,
)
from rspo.evaluation.sides import Side

_METRICS: tuple[Metric, ...] = ("pass_at_k", "pass_hat_k", "max_at_k")


def estimated(
    side: Side, ks: Sequence[int] | None = None, output: Path | None = None
) -> Iterator[str]:
    """Lines with counts, accuracy and Pass@k of a run.

    Args:
        ks: default: the powers of two up to the smallest number of responses.
        output: CSV to write, with Pass@k, pass^k and, if there are rewards, Max@k at each k.

    Raises: InputError for a k above every problem's number of responses.
    """
    outcomes = side.outcomes
    ks = chosen_ks(outcomes.responses, ks)
    yield from side.lines
    yield sizes(outcomes)
    yield accuracy(outcomes)
    yield ""
    yield from pass_at_k_table(outcomes, ks)
    if output is not None:
        _write(side, ks, output)
        yield f"wrote {output}"


def _write(side: Side, ks: Sequence[int], output: Path) -> None:
    """Write a row for each metric and k."""
    import pandas as pd

    from rspo.core.tables import write_csv

    metrics = [metric for metric in _METRICS if metric != "max_at_k" or side.outcomes.has_rewards]
    points = curve_points(side.outcomes, metrics, ks, RESAMPLES, SEED)
    write_csv(output, pd.DataFrame(points))
