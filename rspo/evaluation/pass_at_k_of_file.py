"""`rspo pass-at-k`: Pass@k, pass^k, Max@k and figures of answers of any verified responses."""

from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import pandas as pd

from rspo.config.names import Metric
from rspo.core.errors import InputError
from rspo.core.provenance import Done
from rspo.core.step import Step
from rspo.core.tables import CURVES, write_csv, write_frame
from rspo.evaluation.curve_points import answer_points, curve_points
from rspo.evaluation.outcome_files import read_outcomes
from rspo.evaluation.pass_at_k_table import RESAMPLES, SEED, default_ks, left_out, short
from rspo.evaluation.score_arrays import check_suffix


def pass_at_k_of_file(
    verdicts: Path, output: Path, k: Sequence[int] | None = None, replace: bool = True
) -> list[str]:
    """Write the curves of verified responses, without Max@k where they have no rewards.

    With extracted answers, also how many responses have none, and how many answers differ.

    Args:
        verdicts: JSON lines as `rspo verify` writes them, or a scores table (`read_outcomes`).
        output: .parquet or .csv.
        k: default 1, 2, 4, ... up to the smallest number of responses to a problem. A larger k
            leaves out the problems with fewer responses; the column `problems` counts the others.
        replace: whether to replace an output that was made with other settings.

    Returns: a line for each k that leaves out problems.

    Raises: InputError for bad verdicts, another suffix, a k above every problem's number of
        responses, or an output that may not be replaced.
    """
    check_suffix(output)
    outcomes = read_outcomes(verdicts)
    ks = default_ks(outcomes.responses.tolist()) if k is None else sorted({*k})
    settings = {"k": ks, "resamples": RESAMPLES, "seed": SEED}
    step = Step("rspo pass-at-k", (output,), settings)
    if not replace:
        step.require_replaceable()
    try:
        metrics = [m for m in get_args(Metric) if m != "max_at_k" or outcomes.has_rewards]
        points = curve_points(outcomes, metrics, ks, RESAMPLES, SEED)
        if outcomes.answers is not None:
            points += answer_points(outcomes, outcomes.answers, ks, RESAMPLES, SEED)
    except InputError as error:
        raise InputError(f"{verdicts}: {error}") from None
    frame = pd.DataFrame(points).assign(cell=verdicts.stem, benchmark=verdicts.stem)
    if output.suffix == ".csv":
        write_csv(output, frame[CURVES.schema.names], missing="nan")
    else:
        write_frame(output, CURVES, frame)
    step.record(Done(originals=[verdicts]))
    return list(left_out(outcomes.responses, [short(name) for name in outcomes.names], ks))
