"""The time that a process and its finished children used."""

import os
import subprocess
import sys
import time

import pytest

from rspo.core.slurm_job import Job
from rspo.pipeline import usage
from rspo.pipeline.usage import usage_so_far


@pytest.fixture(autouse=True)
def own_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURMD_NODENAME", "node7")
    monkeypatch.setattr(usage, "this_job", lambda: None)


def test_usage_names_its_process_and_outside_slurm_counts_the_given_seconds_of_gpus() -> None:
    result = usage_so_far(1.234)
    assert (result.job, result.host, result.process) == ("", "node7", os.getpid())
    assert result.gpu_seconds == 1.23
    assert usage_so_far().gpu_seconds == 0


def test_wall_time_begins_with_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage, "_STARTED", time.time() - 1000.123)
    assert usage_so_far().wall_seconds == pytest.approx(1000.12, abs=5)
    seconds = usage_so_far().wall_seconds
    assert seconds == round(seconds, 2)


def test_cpu_time_is_that_of_the_process_and_its_finished_children() -> None:
    own = time.process_time()
    before = usage_so_far().cpu_seconds
    assert before >= own - 0.02
    code = "import time\nwhile time.process_time() < 0.5: pass"
    subprocess.run([sys.executable, "-c", code], check=True)
    used_here = time.process_time() - own
    assert usage_so_far().cpu_seconds - before >= 0.48
    assert usage_so_far().cpu_seconds - before < 0.5 + used_here + 5


def test_a_slurm_job_uses_all_of_its_gpus_for_as_long_as_it_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(usage, "this_job", lambda: Job("12", "node7", "gpu:8", 8))
    monkeypatch.setattr(usage, "_STARTED", time.time() - 100)
    result = usage_so_far(1.0)
    assert result.job == "12"
    assert result.gpu_seconds == pytest.approx(8 * result.wall_seconds, abs=0.1)
    assert result.gpu_seconds >= 800
