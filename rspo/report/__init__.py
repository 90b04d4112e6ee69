"""`rspo report`: the whole experiment on one HTML page that opens offline.

Every number on the page is from a file that another command wrote. The same files give the same
page, except for its sections "Cost" and "Provenance", which contain hosts and times
(docs/report.md).

This module does not import jinja2, pandas or matplotlib, because the Snakefile imports it.
"""

from pathlib import Path

from rspo.config.experiment import Experiment
from rspo.figures import Figure, available, figures_of

TABLES = ("curves", "claims", "claim_comparisons", "cost")


def report_path(experiment: Experiment) -> Path:
    """The file that `rspo.report.page.write_report` writes."""
    return experiment.results / "report.html"


def inputs(experiment: Experiment) -> list[Path]:
    """Every file that the report reads; all are required."""
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


def figures(experiment: Experiment) -> list[Figure]:
    """The figures of the scale, results before formulas."""
    every = figures_of(experiment)
    return sorted(
        (every[name] for name in available(experiment)), key=lambda figure: not figure.of_results
    )


def figure_files(experiment: Experiment, figure: Figure) -> list[Path]:
    """The picture and the numbers of a figure."""
    files = {path.suffix: path for path in figure.outputs(experiment)}
    return [files[".png"], files[".csv"]]


def table_path(experiment: Experiment, name: str) -> Path:
    return experiment.results / "tables" / f"{name}.csv"


def readable(experiment: Experiment) -> list[tuple[str, str]]:
    """Each benchmark with the policy whose responses are shown: (policy, benchmark).

    The policy is the first RSPO cell, or else the first cell, of the first grid entry on the suite.
    """
    pairs = []
    for suite in experiment.config.data.suites:
        entries = [name for name, entry in experiment.config.grid.items() if entry.suite == suite]
        if entries:
            cells = experiment.cells_of(entries[0])
            cell = next((cell for cell in cells if cell.objective.startswith("rspo")), cells[0])
            pairs += [(cell.name, benchmark) for benchmark in experiment.benchmarks_of(suite)]
    return pairs
