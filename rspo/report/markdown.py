"""`rspo results`: the results as a Markdown page for a repository, with pictures and small tables.

The report has more (training curves, sample responses, provenance) in one large HTML file.
"""

import shutil
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd

from rspo.config.experiment import Experiment
from rspo.core.errors import InputError
from rspo.core.files import atomic_write, write_text
from rspo.core.provenance import WRITTEN, read_provenance
from rspo.core.tables import read_csv
from rspo.figures.captions import full_caption
from rspo.figures.figure import command
from rspo.report import (
    RESULTS_PAGE,
    figures,
    require,
    results_files,
    results_inputs,
    table_path,
)
from rspo.report.sections.claims import claims
from rspo.report.sections.headline import headline
from rspo.report.sections.summary import summary
from rspo.report.sections.unresolved import unresolved

TEMPLATE = Path(__file__).with_name("results.md.jinja")


def write_results(experiment: Experiment, page: Path, force: bool = False) -> None:
    """Write the page, and its pictures and tables in a folder of the same name without suffix.

    Raises: InputError for a page that must not be written there, and for missing or bad inputs.
    """
    _require_place(experiment, page, force)
    inputs = results_inputs(experiment)
    require(experiment, [path for path, _ in inputs], RESULTS_PAGE)
    for path, made in inputs:
        made.require_output(path)
    environment = jinja2.Environment(
        undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["cell"] = escape_table_cell
    environment.globals["cell"] = escape_table_cell
    template = environment.from_string(TEMPLATE.read_text(encoding="utf-8"))
    folder = page.with_suffix("")
    text = template.render(_contents(experiment, folder.name))
    with atomic_write(folder) as partial:
        partial.mkdir()
        for file in results_files(experiment):
            shutil.copyfile(file, partial / file.name)
    write_text(page, text)
    WRITTEN.append(page)


def _require_place(experiment: Experiment, page: Path, force: bool) -> None:
    """Raises: InputError for a page that is not named *.md or would replace something else."""
    if page.suffix != ".md":
        raise InputError(f"{page}: expected a name that ends with .md")
    folder = page.with_suffix("").resolve()
    for results in (experiment.results, experiment.reports):
        place = results.resolve()
        if folder.is_relative_to(place) or place.is_relative_to(folder):
            raise InputError(
                f"{page}: its pictures would replace {page.with_suffix('')}; choose a page "
                f"outside {results}"
            )
    title = f"# Results at the {experiment.scale} scale\n"
    existing = page.read_text(encoding="utf-8", errors="replace") if page.exists() else title
    if not (force or existing.startswith(title)):
        raise InputError(
            f"{page} does not have the results of this scale: name another file, or replace it "
            "with --force"
        )


def _contents(experiment: Experiment, folder: str) -> dict[str, Any]:
    notes = [read_provenance(file) for file in results_files(experiment)]
    return {
        "scale": experiment.scale,
        "seeds": experiment.config.seeds,
        "command": command(experiment, RESULTS_PAGE),
        "commits": sorted({note["git_commit"] for note in notes if note}),
        "folder": folder,
        "headline": headline(experiment),
        "summary": summary(experiment),
        "unresolved": unresolved(experiment),
        "claims": claims(experiment),
        "cost": _cost(experiment),
        "figures": [
            {
                "name": figure.name,
                "caption": full_caption(experiment, figure),
                "alternative": figure.caption.partition(";")[0],
            }
            for figure in figures(experiment)
        ],
    }


def _cost(experiment: Experiment) -> list[tuple[str, str]]:
    """Hours of all processes, as (name, value)."""
    seconds = ["cpu_seconds", "gpu_seconds"]
    frame = read_csv(table_path(experiment, "cost"), *seconds)
    sums = frame[seconds].apply(pd.to_numeric).sum() / 3600
    return [
        ("Processor time", f"{sums['cpu_seconds']:.1f} hours"),
        *([("GPU time", f"{sums['gpu_seconds']:.1f} hours")] if sums["gpu_seconds"] else []),
    ]


def escape_table_cell(text: str) -> str:
    """Text in a cell of a Markdown table."""
    return text.replace("|", "\\|").replace("<", "&lt;")
