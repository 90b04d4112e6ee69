"""The commands that run hundreds of times start without imports that take seconds."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from rspo.core.tables import SAMPLES, read_table
from rspo.datasets.prepare import prepare
from tests.support import tiny_world

SUITE = "contamination_free"
RSPO = Path(sys.executable).with_name("rspo")
OPTIONS = [
    option
    for key, value in tiny_world.OVERRIDES.items()
    for option in ("--set", f"{key}={json.dumps(value)}")
]


def imported(folder: Path, *arguments: str) -> set[str]:
    """The top-level packages that a command imports."""
    result = subprocess.run(
        [RSPO, *arguments, *OPTIONS],
        cwd=folder,
        env=os.environ | {"PYTHONPROFILEIMPORTTIME": "1"},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr[-2000:]
    return set(re.findall(r"^import time: .*\| +(\w+)$", result.stderr, flags=re.MULTILINE))


def test_sample_score_and_train_of_a_tiny_model_import_no_slow_package(tmp_path: Path) -> None:
    experiment = tiny_world.load_prepared(tmp_path)
    for name in experiment.benchmarks_of(SUITE):
        prepare(experiment, name)
    cell = "small--policy-gradient--k1--n16--s0"
    for command in (
        ("sample", "small--base", SUITE),
        ("score", "small--base", SUITE),
        ("train", cell),
    ):
        packages = imported(tmp_path, *command)
        assert "pyarrow" in packages or command[0] == "train"
        assert not packages & {"pandas", "matplotlib", "transformers"}, command
    assert read_table(experiment.samples("small--base", SUITE, 0), SAMPLES)
    assert experiment.policy(cell).is_dir()
