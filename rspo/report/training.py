"""Training curves of every cell: reward, entropy and Pass@k of each step."""

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from rspo.config.experiment import Cell, Experiment
from rspo.figures import style
from rspo.figures.entropy import half_window
from rspo.figures.methods import Method, trained_methods
from rspo.figures.training_logs import smoothed
from rspo.training.logs import read_log

_PASS = "pass_at_"
_LABELS = {"reward": "mean reward", "entropy": "entropy (nats a token)"}


@dataclass(frozen=True)
class Curves:
    """The training of one comparison's cells of one model.

    cells: their names.
    panels: the keys of training.jsonl that are drawn.
    rows: one for each method and step, mean over seeds.
    picture: PNG.
    """

    title: str
    cells: list[str]
    panels: tuple[str, ...]
    rows: list[dict[str, Any]]
    picture: bytes


def training_curves(experiment: Experiment) -> Iterator[Curves]:
    """One for each comparison and model of the grid that shows other cells than those before.

    Raises: InputError for training logs that are missing or incomplete.
    """
    seen: set[str] = set()
    for grid in experiment.config.grid:
        cells = experiment.cells_of(grid)
        for model in dict.fromkeys(cell.model for cell in cells):
            chosen = [cell for cell in cells if cell.model == model]
            if seen.issuperset(cell.name for cell in chosen):
                continue
            seen.update(cell.name for cell in chosen)
            label = experiment.config.models[model].label
            yield _curves(experiment, f"{grid}, {label}", chosen)


def _curves(experiment: Experiment, title: str, cells: list[Cell]) -> Curves:
    logs = {cell.name: _log(experiment, cell.name) for cell in cells}
    # The largest k that every one of the logs has: it grows with n.
    shared = set.intersection(*(set(log[0]) for log in logs.values()))
    ks = sorted(int(key.removeprefix(_PASS)) for key in shared if key.startswith(_PASS))
    drawn = max((k for k in ks if k <= max(cell.k for cell in cells)), default=ks[-1])
    keys = ["reward", "entropy", *(f"{_PASS}{k}" for k in ks)]
    models = {cell.model: experiment.config.models[cell.model].label for cell in cells}
    methods = trained_methods(cells, models)
    rows = [
        {"method": method.label, "step": step + 1}
        | {key: fmean(logs[name][step][key] for name in method.policies) for key in keys}
        for method in methods
        for step in range(experiment.config.training.steps)
    ]
    panels = ("reward", "entropy", f"{_PASS}{drawn}")
    return Curves(title, list(logs), panels, rows, _picture(methods, rows, panels))


def _log(experiment: Experiment, cell: str) -> list[dict[str, Any]]:
    path, steps = experiment.training_log(cell), experiment.config.training.steps
    return read_log(path, steps, "remake it")


def _picture(
    methods: Sequence[Method], rows: Sequence[dict[str, Any]], panels: Sequence[str]
) -> bytes:
    """Thin lines: each step; thick: the centred moving average."""
    with style.applied():
        picture = style.new_picture(style.TEXT_WIDTH, 2.6)
        for axes, key in zip(picture.subplots(1, len(panels)), panels, strict=True):
            for method in methods:
                values = [row[key] for row in rows if row["method"] == method.label]
                steps, look = range(1, len(values) + 1), style.line(method)
                axes.plot(steps, values, color=look["color"], linewidth=0.5, alpha=0.3)
                # A marker at every sixth of the line tells the lines apart in grey.
                axes.plot(
                    steps,
                    smoothed(values, half_window(len(values))),
                    **look,
                    markevery=max(1, len(values) // 6),
                )
            axes.set_title(_LABELS.get(key, f"Pass@{key.removeprefix(_PASS)} of the prompts"))
            axes.set_xlabel("training step")
        style.legend(picture, methods)
        stream = io.BytesIO()
        dots = style.DOTS_PER_INCH // 2
        picture.savefig(stream, format="png", dpi=dots, metadata={"Software": None})
    return stream.getvalue()
