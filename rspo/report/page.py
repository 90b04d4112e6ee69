"""Fill in the templates: of the report, one HTML file, and of the results, a Markdown page.

The templates have every sentence, sentences.jinja those of both pages.
"""

import inspect
import shutil
from math import inf, isfinite
from pathlib import Path

import jinja2

from rspo.analysis import pages
from rspo.analysis.trainings import bases, origins
from rspo.config.experiment import Experiment
from rspo.core.files import atomic_write, write_text
from rspo.evaluation.statistics import LEVEL
from rspo.pipeline.provenance import WRITTEN, read_provenance
from rspo.pipeline.run import run
from rspo.report import read, results_inputs, task, text

FOLDER = Path(__file__).parent


def write_report(experiment: Experiment, force: bool = False) -> None:
    """Write the report as one HTML file."""
    made = task(experiment)

    def work() -> None:
        page = pages.fill(environment(experiment, html=True), "report.html.jinja", {})
        write_text(made.outputs[0], page)

    run(made, work, force)


def write_results(experiment: Experiment, page: Path) -> None:
    """Write the Markdown page, with its pictures and tables in a folder named like it."""
    folder = page.with_suffix("")
    inputs = results_inputs(experiment)
    copied = [path for path, _ in inputs if path.parent == experiment.reports]
    commits = {note["git_commit"] for file in copied if (note := read_provenance(file))}
    contents = {
        "folder": folder.name,
        "origins": origins(experiment, experiment.cells),
        "bases": bases(experiment, experiment.cells),
        "commits": sorted(commits),
    }
    content = pages.fill(environment(experiment, html=False), "results.md.jinja", contents)
    with atomic_write(folder) as partial:
        partial.mkdir()
        for file in copied:
            shutil.copyfile(file, partial / file.name)
    write_text(page, content)
    WRITTEN.append(page)


def environment(experiment: Experiment, html: bool) -> jinja2.Environment:
    """The templates of this folder, which read the tables by the functions of `read`."""
    found = pages.environment(FOLDER, html=html)
    found.filters |= dict(inspect.getmembers(text, inspect.isfunction))
    found.tests["known"] = isfinite
    found.globals |= {"experiment": experiment, "config": experiment.config}
    found.globals |= {"LEVEL": LEVEL, "inf": inf}
    found.globals["read"] = read
    return found
