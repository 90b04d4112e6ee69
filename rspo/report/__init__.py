"""`rspo report`: the whole experiment on one HTML page that opens offline.

Every number on the page comes from a file that another command wrote (docs/report.md). This module
plans which files these are; `rspo.report.page` writes the page.

This module imports neither jinja2 nor matplotlib, because the Snakefile imports it.
"""

from pathlib import Path

from rspo.analysis import claims
from rspo.config.experiment import Experiment
from rspo.figures import Figure, figures_of, in_all
from rspo.pipeline import tasks
from rspo.pipeline.task import Task

STUDIES = Path("docs/studies")  # has the published tables of studies
# The studies whose results the report has, too: own learning rates, and other papers' objectives.
OWN_RATES = "own_rates"
PEERS = "peers"
PUBLISHED = ("learning_rates", OWN_RATES, PEERS)  # those of whose published tables it reads some


def task(experiment: Experiment) -> Task:
    """`rspo report`: writes report.html."""
    published = []
    for study in PUBLISHED:
        published += published_tables(experiment, study)
    return tasks.report(experiment, published=published, inputs=lambda: _inputs(experiment))


def published_tables(experiment: Experiment, study: str) -> list[Path]:
    """The published tables of a study, which come with the project: comparisons, and methods.

    Returns: none for a scale without this study, and before both are published.
    """
    if study not in experiment.config.studies:
        return []
    folder = experiment.root / STUDIES
    tables = [folder / f"{study}.csv", folder / f"{study}_methods.csv"]
    return tables if all(path.is_file() for path in tables) else []


def _inputs(experiment: Experiment) -> list[tuple[Path, Task]]:
    """Every file that the report reads; all are required."""
    shown = readable(experiment)
    benchmarks = dict.fromkeys(benchmark for _, benchmark in shown)
    suites = dict.fromkeys((policy, experiment.suite_of(benchmark)) for policy, benchmark in shown)
    # A file comes before those that are written from it, so that a message names the cause.
    inputs = [tasks.first_output(tasks.prepare(experiment, name)) for name in benchmarks]
    inputs += [tasks.log_input(experiment, cell) for cell in experiment.cells]
    for policy, suite in suites:
        inputs += tasks.scored_inputs(experiment, policy, suite)
    inputs += results_inputs(experiment)
    return inputs


def results_inputs(experiment: Experiment) -> list[tuple[Path, Task]]:
    """The files that the page of results reads; all are required.

    The page copies those of them that are in the folder `reports`.
    """
    inputs = []
    for figure in figures(experiment):
        task = figure.task(experiment)
        inputs += [(path, task) for path in task.outputs[1:]]  # .png and .csv
    inputs += tasks.every_curve(experiment)
    for task in (claims.task(experiment), tasks.cost(experiment)):
        inputs += [(path, task) for path in task.outputs]
    return inputs


def figures(experiment: Experiment) -> list[Figure]:
    """The figures of the scale, results before formulas."""
    every = figures_of(experiment)
    drawn = [every[name] for name in in_all(experiment)]
    return sorted(drawn, key=lambda figure: not figure.of_results)


def readable(experiment: Experiment) -> list[tuple[str, str]]:
    """Each policy whose responses are shown, with each of its benchmarks: (policy, benchmark).

    For each suite, these are policies of the first grid entry that has this suite: its first RSPO
    cell, or its first cell if it has no RSPO, and its first policy gradient.
    """
    suites: dict[str, list[str]] = {}
    for name, entry in experiment.config.grid.items():
        cells = experiment.cells_of(name)
        rspo_cells = [cell for cell in cells if cell.objective.startswith("rspo")]
        shown = rspo_cells[:1] or cells[:1]
        shown += [cell for cell in cells if cell.objective == "policy_gradient"][:1]
        # A later entry on the same suite does not replace the first one.
        suites.setdefault(entry.suite, list(dict.fromkeys(cell.name for cell in shown)))
    return [
        (policy, benchmark)
        for suite in experiment.config.data.suites
        if suite in suites
        for benchmark in experiment.benchmarks_of(suite)
        for policy in suites[suite]
    ]
