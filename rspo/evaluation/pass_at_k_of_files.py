"""`rspo pass-at-k`: Pass@k with errors, from verdicts that a user has."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from rspo.config.names import Metric
from rspo.core.errors import InputError
from rspo.evaluation.pass_at_k import (
    RESAMPLES,
    SEED,
    chosen_ks,
    counted,
    curve_points,
    pass_at_k_table,
    span,
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

    Raises: InputError for a k above every problem's number of responses, and for an output of
        another kind.
    """
    if output is not None:
        if output.suffix != ".csv":
            raise InputError(f"{output}: has the suffix {output.suffix!r}; allowed: .csv")
        if not output.parent.is_dir():
            raise InputError(f"{output}: no such folder: {output.parent}")
    outcomes = side.outcomes
    ks = chosen_ks(outcomes.responses, ks)
    yield from side.lines
    total = int(outcomes.responses.sum())
    responses = f"{total} response{'s' * (total != 1)}"
    numbers = span(outcomes.responses.tolist())
    yield f"{responses} to {counted(len(outcomes.responses))}, {numbers} each"
    yield f"accuracy: {outcomes.counts.sum() / total:.1%} of the responses are correct"
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
