"""`rspo report`: the whole experiment on one HTML page that opens offline.

Every number on the page is from a file that another command wrote. The same files give the same
page, except for its sections "Cost" and "Provenance", which contain hosts and times
(docs/report.md).

This module does not import jinja2, pandas or matplotlib, because the Snakefile imports it.
"""

from collections.abc import Iterable
from pathlib import Path

from rspo.config.experiment import Experiment
from rspo.core.errors import InputError
from rspo.figures import Figure, figures_of, in_all
from rspo.figures.figure import command

TABLES = ("curves", "claims", "claim_comparisons", "cost")
SMALL_TABLES = ("claims", "claim_comparisons")  # beside the Markdown page
RESULTS_PAGE = Path("docs") / "results.md"  # the Markdown page of this repository


def report_path(experiment: Experiment) -> Path:
    """The file that `rspo.report.page.write_report` writes."""
    return experiment.results / "report.html"


def inputs(experiment: Experiment) -> list[Path]:
    """Every file that the report reads; all are required."""
    return [
        *results_inputs(experiment),
        table_path(experiment, "contamination"),
        table_path(experiment, "answers"),
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


def results_files(experiment: Experiment) -> list[Path]:
    """The files that `rspo.report.markdown.write_results` copies; all are required."""
    return _figures_and_tables(experiment, SMALL_TABLES)


def results_inputs(experiment: Experiment) -> list[Path]:
    """The files that `rspo.report.markdown.write_results` reads; all are required."""
    return _figures_and_tables(experiment, TABLES)


def _figures_and_tables(experiment: Experiment, tables: Iterable[str]) -> list[Path]:
    return [
        *(path for figure in figures(experiment) for path in figure_files(experiment, figure)),
        *(table_path(experiment, name) for name in tables),
    ]


def require(experiment: Experiment, files: Iterable[Path], page: Path) -> None:
    """Raises: InputError that lists the missing files, and the command that makes the page."""
    missing = [path for path in files if not path.exists()]
    if missing:
        names = "".join(f"\n  {path}" for path in missing)
        raise InputError(
            f"{page.name} needs {len(missing)} missing files; `{command(experiment, page)}` makes "
            f"them:{names}"
        )


def figures(experiment: Experiment) -> list[Figure]:
    """The figures of the scale, results before formulas."""
    every = figures_of(experiment)
    return sorted(
        (every[name] for name in in_all(experiment)), key=lambda figure: not figure.of_results
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
