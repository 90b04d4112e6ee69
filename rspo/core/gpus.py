"""Kinds of GPUs, and the GPUs of a SLURM job as PyTorch and vLLM see them."""

import os
from functools import cache
from typing import Any, Literal, NamedTuple

from rspo.core.errors import InputError
from rspo.core.slurm_job import name_of_this_job, this_job


class Gpu(NamedTuple):
    """A kind of GPU.

    flops: dense operations in bfloat16 per second.
    bandwidth: of the GPU's memory, in bytes per second.
    """

    flops: float
    bandwidth: float


# From NVIDIA's data sheets. The H800 differs from the H100 only in the slower links between GPUs.
GPUS = {
    "h800": Gpu(989e12, 3.35e12),
    "h100": Gpu(989e12, 3.35e12),
    "h200": Gpu(989e12, 4.8e12),
    "a100": Gpu(312e12, 2.04e12),
    "rtx4090": Gpu(165e12, 1.01e12),
}


def peak_flops(name: str) -> float | None:
    """Dense operations in bfloat16 per second of the GPU that its driver names `name`.

    Returns: None for a GPU that is not in `GPUS`, for PCIe and NVL boards, which are slower than
        others of the same name, and for a part of a GPU (MIG).
    """
    words = name.lower().replace("-", " ").split()
    if "pcie" in words or "nvl" in words or "mig" in words:
        return None
    joined = "".join(words)  # GeForce RTX 4090
    for kind, gpu in GPUS.items():
        if kind in joined:
            return gpu.flops
    return None


def why_no_gpu() -> str:
    """Why PyTorch can use no GPU on this host; empty if it can use one."""
    import torch

    if torch.cuda.is_available():
        return ""
    try:
        torch.cuda.init()
    except (AssertionError, RuntimeError) as error:  # AssertionError: built without CUDA
        return " ".join(str(error).split())
    return "torch.cuda.is_available() is False"


def require_visible_gpus() -> None:
    """Raises: InputError if SLURM granted GPUs to this job and PyTorch sees none of them."""
    if not _granted():
        return
    reason = why_no_gpu()
    if reason:
        raise InputError(
            f"{_granted()}, but torch sees none: {reason}; `make gpu-check` tests the node"
        )


def require_vllm_on_gpus() -> None:
    """Require that vLLM can use the GPUs that SLURM granted to this job, if it granted any.

    Raises: InputError if PyTorch sees none of them, or if vLLM is built for CPUs.
    """
    require_visible_gpus()
    if not _granted():
        return
    from vllm.platforms import current_platform

    if current_platform.is_cpu():
        raise InputError(
            f"{_granted()}, but this vLLM is built for CPUs; use an environment made by "
            "`make setup-gpu`"
        )


def _granted() -> str:
    """Words such as `SLURM job 12 was granted 8 GPUs`; empty outside of a SLURM job with GPUs."""
    job = this_job()
    if job is None or job.gpu_count == 0:
        return ""
    return f"{name_of_this_job()} was granted {job.gpu_count} GPUs"


def gpu_bytes(which: Literal["used", "total"]) -> int:
    """The used or total memory of a GPU in bytes, the largest of this process's GPUs.

    These are the GPUs in CUDA_VISIBLE_DEVICES, because another job may use the others, or else all
    GPUs of this host.

    This calls the library of NVIDIA's driver. nvidia-smi has the same numbers, but is a process,
    which takes a fraction of a second to start, during which the GPUs of a training are idle.

    Returns: 0 if the driver does not answer.
    """
    import pynvml  # installed by `make setup-gpu`

    try:
        devices = _devices(os.environ.get("CUDA_VISIBLE_DEVICES", ""))
        found = [pynvml.nvmlDeviceGetMemoryInfo(one, pynvml.nvmlMemory_v2) for one in devices]
    except pynvml.NVMLError:
        return 0
    return max((int(getattr(memory, which)) for memory in found), default=0)


def gpu_name() -> str:
    """The name of the first of these GPUs, such as NVIDIA H800; empty if the driver is silent.

    PyTorch would reserve memory of the GPU to tell it.
    """
    import pynvml

    try:
        devices = _devices(os.environ.get("CUDA_VISIBLE_DEVICES", ""))
        return str(pynvml.nvmlDeviceGetName(devices[0])) if devices else ""
    except pynvml.NVMLError:
        return ""


@cache
def _devices(visible: str) -> list[Any]:
    """GPUs, as pynvml names them. The library stays initialized in this process.

    Args:
        visible: numbers or UUIDs, separated by commas; empty for all GPUs of this host.
    """
    import pynvml

    pynvml.nvmlInit()
    if not visible:
        numbers = range(pynvml.nvmlDeviceGetCount())
        return [pynvml.nvmlDeviceGetHandleByIndex(number) for number in numbers]
    devices = []
    for word in visible.split(","):
        name = word.strip()  # as CUDA reads "0, 1"
        if name.isdigit():
            devices.append(pynvml.nvmlDeviceGetHandleByIndex(int(name)))
        else:
            devices.append(pynvml.nvmlDeviceGetHandleByUUID(name))
    return devices
