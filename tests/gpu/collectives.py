"""All-reduce with NCCL, on a CPU with gloo."""

import tempfile
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

ELEMENTS = {"cuda": 2**26, "cpu": 2**20}  # float32
REPEATS = 5  # the first one also connects the ranks
_TIMEOUT = timedelta(seconds=60)
# The least bandwidth between GPUs with NVLink, in bytes per second, by a part of their name: these
# are guesses, 20 to 30 % of what their links have in both directions (H800: 400 GB/s, H100 and
# H200: 900, A100: 600). Slower ones hint at a missing link or a wrong topology.
LEAST_BANDWIDTH = {"H800": 120e9, "H100": 200e9, "H200": 200e9, "A100": 120e9}


def bandwidth(ranks: int, device: str, seconds: float) -> float:
    """The bandwidth of each GPU's links in an all-reduce, in bytes per second.

    In a ring, each rank sends 2 (ranks - 1) / ranks times the tensor ("bus bandwidth" of NCCL's own
    tests).
    """
    return 2 * (ranks - 1) / ranks * ELEMENTS[device] * 4 / seconds


def least_bandwidth(name: str) -> float:
    """What the links of the GPU with this name must have; 0 if they may be PCIe's."""
    if "PCIe" in name or "NVL" in name:
        return 0.0
    found = [least for part, least in LEAST_BANDWIDTH.items() if part in name]
    return max(found, default=0.0)


def all_reduce_seconds(ranks: int, device: str) -> float:
    """Time of an all-reduce on the slowest rank, each rank's shortest of REPEATS.

    A rank's time has the wait for the ranks that begin later, of which the shortest has least.

    Raises: an error of torch if a rank finds a wrong sum.
    """
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(_rank, (ranks, device, folder), nprocs=ranks)
        return max(float(file.read_text()) for file in Path(folder).glob("seconds.*"))


def _rank(rank: int, ranks: int, device: str, folder: str) -> None:
    """Sum a tensor over all ranks REPEATS times, and write the shortest time to a file."""
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
    expected = ranks * values + ranks * (ranks - 1) // 2
    seconds = []
    for _ in range(REPEATS):
        total = (values + rank).float()
        if device == "cuda":
            torch.cuda.synchronize()
        started = time.perf_counter()
        dist.all_reduce(total)
        if device == "cuda":
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - started)
        wrong = int((total != expected).sum())
        assert not wrong, f"{wrong} of {len(values)} sums over {ranks} ranks are wrong"
    Path(folder, f"seconds.{rank}").write_text(str(min(seconds)))
    dist.destroy_process_group()
