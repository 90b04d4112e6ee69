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
from rspo.core.files import write_text
from rspo.core.provenance import WRITTEN, code_version
from rspo.core.replacement import OF_A_NAMED_FILE, Replace
from rspo.core.tables import read_csv
from rspo.figures.captions import full_caption
from rspo.figures.figure import command
from rspo.report import figures, require, results_files, table_path
from rspo.report.sections.claims import claims
from rspo.report.sections.summary import summary

TEMPLATE = Path(__file__).with_name("results.md.jinja")


def write_results(experiment: Experiment, page: Path) -> None:
    """Write the page, and its pictures and tables in a folder of the same name without suffix.

    Raises: InputError for a page that is not named *.md, for a file with other contents that may
        not be replaced, and for missing or bad inputs.
    """
    if page.suffix != ".md":
        raise InputError(f"{page}: expected a name that ends with .md")
    title = f"# Results at the {experiment.scale} scale\n"
    existing = page.read_text(encoding="utf-8", errors="replace") if page.exists() else title
    if experiment.replace is Replace.OUTDATED and not existing.startswith(title):
        raise InputError(f"{page} does not have the results of this scale: {OF_A_NAMED_FILE}")
    require(experiment, results_files(experiment), page)
    environment = jinja2.Environment(
        undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["cell"] = cell
    environment.globals["cell"] = cell
    template = environment.from_string(TEMPLATE.read_text(encoding="utf-8"))
    folder = page.with_suffix("")
    folder.mkdir(parents=True, exist_ok=True)
    for file in results_files(experiment):
        shutil.copyfile(file, folder / file.name)
    write_text(page, template.render(_contents(experiment, page)))
    WRITTEN.append(page)


def _contents(experiment: Experiment, page: Path) -> dict[str, Any]:
    return {
        "scale": experiment.scale,
        "seeds": experiment.config.seeds,
        "command": command(experiment, page),
        "code": code_version(),
        "folder": page.stem,
        "summary": summary(experiment),
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


def cell(text: str) -> str:
    """Text in a cell of a Markdown table."""
    return text.replace("|", "\\|").replace("<", "&lt;")
