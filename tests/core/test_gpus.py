"""A job that was given GPUs must not work on the CPU; with the environment of a SLURM job."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from rspo.core.errors import InputError
from rspo.core.gpus import gpu_bytes, require_visible_gpus, require_vllm_on_gpus
from rspo.core.slurm_job import this_job
from rspo.policies.tokenizer import ChatTokenizer
from rspo.policies.vllm_sampler import VllmSampler
from rspo.rewards.xverify.server import serving
from rspo.training.pretraining import make_base_policy
from rspo.training.verl.peak import Peak
from tests.support import paper_scale, tiny_world

LINE = "SLURM job 12 was granted 2 GPUs, but torch sees none: "


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Pretend that this process runs in a job with these GPUs, and without a controller."""
    scontrol = tmp_path / "scontrol"  # the real one would look for its configuration for a minute
    scontrol.write_text("#!/bin/sh\nexit 1\n")
    scontrol.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    def start(devices: str) -> None:
        monkeypatch.setenv("SLURM_JOB_ID", "12")
        monkeypatch.setenv("SLURM_STEP_GPUS", devices)
        this_job.cache_clear()

    yield start
    this_job.cache_clear()


def test_granted_gpus_that_torch_does_not_see_are_an_error(job: Callable[[str], None]) -> None:
    require_visible_gpus()
    job("")
    require_visible_gpus()
    job("0,1")
    with pytest.raises(InputError) as raised:
        require_visible_gpus()
    assert str(raised.value).startswith(LINE)
    assert str(raised.value).endswith("; `make gpu-check` tests the node")
    assert "\n" not in str(raised.value)


def test_gpus_that_torch_sees_are_no_error(
    job: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    job("0,1")
    require_visible_gpus()


@pytest.mark.parametrize(
    ("answer", "size"),
    [
        ("echo 81559; echo 2; echo 5", 81559 * 2**20),
        ("echo '[N/A]'", 0),
        ("true", 0),
        ("echo 5; exit 9", 0),
        (None, 0),
    ],
)
def test_the_memory_of_the_fullest_gpu_is_what_its_driver_tells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str | None, size: int
) -> None:
    words = "--query-gpu=memory.total --format=csv,noheader,nounits"
    if answer is not None:
        tool = tmp_path / "nvidia-smi"
        tool.write_text(f'#!/bin/sh\n[ "$*" = "{words}" ] || exit 2\n{answer}\n')
        tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert gpu_bytes("total") == size


def test_the_memory_is_not_that_of_another_job_on_the_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text('#!/bin/sh\ncase "$*" in *--id=4,5) echo 7;; *) echo 90000;; esac\n')
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5")
    assert gpu_bytes("used") == 7 * 2**20


@pytest.mark.long
def test_vllm_for_cpus_in_a_job_with_gpus_is_an_error(
    job: Callable[[str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would sample and judge on the CPU without a message."""
    experiment = tiny_world.load(tmp_path)
    make_base_policy(experiment, "small")
    folder = experiment.files.policy("small--base")
    settings = paper_scale.load(tmp_path).config.xverify
    assert settings is not None
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    require_vllm_on_gpus()
    job("0,1")
    message = "granted 2 GPUs, but this vLLM is built for CPUs"
    with pytest.raises(InputError, match=message):
        VllmSampler(folder, ChatTokenizer(folder), experiment.config.sampling)
    with pytest.raises(InputError, match=message), serving(settings, tmp_path / "log"):
        pass


def test_a_phase_shorter_than_the_interval_between_looks_has_its_memory() -> None:
    peak = Peak(lambda: 7.0, seconds=60)
    assert [peak.take(), peak.take()] == [7.0, 7.0]
