"""A user adds the objective of docs/add/objective.md after the gradients were measured."""

import json
from pathlib import Path

import pytest

from rspo.core.tables import GRADIENTS, read_table
from tests.support import ROOT, pages
from tests.support.snakemake_project import SMALL_WORLD, jobs, make_project, snakemake

pytestmark = pytest.mark.ci

GRADIENTS_OF = "results/tiny/cells/small--base/gradients.parquet"
SETTINGS = {"prompts": 2, "responses": 16, "n": 8, "k": [2], "groupings": 1}


def test_gradients_are_planned_again_for_a_new_objective(tmp_path: Path) -> None:
    folder = make_project(tmp_path / "project")
    target = [GRADIENTS_OF, "--config", *SMALL_WORLD, f"gradients={json.dumps(SETTINGS)}"]
    done = snakemake(folder, *target)
    assert done.returncode == 0, done.stderr
    assert "gradients" not in jobs(snakemake(folder, "-n", *target))
    source = pages.blocks(ROOT / "docs" / "add" / "objective.md")[0]
    (folder / "top_two_mean.py").write_text(source.text)
    target.append('extensions=["top_two_mean.py"]')
    assert jobs(snakemake(folder, "-n", *target)) == {"gradients": 1, "total": 1}
    done = snakemake(folder, *target)
    assert done.returncode == 0, done.stderr
    rows = read_table(folder / GRADIENTS_OF, GRADIENTS)
    assert "top_two_mean" in {row["objective"] for row in rows}
