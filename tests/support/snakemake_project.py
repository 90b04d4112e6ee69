"""A copy of the project in a fresh folder, and Snakemake in it."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.support import ROOT, tiny_world

PROGRAMS = Path(sys.executable).parent  # `snakemake` and `rspo` of the environment under test
SMALL_WORLD = [f"{key}={json.dumps(value)}" for key, value in tiny_world.OVERRIDES.items()]


def make_project(folder: Path) -> Path:
    """Copy the Snakefile and all that it reads; returns the folder."""
    for name in ("config", "workflow", "profiles", "envs"):
        shutil.copytree(ROOT / name, folder / name)
    shutil.copy(ROOT / "Snakefile", folder)
    return folder


def snakemake(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `snakemake ARGUMENTS` in a project."""
    return subprocess.run(
        [PROGRAMS / "snakemake", *arguments],
        cwd=folder,
        env=os.environ | {"PATH": f"{PROGRAMS}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=500,
    )


def jobs(done: subprocess.CompletedProcess[str]) -> dict[str, int]:
    """Number of jobs of each rule that a dry run lists."""
    assert done.returncode == 0, done.stderr
    counts = re.findall(r"^(\w+) +(\d+)$", done.stdout + done.stderr, flags=re.MULTILINE)
    return {rule: int(count) for rule, count in counts}
