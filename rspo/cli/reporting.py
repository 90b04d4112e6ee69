"""The commands of the panel Figures and report."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from rspo.cli.command import command
from rspo.cli.options import Force, has_config, load_experiment
from rspo.core.errors import InputError

if TYPE_CHECKING:
    from rspo.config.experiment import Experiment

PANEL = "Figures and report"
# Of the results that are files (`rspo.status.targets`), so that other files need no config.
_SUFFIXES = (".parquet", ".jsonl", ".csv", ".html", ".pdf", ".png")
_FOLDERS = ("policy", "model")  # the names of results that are folders (`rspo.config.files`)


@command(PANEL, "rspo claims")
def claims(experiment: "Experiment", force: Force = False) -> None:
    """Check the claims of the paper on all scores and training logs."""
    from rspo.analysis.write import write_claims

    write_claims(experiment, force)


@command(PANEL, "rspo study peers")
def study(
    experiment: "Experiment",
    name: Annotated[str, typer.Argument(help="A study, such as peers.", metavar="STUDY")],
    force: Force = False,
) -> None:
    """Write the tables and the page of a study, a comparison beyond the paper's."""
    from rspo.analysis.write import write_study

    write_study(experiment, name, force)


@command(PANEL, "rspo figure fig_scalability")
def figure(
    experiment: "Experiment",
    name: Annotated[str, typer.Argument(help="A figure of the config, such as fig_scalability.")],
    force: Force = False,
) -> None:
    """Draw one figure as PDF, PNG and CSV."""
    from rspo.figures import draw

    draw(experiment, name, force)


@command(PANEL, "rspo report")
def report(experiment: "Experiment", force: Force = False) -> None:
    """Write the report page from the results that exist."""
    from rspo.report.page import write_report

    write_report(experiment, force)


@command(PANEL, "rspo evidence add peers", "rspo evidence page peers")
def evidence(
    experiment: "Experiment",
    action: Annotated[
        Literal["add", "page"],
        typer.Argument(help="add: take finished policies. page: write the page."),
    ],
    page: Annotated[str, typer.Argument(help="results, or a study.")],
    force: Force = False,
) -> None:
    """Keep what a page of docs/ rests on in one small file, and make the page from it."""
    from rspo.report import published

    published.run(experiment, action, page, force)


@command(PANEL, "rspo trace reports/fig_scalability.pdf --depth 1")
def trace(
    file: Annotated[Path, typer.Argument(help="Any result, such as reports/fig_main.pdf.")],
    depth: Annotated[
        int | None, typer.Option(min=0, help="Levels of inputs to show. Default: all.")
    ] = None,
) -> Iterable[str]:
    """Show how a file was made: code, settings and inputs, back to the data."""
    from rspo.pipeline.trace import trace

    if not file.name:  # such as "."
        raise InputError(f"{file}: expected a result, such as reports/fig_main.pdf")
    if not _is_made(file):
        _require_made(file)
    return trace(file, depth)


def _is_made(file: Path) -> bool:
    """Whether a file or folder exists, and the record of how it was made."""
    from rspo.pipeline.provenance import provenance_path

    return file.exists() and provenance_path(file).exists()


def _require_made(file: Path) -> None:
    """Raises: InputError that names the result that was meant, or the command that makes it."""
    from rspo.pipeline.provenance import provenance_path
    from rspo.status.targets import inside, target_meant

    for folder in file.parents[:-1]:  # without the last one, which is "." or "/"
        if file.exists() and provenance_path(folder).exists():
            raise InputError(f"{file}: is part of a result: `rspo trace {folder}` shows it")
    if file.is_dir() and file.name not in _FOLDERS:
        if provenance_path(file / "policy").exists():
            raise InputError(f"{file}: is a folder; did you mean {file / 'policy'}?")
        raise InputError(f"{file} is a folder; name a file in it")
    if file.is_file() and file.suffix not in _SUFFIXES:
        return
    target = target_meant(file, load_experiment()) if has_config(None) else None
    if target is None:
        return
    meant = Path(target.path)
    is_made = _is_made(meant)
    if file.exists() and is_made:  # such as a copy of a figure
        raise InputError(f"{file}: has no provenance; did you mean {target.path}?")
    if file.exists():
        raise InputError(f"{file}: has no provenance; `{target.command}` makes a file that has it")
    if not is_made:
        raise InputError(f"{file}: is not made; `{target.command}` makes it")
    if meant != inside(file):
        raise InputError(f"{file}: no such file or folder; did you mean {target.path}?")
