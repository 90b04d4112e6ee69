"""`rspo report`: the whole experiment on one page that opens offline.

Everything on it is read from files that other steps made; nothing is computed twice. The same
files give the same page but for its sections "Cost" and "Provenance", which tell of hosts and times
(docs/report.md).

Importing this package imports no template engine and no matplotlib: the Snakefile reads `inputs`.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from rspo.figures import Figure, available, figures_of

if TYPE_CHECKING:
    from rspo.config.experiment import Experiment

TABLES = ("curves", "claims", "claim_comparisons", "cost")


def report_path(experiment: "Experiment") -> Path:
    """Where `write_report` writes."""
    return experiment.results / "report.html"


def inputs(experiment: "Experiment") -> list[Path]:
    """Every file that the report reads: nothing of it is optional."""
    return [
        *(path for figure in figures(experiment) for path in figure_files(experiment, figure)),
        *(table_path(experiment, name) for name in TABLES),
        *(experiment.training_log(cell) for cell in experiment.cells),
        experiment.problems("train"),
        *(
            path
            for policy, benchmark in readable(experiment)
            for path in (
                experiment.problems(benchmark),
                *experiment.sample_files(policy, benchmark),
                *experiment.score_files(policy, benchmark),
            )
        ),
    ]


def figures(experiment: "Experiment") -> list[Figure]:
    """Those of the scale, results before formulas."""
    every = figures_of(experiment)
    found = [every[name] for name in available(experiment)]
    return sorted(found, key=lambda figure: not figure.of_results)


def figure_files(experiment: "Experiment", figure: Figure) -> list[Path]:
    """The picture and the numbers of a figure."""
    files = {path.suffix: path for path in figure.outputs(experiment)}
    return [files[".png"], files[".csv"]]


def table_path(experiment: "Experiment", name: str) -> Path:
    return experiment.results / "tables" / f"{name}.csv"


def readable(experiment: "Experiment") -> list[tuple[str, str]]:
    """Each benchmark with the policy whose responses are shown.

    It is the first RSPO cell, or else the first cell, of the first comparison on the suite.
    """
    pairs = []
    for suite in experiment.config.data.suites:
        grids = (grid for grid, found in experiment.config.grid.items() if found.suite == suite)
        grid = next(grids, None)
        if grid is not None:
            cells = experiment.cells_of(grid)
            cell = next((cell for cell in cells if cell.objective.startswith("rspo")), cells[0])
            pairs += [(cell.name, benchmark) for benchmark in experiment.benchmarks_of(suite)]
    return pairs


def write_report(experiment: "Experiment") -> None:
    """Write the report as one HTML file.

    Raises: InputError if a file that it needs is missing or is not what it should be.
    """
    from rspo.report.page import write_page  # here, because it imports matplotlib and jinja2

    write_page(experiment)
