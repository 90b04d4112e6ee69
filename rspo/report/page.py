"""Write the report, which is one HTML file, and the results, a Markdown page of docs/.

The templates contain every sentence of the two pages; sentences.jinja has those that both share.
"""

import inspect
from dataclasses import replace
from math import inf, isfinite
from pathlib import Path

import jinja2

from rspo.analysis import pages
from rspo.analysis.study_columns import bases, commits, origins
from rspo.config.experiment import Experiment
from rspo.core.files import atomic_write, write_text
from rspo.evaluation.statistics import LEVEL
from rspo.figures import group
from rspo.pipeline.provenance import WRITTEN
from rspo.pipeline.run import run
from rspo.report import page_data, results_inputs, task, text
from rspo.report.copies import publish

FOLDER = Path(__file__).parent
# The comments of README.md between which its results stand.
BEGIN = "<!-- rspo/report/readme.md.jinja makes these results from docs/results/ -->"
END = "<!-- end of results -->"


def write_report(experiment: Experiment, force: bool = False) -> None:
    """Write the report as one HTML file."""
    report_task = task(experiment)

    def work() -> None:
        page = pages.fill(environment(experiment, html=True), "report.html.jinja", {})
        write_text(report_task.outputs[0], page)

    run(report_task, work, force)


def write_results(experiment: Experiment, page: Path) -> None:
    """Write the results as a Markdown page, with pictures and tables in a folder of its name."""
    folder = page.with_suffix("")
    inputs = results_inputs(experiment)
    copied = [path for path, _ in inputs if path.parent == experiment.files.reports]
    contents = {
        "folder": folder.name,
        "origins": origins(experiment, experiment.cells),
        "bases": bases(experiment, experiment.cells),
        "commits": commits(experiment, experiment.cells),
    }
    content = pages.fill(environment(experiment, html=False), "results.md.jinja", contents)
    with atomic_write(folder) as partial:
        partial.mkdir()
        for file in copied:
            publish(file, partial / file.name)
    write_text(page, content)
    WRITTEN.append(page)


def write_readme(experiment: Experiment, file: Path, tables: Path) -> None:
    """Write the results of README.md between its two comments; without them it stays as it is.

    Args:
        tables: the folder with the tables of the page of results, such as docs/results.
    """
    experiment = replace(experiment, files=replace(experiment.files, reports=tables))
    before, begin, rest = file.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        return
    results = pages.fill(environment(experiment, html=False), "readme.md.jinja", {})
    write_text(file, f"{before}{begin}\n{results}{end}{after}")
    WRITTEN.append(file)


def environment(experiment: Experiment, html: bool) -> jinja2.Environment:
    """The templates of this folder, which call the functions of `page_data` as `data`."""
    templates = pages.environment(FOLDER, html=html)
    templates.filters |= dict(inspect.getmembers(text, inspect.isfunction))
    templates.tests["known"] = isfinite  # `{% if x is known %}`
    templates.globals |= {"experiment": experiment, "config": experiment.config}
    templates.globals |= {"LEVEL": LEVEL, "inf": inf}
    templates.globals |= {"data": page_data, "group": group}
    return templates
