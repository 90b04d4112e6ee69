"""A job that was given GPUs must not work on the CPU; with the environment of a SLURM job."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from rspo.core import gpus
from rspo.core.errors import InputError
from rspo.core.gpus import (
    gpu_bytes,
    gpu_name,
    peak_flops,
    require_visible_gpus,
    require_vllm_on_gpus,
)
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


class FakeNvml(ModuleType):
    """Stands in for pynvml: GPUs with these sizes, whose memory is half used."""

    NVMLError = type("NVMLError", (Exception,), {})
    nvmlMemory_v2 = 2  # used memory without what the driver reserves, as in nvidia-smi

    def __init__(self, sizes: list[int], broken: str = "") -> None:
        super().__init__("pynvml")
        self.sizes, self.broken = sizes, broken
        self.calls: list[str] = []

    def _call(self, name: str) -> None:
        self.calls.append(name)
        if name == self.broken:
            raise self.NVMLError(name)

    def nvmlInit(self) -> None:
        self._call("init")

    def nvmlDeviceGetCount(self) -> int:
        self._call("count")
        return len(self.sizes)

    def nvmlDeviceGetHandleByIndex(self, number: int) -> int:
        self._call("handle")
        return number

    def nvmlDeviceGetHandleByUUID(self, name: str) -> int:
        self._call("handle")
        return int(name.removeprefix("GPU-"))

    def nvmlDeviceGetName(self, handle: int) -> str:
        self._call("name")
        return f"GPU {handle}"

    def nvmlDeviceGetMemoryInfo(self, handle: int, version: int) -> SimpleNamespace:
        self._call("memory")
        assert version == self.nvmlMemory_v2
        total = self.sizes[handle]
        return SimpleNamespace(total=total, used=total // 2)


@pytest.fixture
def no_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Starting a process is an error."""

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a process was started")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    gpus._devices.cache_clear()
    yield
    gpus._devices.cache_clear()


@pytest.mark.usefixtures("no_process")
def test_the_memory_of_the_fullest_gpu_is_read_without_a_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A training asks several times in each step."""
    nvml = FakeNvml([5 * 2**30, 80 * 2**30, 2**30])
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    assert gpu_bytes("total") == 80 * 2**30
    assert gpu_bytes("used") == 40 * 2**30
    assert nvml.calls.count("init") == 1


@pytest.mark.parametrize("broken", ["init", "count", "handle", "memory"])
@pytest.mark.usefixtures("no_process")
def test_a_driver_that_does_not_answer_is_no_memory(
    monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    nvml = FakeNvml([2**30], broken)
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    assert gpu_bytes("total") == 0
    nvml.broken = ""  # it answers again
    assert gpu_bytes("total") == 2**30


@pytest.mark.parametrize(
    ("name", "peak"),
    [
        ("NVIDIA H800", 989e12),
        ("NVIDIA H100 80GB HBM3", 989e12),
        ("NVIDIA H200", 989e12),
        ("NVIDIA A100-SXM4-80GB", 312e12),
        ("NVIDIA GeForce RTX 4090", 165e12),
        ("NVIDIA H100 PCIe", None),
        ("NVIDIA H100 NVL", None),
        ("NVIDIA H100 80GB HBM3 MIG 3g.40gb", None),  # a part of the GPU
        ("NVIDIA L4", None),
        ("", None),
    ],
)
def test_the_peak_follows_from_the_name_of_the_gpu(name: str, peak: float | None) -> None:
    assert peak_flops(name) == peak


@pytest.mark.usefixtures("no_process")
def test_the_name_is_that_of_the_first_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = FakeNvml([1, 2])
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    assert gpu_name() == "GPU 0"
    nvml.broken = "name"
    assert gpu_name() == ""


@pytest.mark.usefixtures("no_process")
def test_a_host_without_gpus_has_no_memory_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml([]))
    assert gpu_bytes("used") == 0
    assert gpu_name() == ""


@pytest.mark.parametrize("visible", ["1,3", "1, 3", "GPU-1,GPU-3"])
@pytest.mark.usefixtures("no_process")
def test_the_memory_is_not_that_of_another_job_on_the_node(
    monkeypatch: pytest.MonkeyPatch, visible: str
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml([900, 4, 900, 6]))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert gpu_bytes("used") == 3
    assert gpu_name() == "GPU 1"


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
