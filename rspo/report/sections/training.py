"""The section Training: reward, entropy, Pass@k and clipped gradients of each training step."""

from collections.abc import Iterator, Sequence

import pandas as pd
from matplotlib.axes import Axes

from rspo.config.experiment import Cell, Experiment
from rspo.figures import style
from rspo.figures.captions import cells_sentence
from rspo.figures.methods import Method, trained_methods
from rspo.figures.training_curves import first_pass, half_window, smoothed
from rspo.report.page_table import page_table
from rspo.report.sections.figures import MEASURED, Picture, data_url, inches, png_of
from rspo.training.clipping import clipping_warning
from rspo.training.logs import read_log
from rspo.training.sampler_difference import sampler_warning

_PASS = "pass_at_"
_CLIPPED = "gradient_clipped"
_HELD_OUT = "held_out_pass_at_"
_LABELS = {
    "reward": "mean reward",
    "entropy": "entropy (nats per token)",
    _CLIPPED: "gradients clipped",
}


def training_pictures(experiment: Experiment) -> Iterator[Picture]:
    """One for each grid entry and model, unless earlier pictures show all of its cells.

    Raises: InputError for training logs that are missing or incomplete.
    """
    seen: set[str] = set()
    for entry in experiment.config.grid:
        cells = experiment.cells_of(entry)
        for model in dict.fromkeys(cell.model for cell in cells):
            chosen = [cell for cell in cells if cell.model == model]
            if not seen.issuperset(cell.name for cell in chosen):
                seen.update(cell.name for cell in chosen)
                label = experiment.config.models[model].label
                yield _picture(experiment, f"{entry}, {label}", chosen)


def _picture(experiment: Experiment, title: str, cells: list[Cell]) -> Picture:
    logs = {cell.name: _log(experiment, cell.name) for cell in cells}
    # The k that all logs have: the largest k of a log grows with n.
    shared = set.intersection(*(set(log.columns) for log in logs.values()))
    ks = sorted(_k_of(key) for key in shared if key.startswith(_PASS))
    drawn = max((k for k in ks if k <= max(cell.k for cell in cells)), default=ks[-1])
    clipped = [_CLIPPED] if experiment.config.training.optimizer.gradient_clip else []
    held_out = [key for key in shared if key.startswith(_HELD_OUT)]
    held_out.sort(key=_k_of)
    keys = ["reward", "entropy", *(f"{_PASS}{k}" for k in ks), *clipped, *held_out]
    methods = trained_methods(cells, {cells[0].model: title.partition(", ")[2]})
    means = {
        method.label: pd.concat(logs[name] for name in method.policies).groupby("step")[keys].mean()
        for method in methods
    }
    frame = pd.concat(means, names=["method"]).reset_index()
    validated = [key for key in held_out if _k_of(key) <= drawn][-1:]
    panels = ["reward", "entropy", f"{_PASS}{drawn}", *clipped, *validated]
    png = _draw(methods, frame, panels)
    return Picture(
        title,
        _caption(experiment, logs),
        f"Training curves of {title}: reward, entropy and Pass@k at each step",
        data_url(png),
        inches(png, style.DOTS_PER_INCH // 2),
        page_table(f"Training of {title}, step by step", frame, digits=MEASURED),
    )


def _log(experiment: Experiment, cell: str) -> pd.DataFrame:
    path, steps = experiment.training_log(cell), experiment.config.training.steps
    command = experiment.command("train", cell)
    log = read_log(path, steps, f"`{command}` finishes it")
    validations = [
        {
            key.replace(_PASS, _HELD_OUT): value
            for key, value in record.get("validation", {}).items()
            if key.startswith(_PASS)
        }
        for record in log
    ]
    return pd.concat([pd.DataFrame(log), pd.DataFrame(validations)], axis=1)


def _k_of(column: str) -> int:
    return int(column.rpartition("_")[2])


def _caption(experiment: Experiment, logs: dict[str, pd.DataFrame]) -> str:
    average = ", averaged over seeds" if experiment.config.seeds > 1 else ""
    steps, repeated = first_pass(experiment), ""
    if steps < experiment.config.training.steps:
        repeated = (
            f"A pass over the training prompts is {steps} steps: a jump at step {steps + 1} is the "
            "second pass, over prompts that the policy was already trained on. "
        )
    limit, clipping = experiment.config.training.optimizer.gradient_clip, ""
    if limit:
        fractions = {name: log[_CLIPPED].mean() for name, log in logs.items()}
        warning = clipping_warning(fractions, limit)
        clipping = f"Gradients clipped: fraction of the updates. {warning} "
    records = {name: log.to_dict("records") for name, log in logs.items()}
    differing = f"{warning} " if (warning := sampler_warning(records)) else ""
    validated = any(key.startswith(_HELD_OUT) for log in logs.values() for key in log)
    held_out = "Held-out problems: those of data.validation. " if validated else ""
    return (
        "Reward, entropy and Pass@k of the responses of each training step"
        f"{average}; thin: each step; thick: centred moving average; errors are not drawn. "
        f"{repeated}{clipping}{differing}{held_out}{cells_sentence(experiment, list(logs))}"
    )


def _draw(methods: Sequence[Method], frame: pd.DataFrame, panels: Sequence[str]) -> bytes:
    """One panel for each column; a validation has a point wherever there is one."""
    steps = int(frame["step"].max())
    with style.applied():
        picture = style.new_picture(style.TEXT_WIDTH, 2.6)
        for axes, key in zip(picture.subplots(1, len(panels)), panels, strict=True):
            if key.startswith(_HELD_OUT):
                style.draw_lines(axes, frame.dropna(subset=key), methods, "step", key)
            else:
                _smooth_lines(axes, frame, key, methods, steps)
            axes.set(xlabel="training step", title=_title(key))
        style.legend(picture, methods)
        return png_of(picture, style.DOTS_PER_INCH // 2)


def _title(column: str) -> str:
    if column in _LABELS:
        return _LABELS[column]
    problems = "held-out problems" if column.startswith(_HELD_OUT) else "the prompts"
    return f"Pass@{_k_of(column)} of {problems}"


def _smooth_lines(
    axes: Axes, frame: pd.DataFrame, key: str, methods: Sequence[Method], steps: int
) -> None:
    """Thin lines: each step; thick lines: the centred moving average."""
    values = frame.groupby("method")[key]
    smooth = values.transform(lambda column: smoothed(list(column), half_window(steps)))
    table = frame.assign(smooth=smooth)
    for method in methods:
        own = style.rows_of(table, method)
        axes.plot(own["step"], own[key], color=style.line(method)["color"], lw=0.5, alpha=0.3)
    style.draw_lines(axes, table, methods, "step", "smooth", every=max(1, steps // 6))
