"""`rspo evidence`: the evidence of a page of docs/, and the page from it without training."""

import contextlib
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from rspo.analysis import evidence, studies
from rspo.analysis.evidence import FOLDER, Evidence
from rspo.analysis.trainings import log_keys
from rspo.analysis.write import write_claims, write_study
from rspo.config.experiment import Experiment
from rspo.core.files import atomic_write
from rspo.datasets.prepare import prepare
from rspo.evaluation.curves import curves
from rspo.figures import figures_of
from rspo.pipeline.cost import write_cost_table
from rspo.pipeline.provenance import WRITTEN
from rspo.pipeline.state import files_behind
from rspo.pipeline.task import Task
from rspo.report import figures, results_inputs
from rspo.report.page import write_results

RESULTS = "results"  # the page with all results; the others are studies
RESULTS_PAGE = Path("docs") / f"{RESULTS}.md"
STUDIES = Path("docs") / "studies"
Action = Literal["add", "page"]
_OWN = {"results", "reports", "docs"}  # folders that a page is made in
# Of training logs, where * is any text.
_RESULTS_KEYS = ("step", "entropy", "pass_at_*", "zero_weight", "seconds")


def run(experiment: Experiment, action: Action, page: str, force: bool = False) -> None:
    """Add finished policies to a page's evidence, or make the page.

    page: `RESULTS` or a study.
    """
    file = FOLDER / f"{page}.parquet"
    if action == "page":
        write_page(file)
        return
    files, (keys, rewards) = _files(experiment, page), _read_by(experiment, page)
    for line in evidence.add(file, experiment, files, keys, rewards, force):
        print(line)


def write_page(file: Path) -> None:
    """Make a page from its evidence, in a temporary folder that has no other results."""
    known, page, project = Evidence.read(file), file.stem, Path.cwd()
    with _temporary_project():
        experiment = Experiment.load(known.scale, known.overrides)
        evidence.restore(known, experiment, _files(experiment, page))
        if page == RESULTS:
            _make_results(experiment, project / RESULTS_PAGE)
        else:
            _make_study(experiment, page, project / STUDIES)


def _files(experiment: Experiment, page: str) -> dict[Path, Task]:
    """What the page is made from, back to the data."""
    if page == RESULTS:
        return files_behind(results_inputs(experiment))
    return files_behind(studies.task(experiment, page).inputs())


def _read_by(experiment: Experiment, page: str) -> tuple[Sequence[str], set[str]]:
    """The keys of training logs, and the policies whose rewards the page reads."""
    if page != RESULTS:
        return ("step", *log_keys(studies.study_of(experiment, page))), set()
    of_rewards = {
        policy
        for grid in experiment.config.grid
        if any(cell.reward != "binary" for cell in experiment.cells_of(grid))
        for policy in experiment.policies_of(grid)
    }
    return _RESULTS_KEYS, of_rewards


def _make_results(experiment: Experiment, page: Path) -> None:
    prepare(experiment, "train")
    for policy, suite in experiment.evaluations:
        curves(experiment, policy, suite)
    write_claims(experiment)
    write_cost_table(experiment)
    for figure in figures(experiment):
        figure.write(experiment)
    write_results(experiment, page)


def _make_study(experiment: Experiment, name: str, folder: Path) -> None:
    write_study(experiment, name)
    figure = figures_of(experiment)[f"fig_{name}"]
    figure.write(experiment)
    made = [(path, path.name) for path in studies.task(experiment, name).outputs]
    made += [(figure.task(experiment).outputs[1], f"{name}.png")]
    for source, target in made:
        with atomic_write(folder / target) as partial:
            shutil.copyfile(source, partial)
    WRITTEN.append(folder / f"{name}.md")


@contextlib.contextmanager
def _temporary_project() -> Iterator[None]:
    """Work in a copy of the project without results, so that paths in pages are the usual ones."""
    project = Path.cwd()
    written = len(WRITTEN)
    with TemporaryDirectory() as folder:
        for entry in project.iterdir():
            if entry.name not in _OWN and not entry.name.startswith("."):
                os.symlink(entry, Path(folder, entry.name))
        templates = Path(folder, STUDIES)
        templates.mkdir(parents=True)
        for template in (project / STUDIES).glob("*.jinja"):
            os.symlink(template, templates / template.name)
        with contextlib.chdir(folder):
            yield
    WRITTEN[:] = [path for path in WRITTEN[written:] if path.is_absolute()]
