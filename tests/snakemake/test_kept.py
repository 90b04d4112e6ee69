"""What a job that fails, or a killed Snakemake, leaves behind is kept if it is whole."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from rspo.core.files import digest
from rspo.pipeline.provenance import provenance_path, read_provenance
from tests.support.snakemake_project import PROGRAMS, jobs, snakemake

Done = subprocess.CompletedProcess[str]
CELL = "small--rspo-pass--k4--n8--s0"
FOLDER = Path("results/tiny/cells", CELL)
PROBLEMS = Path("results/tiny/problems/linear.parquet")
# What the command of a rule does, by a `sitecustomize` of its Python.
SITE = """\
import atexit, os, sys
if {command!r} in sys.orig_argv and any(word.endswith("/rspo") for word in sys.orig_argv):
    {action}
"""
KILL_SNAKEMAKE_AT_ONCE = 'os.kill(int(os.environ["RSPO_SNAKEMAKE"].split()[0]), 9)'
KILL_SNAKEMAKE = f"atexit.register(lambda: {KILL_SNAKEMAKE_AT_ONCE})"
FAIL_AT_THE_END = "atexit.register(lambda: os._exit(3))"
FAIL_AT_ONCE = "os._exit(3)"
FAIL_BEFORE_THE_PROVENANCE = """\
import rspo.pipeline.run as run
    def fail(*_): os._exit(3)
    run.write_provenance = fail"""
FAIL_BETWEEN_THE_OUTPUTS = """\
import rspo.training.train as train
    def fail(*_): os._exit(3)
    train.write_json_lines = fail"""


def run_with(project: Path, command: str, action: str, *words: str) -> Done:
    """Run Snakemake with another behaviour of one `rspo` command; returns what it printed."""
    folder = project / "site"
    folder.mkdir(exist_ok=True)
    (folder / "sitecustomize.py").write_text(SITE.format(command=command, action=action))
    return subprocess.run(
        [str(PROGRAMS / "snakemake"), *words],
        env=os.environ | {"PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
    )


def test_a_result_is_complete_though_snakemake_was_killed_before_it_noticed(project: Path) -> None:
    before = digest(PROBLEMS)
    PROBLEMS.unlink()
    assert run_with(project, "prepare", KILL_SNAKEMAKE, str(PROBLEMS)).returncode == -9
    assert list(Path(".snakemake/incomplete").iterdir())
    assert digest(PROBLEMS) == before
    done = snakemake(project, "-n", str(PROBLEMS))
    assert "Nothing to be done" in done.stdout
    done = snakemake(
        project, "-n", str(PROBLEMS), "--config", "set=data.train.generated.problems=11"
    )
    assert "Nothing to be done" in done.stdout


@pytest.mark.parametrize("part", [0, 0.9])
def test_a_result_that_is_not_whole_is_made_again_after_a_kill(project: Path, part: float) -> None:
    PROBLEMS.unlink()
    assert run_with(project, "prepare", KILL_SNAKEMAKE, str(PROBLEMS)).returncode == -9
    os.truncate(PROBLEMS, int(part * PROBLEMS.stat().st_size))
    assert jobs(snakemake(project, "-n", str(PROBLEMS))) == {"prepare": 1, "total": 1}


def test_a_job_that_fails_after_its_end_keeps_its_result(project: Path) -> None:
    before = digest(PROBLEMS)
    PROBLEMS.unlink()
    done = run_with(project, "prepare", FAIL_AT_THE_END, str(PROBLEMS))
    assert done.returncode == 1
    assert "incomplete" not in done.stdout + done.stderr  # as Snakemake would call them
    assert digest(PROBLEMS) == before
    assert "Nothing to be done" in snakemake(project, "-n", str(PROBLEMS)).stdout


def test_an_output_without_provenance_of_a_job_that_failed_is_made_again(project: Path) -> None:
    PROBLEMS.unlink()
    provenance_path(PROBLEMS).unlink()
    assert run_with(project, "prepare", FAIL_BEFORE_THE_PROVENANCE, str(PROBLEMS)).returncode == 1
    assert PROBLEMS.exists()
    assert jobs(snakemake(project, "-n", str(PROBLEMS))) == {"prepare": 1, "total": 1}


def records_of(log: Path) -> list[dict[str, object]]:
    """Without what was measured in seconds."""
    records = [json.loads(line) for line in log.read_text().splitlines()]
    times = {"seconds", "tokens_per_second"}
    return [{key: record[key] for key in record if key not in times} for record in records]


def test_a_training_that_ends_between_its_outputs_resumes_after_its_last_step(
    project: Path,
) -> None:
    policy, log = FOLDER / "policy", FOLDER / "training.jsonl"
    before, records = digest(policy), records_of(log)
    shutil.rmtree(policy)
    for path in (log, provenance_path(policy), provenance_path(log)):
        path.unlink()
    assert run_with(project, "train", FAIL_BETWEEN_THE_OUTPUTS, str(log)).returncode == 1
    assert policy.exists()
    assert not log.exists()
    done = snakemake(project, str(log))
    assert done.returncode == 0, done.stderr
    assert (
        f"{CELL} resumes from step 6 of 6"
        in Path("results/tiny/logs/train", f"{CELL}.log").read_text()
    )
    assert digest(policy) == before
    assert records_of(log) == records
    assert not (FOLDER / "checkpoint").exists()
    assert len(read_provenance(policy)["processes"]) == 2


FIGURE = Path("reports/fig_main.pdf")
LABEL = ["--config", "set=models.small.label=Little"]


@pytest.mark.parametrize(
    "action",
    [
        FAIL_AT_ONCE,
        KILL_SNAKEMAKE_AT_ONCE,
    ],
)
def test_a_figure_stays_until_the_new_one_is_whole(project: Path, action: str) -> None:
    files = [FIGURE.with_suffix(suffix) for suffix in (".pdf", ".png", ".csv")]
    before = [digest(file) for file in files]
    assert run_with(project, "figure", action, str(FIGURE), *LABEL).returncode != 0
    assert [digest(file) for file in files] == before
    done = snakemake(project, "-n", str(FIGURE), *LABEL)
    assert jobs(done) == {"figure": 1, "total": 1}  # it is still to be made
    done = snakemake(project, str(FIGURE), *LABEL)
    assert done.returncode == 0, done.stderr
    assert digest(FIGURE) != before[0]
    assert "Nothing to be done" in snakemake(project, "-n", str(FIGURE), *LABEL).stdout
