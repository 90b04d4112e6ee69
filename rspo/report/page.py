"""The page put together: everything read, then one template filled in."""

import base64
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
import yaml

from rspo.config import fingerprints
from rspo.config.experiment import Experiment
from rspo.core.errors import InputError
from rspo.core.files import write_text
from rspo.core.provenance import write_provenance
from rspo.core.trace import read_provenance
from rspo.figures import Figure, style
from rspo.figures.captions import cells_sentence, full_caption
from rspo.figures.inputs import command
from rspo.figures.training_logs import first_pass
from rspo.report import figure_files, figures, inputs, report_path, table_path
from rspo.report.claims import claims
from rspo.report.errata import errata
from rspo.report.headlines import headlines
from rspo.report.main_table import Row, Shown, number, read_csv, shown
from rspo.report.origins import cost, provenance
from rspo.report.samples import readings
from rspo.report.training import Curves, training_curves

TEMPLATE = Path(__file__).with_name("template.html")


@dataclass(frozen=True)
class Picture:
    """A picture in the page.

    source: data URL.
    inches: width on paper, at which its small print is 7 pt.
    """

    name: str
    caption: str
    alternative: str
    source: str
    inches: float
    numbers: Shown


def write_page(experiment: Experiment) -> None:
    """Raises: InputError if an input is missing or is not what it should be."""
    _require(experiment)
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    template = environment.from_string(TEMPLATE.read_text())
    path = report_path(experiment)
    write_text(path, template.render(_contents(experiment)))
    write_provenance(path, fingerprints.settings(experiment, "report"), inputs(experiment))


def _require(experiment: Experiment) -> None:
    missing = [path for path in inputs(experiment) if not path.exists()]
    if missing:
        names = "".join(f"\n  {path}" for path in missing)
        raise InputError(
            f"the report needs {len(missing)} files that are not there; "
            f"`{command(experiment, experiment.reports / 'report.html')}` makes them:{names}"
        )


def _contents(experiment: Experiment) -> dict[str, Any]:
    config = experiment.config.model_dump(mode="json", exclude_none=True)
    return {
        "scale": experiment.scale,
        "headlines": headlines(experiment),
        "claims": claims(experiment),
        "seeds": experiment.config.seeds,
        "figures": [_figure(experiment, figure) for figure in figures(experiment)],
        "training": [_training(experiment, curves) for curves in training_curves(experiment)],
        "tables": _tables(experiment),
        "readings": list(readings(experiment)),
        "config": yaml.safe_dump(config, sort_keys=False, allow_unicode=True, width=90),
        "errata": errata(),
        "cost": cost(experiment),
        "provenance": provenance(experiment),
    }


def _figure(experiment: Experiment, figure: Figure) -> Picture:
    image, numbers = figure_files(experiment, figure)
    note = read_provenance(numbers) or {"settings": {}}
    meanings = note["settings"].get("columns", {})
    table = shown(f"Every number of {figure.name}", read_csv(numbers), meanings=meanings)
    content = image.read_bytes()
    return Picture(
        figure.name,
        full_caption(experiment, figure),
        figure.caption.partition(";")[0],
        _data_url(content),
        _inches(content, style.DOTS_PER_INCH),
        table,
    )


def _training(experiment: Experiment, curves: Curves) -> Picture:
    average = ", averaged over seeds" if experiment.config.seeds > 1 else ""
    caption = (
        "Reward, entropy and Pass@k at each training step, from the responses that the step was "
        f"trained on{average}; thin: each step; thick: its centred moving average; no error is "
        f"drawn. {_passes(experiment)}{cells_sentence(experiment, curves.cells)}"
    )
    return Picture(
        curves.title,
        caption,
        f"Training curves of {curves.title}: reward, entropy and Pass@k against the step",
        _data_url(curves.picture),
        _inches(curves.picture, style.DOTS_PER_INCH // 2),
        shown(f"Training of {curves.title}, step by step", curves.rows),
    )


def _passes(experiment: Experiment) -> str:
    """Where the prompts come again, which reads as if the policy had got better at once."""
    steps = first_pass(experiment)
    if steps == experiment.config.training.steps:
        return ""
    return (
        f"A pass over the training prompts is {steps} steps: a jump at step {steps + 1} is the "
        "second pass, of prompts that were trained on before. "
    )


def _data_url(png: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(png).decode()}"


def _inches(png: bytes, dots_per_inch: int) -> float:
    """Width on paper; a PNG's width in dots stands at bytes 16 to 20."""
    (width,) = struct.unpack(">I", png[16:20])
    return round(float(width) / dots_per_inch, 2)


def _tables(experiment: Experiment) -> list[Shown]:
    """The curves of every policy: pooled over benchmarks by metric, and then all there is."""
    columns = ("cell", "benchmark", "metric", "k", "estimate", "low", "high", "suite")
    rows = read_csv(table_path(experiment, "curves"), *columns)
    pooled = [row for row in rows if row["benchmark"] == "pooled"]
    kinds = dict.fromkeys((row["metric"], row["suite"]) for row in pooled)
    return [
        *(
            _by_k(*kind, [row for row in pooled if (row["metric"], row["suite"]) == kind])
            for kind in kinds
        ),
        shown("The curves of every policy on every benchmark: tables/curves.csv", rows),
    ]


def _by_k(metric: str, suite: str, rows: list[Row]) -> Shown:
    name = {"pass_at_k": "Pass@", "max_at_k": "Max@"}[metric]
    ks = list(dict.fromkeys(row["k"] for row in rows))
    policies = dict.fromkeys(row["cell"] for row in rows)
    cells = {(row["cell"], row["k"]): row for row in rows}
    return Shown(
        f"{name}k of every policy, all problems of the suite {suite} pooled",
        ["policy", *(f"{name}{k}" for k in ks)],
        [[policy, *(_rounded(cells[policy, k]["estimate"]) for k in ks)] for policy in policies],
    )


def _rounded(value: str) -> str:
    return f"{float(value):.3f}" if number(value) != "nan" else value
