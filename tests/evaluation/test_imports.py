"""Short commands, some of which run hundreds of times, import nothing that takes seconds."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from rspo.datasets.prepare import prepare
from tests.support import tiny_world
from tests.support.snakemake_project import make_project

SUITE = "contamination_free"
RSPO = Path(sys.executable).with_name("rspo")
DRAW = {"matplotlib", "seaborn"}
SLOW = {"pandas", "transformers"} | DRAW


def imported(folder: Path, *arguments: str, program: Path = RSPO) -> set[str]:
    """The top-level packages that a command imports."""
    result = subprocess.run(
        [program, *arguments],
        cwd=folder,
        env=os.environ | {"PYTHONPROFILEIMPORTTIME": "1"},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr[-2000:]
    packages = set(re.findall(r"^import time: .*\| +(\w+)$", result.stderr, flags=re.MULTILINE))
    assert "json" in packages
    return packages


def test_sample_score_and_train_of_a_tiny_model_import_no_slow_package(tmp_path: Path) -> None:
    experiment = tiny_world.load_prepared(tmp_path)
    for name in experiment.benchmarks_of(SUITE):
        prepare(experiment, name)
    settings = [f"--set={key}={json.dumps(value)}" for key, value in tiny_world.OVERRIDES.items()]
    for command in (
        ("sample", "small--base", SUITE),
        ("score", "small--base", SUITE),
        ("train", "small--policy-gradient--k1--n16--s0"),
    ):
        assert not imported(tmp_path, *command, *settings) & SLOW, command


def test_verify_and_compare_import_neither_torch_nor_pandas(tmp_path: Path) -> None:
    line = {"problem": "a", "answer": "5", "response": "\\boxed{5}"}
    (tmp_path / "mine.jsonl").write_text(json.dumps(line))
    verdicts = "mine.verdicts.jsonl"
    for command in (
        ("verify", "mine.jsonl", "--verifier=exact"),
        ("compare", verdicts, "mine.jsonl"),
    ):
        assert not imported(tmp_path, *command) & (SLOW | {"torch"}), command


def test_only_jobs_that_draw_import_what_draws(tmp_path: Path) -> None:
    """Neither the help nor the Snakefile with its plan; the job of a figure does."""
    project, snakemake = make_project(tmp_path), RSPO.with_name("snakemake")
    assert not imported(project, "--help") & DRAW
    plan = imported(project, "-n", "reports/fig_intro.pdf", program=snakemake)
    assert "rspo" in plan
    assert not plan & DRAW
    assert imported(project, "figure", "fig_intro") >= DRAW
