"""The patches of private parts of Snakemake; `test_workflow` and `test_grace` test the others."""

import os
import re
import signal
import subprocess
import sys
import threading
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
import yaml
from snakemake.resources import Resources
from snakemake.scheduling.job_scheduler import JobScheduler
from snakemake.settings.types import ResourceSettings

from rspo.core.slurm_job import host_name
from rspo.slurm.snakemake_patches import (
    PATCHES,
    Patch,
    look_for_jobs_once_a_second,
    remove_locks_of_killed_runs,
    share_resources,
)
from tests.support import ROOT
from tests.support.processes import wait_until

CELL = "small--rspo-pass--k4--n8--s0"


@pytest.mark.parametrize("patch", PATCHES, ids=lambda patch: patch.name)
def test_a_new_version_requires_a_look_at_the_patch(patch: Patch) -> None:
    assert version(patch.package) == patch.version, (
        f"rspo.slurm.snakemake_patches.{patch.name} was written for {patch.package} "
        f"{patch.version}. Check that the problem in its docstring still exists (upstream issue: "
        f"{patch.issue}) and that the private names listed there still mean the same; then update "
        "the version."
    )


@pytest.mark.parametrize(
    "text",
    [
        "{device: cpu, nodes: 1, overrides: {a: {b: 1610612736, c: 1.0e-5, d: null, e: false}}}",
        '{server_arguments: [--max-model-len, "8192"]}',
        "{\n  steps: 2,\n  validation: {every: 1}\n}",
        "[rules, xverify]",
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


# After 20 short jobs, a job of three seconds runs while another one waits for its core.
BUSY = """\
from rspo.slurm.snakemake_patches import look_for_jobs_once_a_second
from snakemake.scheduling.job_scheduler import JobScheduler
look_for_jobs_once_a_second()
select, looks = JobScheduler.job_selector, []
def count(scheduler, jobs):
    looks.append(jobs)
    return select(scheduler, jobs)
JobScheduler.job_selector = count
onsuccess:
    print("looks:", len(looks))
rule last:
    input: "long1", "long2"
rule long:
    input: expand("short{i}", i=range(20))
    output: "long{j}"
    shell: "sleep 3; touch {output}"
rule short:
    output: "short{i}"
    shell: "touch {output}"
"""


def test_the_scheduler_does_not_look_more_often_after_every_job(tmp_path: Path) -> None:
    (tmp_path / "Snakefile").write_text(BUSY)
    done = subprocess.run(
        [sys.executable, "-m", "snakemake", "--cores=1", "--scheduler=greedy"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    (looks,) = re.findall(r"looks: (\d+)", done.stdout + done.stderr)
    assert 22 <= int(looks) < 60  # 100 without the patch


def test_the_scheduler_looks_again_after_a_look_that_scheduled_the_next_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Restored afterwards.
    monkeypatch.setattr(JobScheduler, "_schedule_reevalutation", None)
    look_for_jobs_once_a_second()
    looks, done = [], threading.Event()

    def release() -> None:
        looks.append(len(looks))
        if len(looks) == 3:
            done.set()
        else:
            JobScheduler._schedule_reevalutation(scheduler, 0.01)

    scheduler = SimpleNamespace(_open_jobs=SimpleNamespace(release=release))
    JobScheduler._schedule_reevalutation(scheduler, 0.01)
    JobScheduler._schedule_reevalutation(scheduler, 0.01)  # one look is pending already
    assert done.wait(10)
    assert looks == [0, 1, 2]


# Runs a slow rule; as the Snakefile does, it removes the locks of killed runs first.
LOCKED = """\
from rspo.slurm.snakemake_patches import record_holder_of_locks, remove_locks_of_killed_runs
remove_locks_of_killed_runs()
record_holder_of_locks()
rule slow:
    output: "made"
    shell: "touch started; sleep {seconds}; touch made"
"""


def test_only_the_lock_of_a_killed_snakemake_is_removed(tmp_path: Path) -> None:
    snakefile = tmp_path / "Snakefile"
    snakefile.write_text(LOCKED.replace("{seconds}", "60"))
    command = [sys.executable, "-m", "snakemake", "--cores=1"]
    options: dict[str, Any] = {"cwd": tmp_path, "env": os.environ | {"PYTHONPATH": str(ROOT)}}
    output = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    first = subprocess.Popen(command, start_new_session=True, **options)
    try:
        wait_until((tmp_path / "started").exists)
        snakefile.write_text(LOCKED.replace("{seconds}", "0"))
        second = subprocess.run(command, **options, **output)
        assert "cannot be locked" in second.stdout
    finally:
        os.killpg(first.pid, signal.SIGKILL)
        first.wait()
    third = subprocess.run(command, **options, **output)
    assert third.returncode == 0, third.stdout
    assert "rspo: removed the lock of a killed Snakemake from this folder" in third.stdout


_THIS = f"{host_name()} {os.getpid()} {psutil.Process().create_time()}\n"
_ENDED = f"{host_name()} {2**22 + 1} 0\n"  # above the kernel's highest process ID
_REUSED = f"{host_name()} {os.getpid()} 0\n"  # the ID of an ended process


@pytest.mark.parametrize(
    ("holder", "kept"),
    [
        (f"elsewhere {2**22 + 1} 0\n", True),
        (_ENDED, False),
        (_REUSED, False),
        (_THIS, True),
        (_THIS + _ENDED, True),
        (_ENDED + _ENDED, False),
        (None, True),
    ],
    # All processes of the tests must collect the same names.
    ids=[
        "other host",
        "ended",
        "reused ID",
        "running",
        "one is running",
        "both ended",
        "no record",
    ],
)
def test_only_locks_of_an_ended_process_on_this_host_are_removed(
    tmp_path: Path, holder: str | None, kept: bool
) -> None:
    lock, record = tmp_path / "locks" / "0.output.lock", tmp_path / "rspo.lock"
    lock.parent.mkdir()
    lock.touch()
    if holder is not None:
        record.write_text(holder)
    remove_locks_of_killed_runs(record)
    assert lock.exists() == kept
    assert record.exists() == (kept and holder is not None)


def test_a_record_is_removed_before_another_host_can_lock(tmp_path: Path) -> None:
    """Otherwise this host would take that lock for the one of the recorded process."""
    record = tmp_path / "rspo.lock"
    record.write_text(_ENDED)
    remove_locks_of_killed_runs(record)
    assert not record.exists()


def test_rules_of_a_suite_share_an_entry_and_their_own_takes_precedence() -> None:
    own = {"sample": {"mem_mb": 1, "gpu": 1}, "sample_math": {"mem_mb": 2}}
    workflow = SimpleNamespace(resource_settings=ResourceSettings(overwrite_resources=own))
    share_resources(workflow, "sample", ["sample_math", "sample_code"])
    resources = Resources.from_mapping({"mem_mb": 9, "gpu": 9})
    for rule, expected in (("sample_math", (2, 1)), ("sample_code", (1, 1))):
        # As Snakemake does for a rule.
        resources.update(workflow.resource_settings._parsed_overwrite_resources[rule])
        assert (resources["mem_mb"].value, resources["gpu"].value) == expected
