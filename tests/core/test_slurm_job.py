"""What SLURM granted to the job of this process, as a fake `scontrol` tells it."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from rspo.core.slurm_job import Job, host_name, name_of_this_job, this_job

ANSWER = "JobId=12 JobName=train NodeList=node[1-2] {} Command=/a=b TimeLimit=1:00"


class Controller:
    """A fake `scontrol`, which answers only the words that ask for all of job 12 on one line."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def answer(self, line: str, status: int = 0) -> None:
        self.file.write_text(
            "#!/bin/sh\n"
            '[ "$*" = "--details --oneliner show job 12" ] || exit 2\n'
            f"echo '{line}'\nexit {status}\n"
        )
        self.file.chmod(0o755)
        this_job.cache_clear()


@pytest.fixture
def controller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Controller]:
    """The controller of SLURM, for a process in job 12."""
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("SLURM_JOB_ID", "12")
    monkeypatch.setenv("SLURM_STEP_GPUS", "0,1,2")
    monkeypatch.setenv("SLURMD_NODENAME", "node1")
    yield Controller(tmp_path / "scontrol")
    this_job.cache_clear()


@pytest.mark.parametrize(
    ("word", "gpus", "count"),
    [
        ("JOB_GRES=gpu:h800:8", "gpu:h800:8", 8),
        ("JOB_GRES=gpu:16", "gpu:16", 16),
        ("JOB_GRES=gpu:h800:8,gpu:a100:4,license:2", "gpu:h800:8,gpu:a100:4,license:2", 12),
        ("JOB_GRES=(null)", "", 0),
        ("", "", 0),
    ],
)
def test_a_job_has_the_gpus_that_the_controller_tells(
    controller: Controller, word: str, gpus: str, count: int
) -> None:
    """Those of all nodes, not those of the step on this node."""
    controller.answer(ANSWER.format(word))
    assert this_job() == Job("12", "node[1-2]", gpus, count)


@pytest.mark.parametrize(("devices", "count"), [("0,1,2", 3), ("", 0), (None, 0)])
def test_a_job_without_an_answer_has_the_gpus_of_its_environment(
    controller: Controller, monkeypatch: pytest.MonkeyPatch, devices: str | None, count: int
) -> None:
    controller.answer(ANSWER.format("JOB_GRES=gpu:8"), status=1)
    if devices is None:
        monkeypatch.delenv("SLURM_STEP_GPUS")
    else:
        monkeypatch.setenv("SLURM_STEP_GPUS", devices)
    assert this_job() == Job("12", "node1", "", count)


def test_a_job_without_nodes_is_no_error(controller: Controller) -> None:
    """As the controller answers about a job that it does not know any more."""
    controller.answer("")
    assert this_job() == Job("12", "", "", 0)


def test_messages_name_the_job_and_the_node(
    controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert name_of_this_job() == "SLURM job 12"
    assert host_name() == "node1"
    monkeypatch.delenv("SLURMD_NODENAME")
    assert host_name() == os.uname().nodename


def test_outside_slurm_there_is_no_job_and_nothing_is_asked(
    controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    controller.answer(ANSWER.format("JOB_GRES=gpu:8"))
    monkeypatch.delenv("SLURM_JOB_ID")
    assert this_job() is None
    assert name_of_this_job() == ""
