"""Kinds of GPUs, and the GPUs of a SLURM job as PyTorch and vLLM see them."""

import os
import subprocess
from typing import Literal, NamedTuple

from rspo.core.errors import InputError
from rspo.core.slurm_job import name_of_this_job, this_job

_SECONDS_TO_ANSWER = 10  # the timeout of nvidia-smi
_MEBIBYTE = 2**20  # the unit of nvidia-smi


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
    "a100": Gpu(312e12, 2.04e12),
    "rtx4090": Gpu(165e12, 1.01e12),
}


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

    Returns: 0 if nvidia-smi does not answer.
    """
    query = ["nvidia-smi", f"--query-gpu=memory.{which}", "--format=csv,noheader,nounits"]
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible:
        query.append(f"--id={visible}")
    try:
        done = subprocess.run(
            query, capture_output=True, text=True, timeout=_SECONDS_TO_ANSWER, check=True
        )
        return max(int(line) for line in done.stdout.split()) * _MEBIBYTE
    except (OSError, subprocess.SubprocessError, ValueError):
        return 0
