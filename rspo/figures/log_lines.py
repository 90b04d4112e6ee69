"""Lines of training logs: values step by step, averaged over seeds and smoothed."""

from collections.abc import Sequence
from statistics import fmean
from typing import TYPE_CHECKING

from rspo.figures import style
from rspo.figures.figure import command
from rspo.figures.methods import Method, face
from rspo.training.logs import column, read_log

if TYPE_CHECKING:
    import pandas as pd
    import seaborn.objects as so
    from matplotlib.figure import Figure as Picture

    from rspo.config.experiment import Experiment


def half_window(steps: int) -> int:
    """Steps on either side in the moving average: a fortieth of the training, so 5 of 200."""
    return max(1, steps // 40)


def smoothed(values: Sequence[float], half: int) -> list[float]:
    """Centred moving average over up to `half` steps on either side, fewer at both ends."""
    return [fmean(values[max(0, i - half) : i + half + 1]) for i in range(len(values))]


def first_pass(experiment: "Experiment") -> int:
    """The number of training steps before prompts repeat, at most all steps.

    Raises: InputError for a training set that is missing or invalid.
    """
    from rspo.core.tables import PROBLEMS, read_table  # here, because it imports pyarrow

    training = experiment.config.training
    problems = read_table(experiment.problems("train"), PROBLEMS)
    return min(training.steps, len(problems) // training.prompts_per_step)


def averaged(
    experiment: "Experiment", method: Method, key: str, half: int, steps: int, unit: float = 1
) -> "pd.DataFrame":
    """The first `steps` steps of `unit` times `key`: mean over seeds, smoothed, and its range."""
    import pandas as pd

    logs = {cell: logged(experiment, cell, key)[:steps] for cell in method.policies}
    values = unit * pd.DataFrame(logs)
    smooth = values.apply(smoothed, half=half)
    return pd.DataFrame(
        {
            "method": method.label,
            "trained_k": pd.array([method.k] * len(values), "Int64"),
            "n": method.n or 1,
            "step": range(1, len(values) + 1),
            "value": values.agg(fmean, axis="columns"),
            "smoothed": smooth.agg(fmean, axis="columns"),
            "lowest": smooth.min(axis="columns"),
            "highest": smooth.max(axis="columns"),
            "window": 2 * half + 1,
            "seeds": len(logs),
        }
    )


def logged(experiment: "Experiment", cell: str, key: str) -> list[float]:
    """The values of `key` in a cell's log, step by step.

    Args:
        key: "seconds" for the sum over the phases of a step.

    Raises: InputError for a log that is missing or incomplete.
    """
    path = experiment.training_log(cell)
    remedy = f"finish or remake it with `{command(experiment, path)}`"
    log = read_log(path, experiment.config.training.steps, remedy)
    if key == "seconds":
        log = [row | {key: sum(row[key].values())} for row in log]
    return column(path, log, key)


def add_bands(plot: "so.Plot", table: "pd.DataFrame", methods: Sequence[Method]) -> "so.Plot":
    if table["seeds"].max() == 1:
        return plot
    return style.add_intervals(plot, table, methods, "lowest", "highest")


def explain(
    picture: "Picture",
    table: "pd.DataFrame",
    experiment: "Experiment",
    methods: Sequence[Method],
    lines: str,
    one_seed: str = "",
) -> None:
    """The legend, and a note on the lines; `one_seed` is what is shaded with one seed."""
    shaded = one_seed if table["seeds"].max() == 1 else "shaded: lowest to highest seed"
    style.legend(picture, methods)
    prompts = experiment.config.training.prompts_per_step
    style.note(
        picture,
        f"{face(experiment, methods)}, {prompts} prompts per step",
        f"{lines} mean of {table['window'].iloc[0]} steps",
        *([shaded] if shaded else []),
    )
