"""The targets of trials, such as `snakemake stress`, run by Snakemake with the tiny models."""

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support import ROOT, slurm_world
from tests.support.snakemake_project import PROGRAMS

CELL = {"model": "small", "objective": "rspo_pass_at_k", "k": 4, "n": 16, "variant": "stress"}
TRIALS: dict[str, Any] = {
    "variants": {"stress": {"training": {"steps": 2}}},
    "trials": {
        "stress": {"cells": [CELL], "checks": ["sampler"]},
        "hopeless": {"cells": [CELL], "checks": ["seconds"], "step_seconds": 1e-9},
    },
}


def snakemake(project: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [PROGRAMS / "snakemake", *words, "--cores=2"],
        cwd=project,
        env=environment,
        capture_output=True,
        text=True,
    )


@pytest.mark.ci
def test_each_target_checks_its_own_trial_and_fails_once_if_that_fails(tmp_path: Path) -> None:
    project = slurm_world.make_project(tmp_path / "project", **TRIALS)
    done = snakemake(project, "stress")
    output = done.stdout + done.stderr
    assert done.returncode == 0, output
    assert re.findall("^trial .*", output, re.MULTILINE) == ["trial stress of scale tiny: go"]
    done = snakemake(project, "hopeless", "--retries=2")
    output = done.stdout + done.stderr
    assert done.returncode == 1
    line = "trial hopeless of scale tiny: no go: 1 of 1 checks failed"
    assert re.findall("^trial .*", output, re.MULTILINE) == [line]
