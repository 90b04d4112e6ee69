"""A project with finished results and the workflow."""

import json
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
    for file in Path("results").glob("**/*.provenance.json"):
        # The tests' process made all of them, which may have run for a long time.
        note = json.loads(file.read_text())
        file.write_text(json.dumps(note | {"wall_seconds": 1.0}))
    for policy in Path("results/tiny/cells").glob("*/policy"):  # as Snakemake does
        stamp, made = policy / ".snakemake_timestamp", policy.stat()
        stamp.touch()
        for path in (stamp, policy):
            os.utime(path, ns=(made.st_atime_ns, made.st_mtime_ns))
    return small_project
