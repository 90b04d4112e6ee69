"""`snakemake --profile slurm` from nothing to figures, on a real SLURM of three nodes.

About a minute on two idle cores. test_rehearsal.py has cells through verl.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support import slurm_world
from tests.support.slurm_cluster import Cluster
from tests.support.snakemake_project import setting

pytestmark = [pytest.mark.long, pytest.mark.slurm]
NODES = 3  # of the fixture `cluster`
# The shells between Snakemake and its jobs read quotes and dollar signs.
LABEL = 'it\'s "$HOME"'
SETTINGS = {"training": {"steps": 7}, "models": {"small": {"label": LABEL}}}
CONFIG = ["scale=tiny", setting(SETTINGS)]


@pytest.fixture(scope="module")
def grid(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project in which two cells were trained, evaluated and plotted on the cluster.

    The precommand of the profile writes the environment of each job to a file.
    """
    project = slurm_world.make_project(tmp_path_factory.mktemp("grid"))
    profile = project / "slurm" / "config.yaml"
    first = 'precommand: "export HF_HUB_OFFLINE=1'
    text = profile.read_text()
    assert text.count(f'{first}"') == 1
    # The shell of the plugin removes the backslash; the shell of the job inserts the number.
    more = r" && env > \\$SLURM_JOB_ID.environment"
    profile.write_text(text.replace(f'{first}"', f'{first}{more}"'))
    status, output = slurm_world.run(
        cluster, project, slurm_world.FIGURE, "--jobs=4", config=CONFIG
    )
    assert status == 0, output
    return project


def note_of(project: Path, cell: str) -> dict[str, Any]:
    path = project / "results" / "tiny" / "cells" / cell / "policy.provenance.json"
    note: dict[str, Any] = json.loads(path.read_text())
    return note


def test_jobs_have_the_nested_settings_of_the_command_line(grid: Path) -> None:
    assert note_of(grid, slurm_world.CELLS[0])["settings"]["training"]["steps"] == 7
    note = json.loads((grid / slurm_world.FIGURE).with_suffix(".csv.provenance.json").read_text())
    assert note["settings"]["models"] == {"small": LABEL}


@pytest.mark.parametrize("cell", slurm_world.CELLS)
def test_each_training_job_was_granted_eight_h800s(grid: Path, cluster: Cluster, cell: str) -> None:
    """As the job itself saw it, and as the controller did."""
    granted = note_of(grid, cell)["slurm"]
    assert granted["gpus"] == "gpu:h800:8"
    assert granted["gpu_count"] == 8
    assert granted["nodes"] in cluster.nodes
    job = cluster.job(granted["number"])
    assert job["JOB_GRES"] == "gpu:h800:8"
    assert job["Comment"] == f"rule_train_wildcards_{cell}"
    assert job["JobName"].startswith("rspo_")
    (log,) = (grid / "logs" / "slurm" / "rule_train" / cell).iterdir()
    assert log.stem == granted["number"]


def test_evaluations_have_one_gpu_other_jobs_none_and_downloads_run_outside_slurm(
    grid: Path,
) -> None:
    results = grid / "results" / "tiny"
    cell = results / "cells" / slurm_world.CELLS[0]
    for place, gpus in (("samples/standard/0", "gpu:h800:1"), ("curves/standard", "")):
        note = json.loads((cell / f"{place}.parquet.provenance.json").read_text())
        assert note["slurm"]["gpus"] == gpus
    for name in ("problems/train.parquet", "cells/small--base/policy"):
        assert json.loads((results / f"{name}.provenance.json").read_text())["slurm"] is None


def test_no_job_connects_to_the_hub(grid: Path) -> None:
    environments = [path.read_text().splitlines() for path in grid.glob("*.environment")]
    assert all("HF_HUB_OFFLINE=1" in environment for environment in environments)
    # Cells trained; policies sampled, scored, made curves; the check of a node of each partition.
    assert len(environments) == 2 + 3 * 3 + 2


def test_the_figure_is_drawn_and_a_second_run_submits_nothing(grid: Path, cluster: Cluster) -> None:
    for suffix in ("pdf", "png", "csv"):
        assert (grid / slurm_world.FIGURE).with_suffix(f".{suffix}").stat().st_size > 0
    status, output = slurm_world.run(cluster, grid, slurm_world.FIGURE, config=CONFIG)
    assert status == 0
    assert "Nothing to be done" in output
