"""All-reduce with NCCL, on a CPU with gloo."""

import tempfile
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

ELEMENTS = {"cuda": 2**26, "cpu": 2**20}  # float32
_TIMEOUT = timedelta(seconds=60)


def all_reduce_seconds(ranks: int, device: str) -> float:
    """Time of the slowest rank. Raises: an error of torch if a rank finds a wrong sum."""
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(_rank, (ranks, device, folder), nprocs=ranks)
        return max(float(file.read_text()) for file in Path(folder).glob("seconds.*"))


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
    values = torch.arange(ELEMENTS[device], device=device) % 1000
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
    wrong = int((total != ranks * values + ranks * (ranks - 1) // 2).sum())
    assert not wrong, f"{wrong} of {len(values)} sums over {ranks} ranks are wrong"
    Path(folder, f"seconds.{rank}").write_text(str(seconds))
    dist.destroy_process_group()
