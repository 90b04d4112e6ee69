"""`rspo evidence`: add to the evidence of a page of docs/, or make the page without training."""

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from rspo.analysis import evidence, studies
from rspo.analysis.evidence import FOLDER, Evidence
from rspo.analysis.study_columns import log_keys
from rspo.analysis.write import write_claims, write_study
from rspo.config.experiment import Experiment
from rspo.core.errors import InputError
from rspo.datasets.prepare import prepare
from rspo.evaluation.curves import curves
from rspo.figures import figures_of
from rspo.pipeline.cost import write_cost_table
from rspo.pipeline.provenance import WRITTEN
from rspo.pipeline.state import files_behind
from rspo.pipeline.task import Task
from rspo.report import STUDIES, figures, results_inputs
from rspo.report.copies import publish
from rspo.report.page import write_readme, write_results

RESULTS = "results"  # the page with all results; every other page is that of a study
RESULTS_PAGE = Path("docs") / f"{RESULTS}.md"
Action = Literal["add", "page"]
# The folders that commands write into; a temporary project has its own.
_WRITTEN_FOLDERS = {"results", "reports", "docs"}
# The keys of training logs that the page with all results reads; `*` matches any text.
_RESULTS_KEYS = ("step", "entropy", "pass_at_*", "zero_weight", "seconds")


def run(experiment: Experiment, action: Action, page: str, force: bool = False) -> None:
    """Add finished policies to a page's evidence, or make the page.

    Args:
        action: "add" or "page".
        page: `RESULTS` or the name of a study.
        force: as in `evidence.add`.
    """
    file = FOLDER / f"{page}.parquet"
    if action == "page":
        _require_no_other_settings(experiment, file)
        write_page(file)
        return
    files = _files(experiment, page)
    keys, rewards = _read_by(experiment, page)
    for line in evidence.add(file, experiment, files, keys, rewards, force):
        print(line)


def _require_no_other_settings(experiment: Experiment, file: Path) -> None:
    """Raises: InputError for settings of the command line that the evidence does not have."""
    if experiment.overrides and experiment.overrides != Evidence.read(file).overrides:
        raise InputError(
            f"{experiment.option}: the page is made with the settings of {file}; leave it out"
        )


def write_page(file: Path) -> None:
    """Make the page of a file of evidence, in a temporary folder that has no other results."""
    known = Evidence.read(file)
    page = file.stem
    project = Path.cwd()
    with _temporary_project():
        experiment = Experiment.load(known.scale, known.overrides)
        evidence.restore(known, experiment, _files(experiment, page))
        if page == RESULTS:
            _make_results(experiment, project / RESULTS_PAGE)
        else:
            _make_study(experiment, page, project / STUDIES)


def _files(experiment: Experiment, page: str) -> dict[Path, Task]:
    """All files from which the page is made, back to the data, each with its task."""
    if page == RESULTS:
        return files_behind(results_inputs(experiment))
    return files_behind(studies.task(experiment, page).inputs())


def _read_by(experiment: Experiment, page: str) -> tuple[Sequence[str], set[str]]:
    """The keys of training logs that the page reads, and the policies whose rewards it reads."""
    if page != RESULTS:
        keys = ["step"]
        keys += log_keys(studies.study_of(experiment, page))
        return keys, set()
    policies: set[str] = set()
    for grid in experiment.config.grid:
        if any(cell.reward != "binary" for cell in experiment.cells_of(grid)):
            policies.update(experiment.policies_of(grid))
    return _RESULTS_KEYS, policies


def _make_results(experiment: Experiment, page: Path) -> None:
    """Write the page with all results, after everything that follows from restored files."""
    prepare(experiment, "train")
    for policy, suite in experiment.evaluations:
        curves(experiment, policy, suite)
    write_claims(experiment)
    write_cost_table(experiment)
    for figure in figures(experiment):
        figure.write(experiment)
    write_results(experiment, page)
    readme = page.parent.with_name("README.md")
    if readme.is_file():
        write_readme(experiment, readme, page.with_suffix(""))


def _make_study(experiment: Experiment, name: str, folder: Path) -> None:
    """Write the page, the tables and the picture of a study into the folder."""
    write_study(experiment, name)
    figure = figures_of(experiment)[f"fig_{name}"]
    figure.write(experiment)
    copies = {path: path.name for path in studies.task(experiment, name).outputs}
    copies[figure.task(experiment).outputs[1]] = f"{name}.png"
    for source, target in copies.items():
        publish(source, folder / target)
    WRITTEN.append(folder / f"{name}.md")


@contextlib.contextmanager
def _temporary_project() -> Iterator[None]:
    """Work in a copy of the project without results, so that paths in pages are the usual ones.

    The copy has links to everything that pages depend on, such as the config, extensions and the
    templates and published tables of studies.
    """
    project = Path.cwd()
    written = len(WRITTEN)
    with TemporaryDirectory() as folder:
        for entry in project.iterdir():
            if entry.name not in _WRITTEN_FOLDERS and not entry.name.startswith("."):
                os.symlink(entry, Path(folder, entry.name))
        templates = Path(folder, STUDIES)
        templates.mkdir(parents=True)
        for kind in ("*.jinja", "*.csv"):
            for file in (project / STUDIES).glob(kind):
                os.symlink(file, templates / file.name)
        with contextlib.chdir(folder):
            yield
    # Forget the files of the temporary folder, which no longer exist, so that the command does not
    # print them. Their paths are relative.
    WRITTEN[:] = [path for path in WRITTEN[written:] if path.is_absolute()]
