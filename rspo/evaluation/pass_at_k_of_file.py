"""`rspo pass-at-k`: Pass@k and Max@k of any scores table."""

from collections.abc import Sequence
from pathlib import Path

from rspo.core.errors import InputError
from rspo.core.provenance import write_provenance
from rspo.core.replacement import require_own_output
from rspo.core.tables import CURVES, write_csv, write_frame
from rspo.evaluation.curves import curve
from rspo.evaluation.score_arrays import check_suffix, read_scores

RESAMPLES, SEED = 1000, 0


def pass_at_k_of_file(
    scores: Path, output: Path, k: Sequence[int] | None = None, replace: bool = True
) -> None:
    """Write the curves of a scores table; both files are .parquet or .csv.

    Args:
        k: default 1, 2, 4, ... up to half of N, so that every error can be estimated.
        replace: whether to replace an output that was made with other settings.

    Raises: InputError for bad scores, another suffix, a k above N, or an output that may not be
        replaced.
    """
    check_suffix(output)
    arrays = read_scores(scores)
    if k is None:
        half = arrays.correct.shape[1] // 2
        k = [2**power for power in range(max(half, 1).bit_length())]
    settings = {"k": list(k), "resamples": RESAMPLES, "seed": SEED}
    if not replace:
        require_own_output(output, settings)
    try:
        frame = curve(arrays, k, RESAMPLES, SEED).assign(cell=scores.stem, benchmark=scores.stem)
    except InputError as error:
        raise InputError(f"{scores}: {error}") from None
    if output.suffix == ".csv":
        write_csv(output, frame[CURVES.schema.names], missing="nan")
    else:
        write_frame(output, CURVES, frame)
    write_provenance(output, settings, inputs=[scores])
