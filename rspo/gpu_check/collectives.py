"""All-reduce with NCCL, on a CPU with gloo, on 1 to all ranks of this node."""

import tempfile
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor

from rspo.gpu_check.settings import CheckFailed, Settings

CPU_RANKS = 2
_ELEMENTS = {"cuda": 2**26, "cpu": 2**20}  # float32
_TIMEOUT = timedelta(seconds=60)


def check(settings: Settings) -> str:
    cuda = settings.device == "cuda"
    most = torch.cuda.device_count() if cuda else CPU_RANKS
    seconds = 0.0
    for ranks in range(1, most + 1):
        with tempfile.TemporaryDirectory() as folder:
            arguments = (ranks, settings.device, folder)
            torch.multiprocessing.spawn(_rank, arguments, nprocs=ranks)
            seconds = max(float(file.read_text()) for file in Path(folder).glob("seconds.*"))
    megabytes = _ELEMENTS[settings.device] * 4 / 1e6
    name = "NCCL" if cuda else "gloo"
    ranks_text = "1 rank" if most == 1 else f"1 to {most} ranks"
    return f"{name}, {ranks_text}; {megabytes:.0f} MB in {1000 * seconds:.1f} ms with {most}"


def _rank(rank: int, ranks: int, device: str, folder: str) -> None:
    """Sum a tensor over all ranks twice, and measure the second time."""
    dist.init_process_group(
        "nccl" if device == "cuda" else "gloo",
        init_method=f"file://{folder}/store",  # needs no free port
        rank=rank,
        world_size=ranks,
        timeout=_TIMEOUT,
    )
    if device == "cuda":
        torch.cuda.set_device(rank)
    values = torch.arange(_ELEMENTS[device], device=device) % 1000
    started = 0.0
    for _ in range(2):
        total = (values + rank).float()
        if device == "cuda":
            torch.cuda.synchronize()
        started = time.perf_counter()
        dist.all_reduce(total)
        if device == "cuda":
            torch.cuda.synchronize()
    seconds = time.perf_counter() - started
    require_sum(total, values, ranks)
    Path(folder, f"seconds.{rank}").write_text(str(seconds))
    dist.destroy_process_group()


def require_sum(total: Tensor, values: Tensor, ranks: int) -> None:
    """Raises: CheckFailed unless `total` is the sum of `values` + rank over all ranks."""
    expected = ranks * values + ranks * (ranks - 1) // 2
    wrong = int((total != expected).sum())
    if wrong:
        raise CheckFailed(f"{wrong} of {len(values)} sums over {ranks} ranks are wrong")
