"""A project with finished results and the workflow."""

import os
import shutil
from pathlib import Path

import pytest

from tests.support import ROOT


@pytest.fixture
def project(small_project: Path) -> Path:
    """`small_project` with the Snakefile, as the current folder."""
    for name in ("workflow", "profiles"):
        shutil.copytree(ROOT / name, small_project / name)
    shutil.copy(ROOT / "Snakefile", small_project)
    for policy in Path("results/tiny/cells").glob("*/policy"):  # as Snakemake does
        stamp, made = policy / ".snakemake_timestamp", policy.stat()
        stamp.touch()
        for path in (stamp, policy):
            os.utime(path, ns=(made.st_atime_ns, made.st_mtime_ns))
    return small_project
