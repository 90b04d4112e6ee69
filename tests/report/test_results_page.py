"""The Markdown page of the results: complete, and every number from the run's files."""

import re
from pathlib import Path

import pytest

from rspo.config.experiment import Experiment
from rspo.core.tables import read_csv
from rspo.figures import in_all
from rspo.report import results_inputs
from rspo.report.page import write_results
from rspo.report.text import table_cell
from tests.support import small_paper


@pytest.fixture
def experiment(small_project: Path) -> Experiment:
    return small_paper.load()


def rows_of(page: str, heading: str) -> list[list[str]]:
    """The cells of the table below a heading, without its head."""
    _, _, below = page.partition(f"\n## {heading}\n")
    lines = [line for line in below.partition("\n## ")[0].splitlines() if line.startswith("|")]
    return [re.split(r" ?(?<!\\)\| ?", line)[1:-1] for line in lines[2:]]


def test_the_page_has_every_figure_and_links_to_files_beside_it(
    experiment: Experiment, tmp_path: Path
) -> None:
    page = tmp_path / "docs" / "results.md"
    write_results(experiment, page)
    links = set(re.findall(r"\]\(([^)]+)\)", page.read_text()))
    assert {f"results/{name}.png" for name in in_all(experiment)} <= links
    for link in links - {"evidence/results.parquet"}:
        assert (page.parent / link).is_file()
    copied = {path for path, _ in results_inputs(experiment) if path.parent.name == "reports"}
    assert {path.name for path in (page.parent / "results").iterdir()} == {p.name for p in copied}
    for original in copied:
        assert (page.parent / "results" / original.name).read_bytes() == original.read_bytes()


def test_the_page_has_the_verdict_of_every_claim(experiment: Experiment, tmp_path: Path) -> None:
    write_results(experiment, tmp_path / "results.md")
    claims = read_csv(experiment.reports / "claims.csv").to_dict("records")
    rows = rows_of((tmp_path / "results.md").read_text(), "Claims")
    assert [row[:3] for row in rows] == [
        [claim["claim"], table_cell(claim["title"]), claim["verdict"].partition(":")[0]]
        for claim in claims
    ]
