"""The patches of private parts of Snakemake; `test_workflow` and `test_grace` test the others."""

import asyncio
import json
import logging
import os
import shlex
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
import snakemake_executor_plugin_slurm as plugin

from rspo.slurm.snakemake_patches import PATCHES, Patch, normalize_states_of_sacct
from tests.support import ROOT, tiny_world
from tests.support.snakemake_project import SMALL_WORLD, jobs, make_project, snakemake

CELL = "small--rspo-pass--k4--n8--s0"


@pytest.mark.parametrize("patch", PATCHES, ids=lambda patch: patch.name)
def test_a_new_version_requires_a_look_at_the_patch(patch: Patch) -> None:
    assert version(patch.package) == patch.version, (
        f"rspo.slurm.snakemake_patches.{patch.name} was written for {patch.package} "
        f"{patch.version}. Check that the problem in its docstring still exists (upstream issue: "
        f"{patch.issue}) and that the private names listed there still mean the same; then update "
        "the version."
    )


def test_states_of_sacct_are_normalized(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugin, "query_job_status", plugin.query_job_status)  # restored afterwards
    normalize_states_of_sacct()
    assert "query_job_status" in plugin.Executor.check_active_jobs.__code__.co_names
    logger = logging.getLogger("test of states")
    sacct = shlex.join(["printf", r"12|CANCELLED by 1000\n13|RUNNING\n14|\n"])
    states, _ = asyncio.run(plugin.query_job_status(sacct, logger))
    assert states == {"12": "CANCELLED", "13": "RUNNING", "14": ""}
    assert asyncio.run(plugin.query_job_status("false", logger)) == (None, None)


def test_a_cell_finished_without_its_snakemake_is_not_trained_again(
    tmp_path: Path,
) -> None:
    """Snakemake's record has other settings; `rspo train` renews it."""
    folder = make_project(tmp_path / "project")
    shutil.copytree(ROOT / "slurm", folder / "slurm")
    target = f"results/tiny/cells/{CELL}/policy"
    assert snakemake(folder, target, "--config", *SMALL_WORLD).returncode == 0
    training = tiny_world.OVERRIDES["training"] | {"steps": 3}
    changed = [item for item in SMALL_WORLD if not item.startswith("training")]
    changed.append(f"training={json.dumps(training)}")
    plan = ["-n", target, "--config", *changed]
    assert jobs(snakemake(folder, *plan))["train"] == 1
    overrides = tiny_world.OVERRIDES | {"training": training}
    sets = [f"--set={key}={json.dumps(value)}" for key, value in overrides.items()]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "rspo.cli", "train", CELL, *sets]
    subprocess.run(command, cwd=folder, env=environment, check=True)
    done = snakemake(folder, *plan)
    assert "Nothing to be done" in done.stdout + done.stderr
    # With the earlier settings, the cell is out of date.
    assert jobs(snakemake(folder, "-n", target, "--config", *SMALL_WORLD)).get("train", 0) == 1
