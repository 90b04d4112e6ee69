"""The patches of private parts of Snakemake; `test_workflow` and `test_grace` test the others."""

import os
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
import yaml

from tests.support import ROOT
from tests.support.processes import LONGEST_WAIT

CELL = "small--rspo-pass--k4--n8--s0"


def test_a_new_version_of_snakemake_requires_a_look_at_the_patches() -> None:
    assert version("snakemake") == "9.27.1", (
        "Check for each function of rspo/slurm/snakemake_patches.py, and for check_every_plan of "
        "rspo/snakemake/plan_check.py, that the problem in its docstring still exists, and that "
        "the private names in it still mean the same; then change this version."
    )


@pytest.mark.parametrize(
    "text",
    [
        "{device: cpu, ranks: 1, overrides: {a: {b: 1610612736, c: 1.0e-5, d: null, e: false}}}",
        "{\n  steps: 2,\n  validation: {every: 1}\n}",
    ],
)
def test_config_has_the_types_of_set(text: str) -> None:
    """On the command line, and in the words that Snakemake passes to its jobs."""
    from snakemake import cli

    import snakemake_logger_plugin_rspo  # noqa: F401  # as Snakemake does

    value = yaml.safe_load(text)
    of_jobs = [f"verl={text}"]
    cli.parse_config(of_jobs)
    assert "\n" not in of_jobs[0]
    assert cli.parse_config(of_jobs) == {"verl": value}
    dotted = [f"models.small.verl={text}", "models.small.label=x"]
    assert cli.parse_config(dotted) == {"models": {"small": {"verl": value, "label": "x"}}}


# `target` needs `early` only through an `ancient` input of `middle`.
ANCIENT = """\
from rspo.slurm.snakemake_patches import plan_jobs_behind_ancient_inputs
plan_jobs_behind_ancient_inputs()
rule target:
    input: "middle"
    output: "target"
    shell: "touch {output}"
rule middle:
    input: ancient("early")
    output: "middle"
    params: config["middle"]
    shell: "touch {output}"
rule early:
    output: "early"
    params: config["early"]
    shell: "touch {output}"
"""


@pytest.mark.parametrize(
    ("made", "middle", "planned"),
    [
        ("early", 1, {"early", "middle", "target"}),
        ("target", 1, {"early"}),
        ("target", 2, {"early", "middle", "target"}),
    ],
    ids=["target missing", "only the ancient input changed", "settings changed too"],
)
def test_jobs_behind_a_changed_ancient_input_are_planned(
    tmp_path: Path, made: str, middle: int, planned: set[str]
) -> None:
    (tmp_path / "Snakefile").write_text(ANCIENT)

    def run(target: str, *config: str, options: tuple[str, ...] = ()) -> str:
        command = [sys.executable, "-m", "snakemake", "--cores=1", *options, target]
        done = subprocess.run(
            [*command, "--config", *config],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout + done.stderr

    run(made, "early=1", "middle=1")
    output = run("target", "early=2", f"middle={middle}", options=("-n",))
    assert set(re.findall(r"^rule (\w+):", output, flags=re.M)) == planned


MANY = """\
import threading
from rspo.slurm.snakemake_patches import keep_one_timer
keep_one_timer()
rule target:
    input: [f"{number}.done" for number in range(12)]
rule one:
    output: "{number}.done"
    shell: "sleep 0.05; touch {output}"
onsuccess:
    timers = [one for one in threading.enumerate() if isinstance(one, threading.Timer)]
    print("timers:", len(timers))
"""


def test_one_timer_starts_the_jobs_that_wait_for_the_rate_limit(tmp_path: Path) -> None:
    (tmp_path / "Snakefile").write_text(MANY)
    done = subprocess.run(
        [sys.executable, "-m", "snakemake", "--cores=1", "--max-jobs-per-timespan=6/1s"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
        timeout=LONGEST_WAIT,
    )
    (count,) = re.findall(r"^timers: (\d+)$", done.stdout, flags=re.M)
    assert int(count) <= 1
