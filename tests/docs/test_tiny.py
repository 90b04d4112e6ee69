"""docs/tiny.md: its table of studies has the trainings of the config."""

import re

from rspo.config.experiment import Experiment
from tests.support import ROOT

ROW = re.compile(r"^\| \[`(\w+)`\].* \| (\d+) \| (\d+) \| \d+ \|$", re.MULTILINE)


def test_the_table_of_studies_has_the_trainings_of_the_config() -> None:
    """All of a study, and those of them that `all` with five seeds or a row above has trained."""
    experiment = Experiment.load("tiny", root=ROOT)
    trained = set(Experiment.load("tiny", {"seeds": 5}, root=ROOT).cells)
    rows = ROW.findall((ROOT / "docs" / "tiny.md").read_text())
    assert {name for name, *_ in rows} == set(experiment.config.studies)
    for name, every, known in rows:
        cells = {cell.name for cell in experiment.cells_of(name)}
        cells = {cell for cell in cells if not experiment.is_derived(cell)}
        assert (name, int(every), int(known)) == (name, len(cells), len(cells & trained))
        trained |= cells
