"""One update of verl against one of the local engine, and what is dropped before it."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from rspo.errors import InputError
from rspo.objectives import OBJECTIVES
from rspo.training.verl.dropping import kept_rows

ROOT = Path(__file__).resolve().parent.parent
TOLERANCE = 1e-4  # of the update's norm
SUM = "seq-mean-token-sum"


def run_ranks(folder: Path, ranks: int) -> dict[str, float]:
    """What rank 0 of tests/verl_update.py found."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    common = os.environ | {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "WORLD_SIZE": str(ranks),
        "VERL_PLATFORM": "cpu",
        "VERL_USE_EXTERNAL_MODULES": "rspo.training.verl.cpu_platform",
        "OMP_NUM_THREADS": "1",
    }
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.verl_update", str(folder)],
            cwd=ROOT,
            env=common | {"RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(ranks)
    ]
    try:
        outputs = [process.communicate(timeout=300)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    results = [line for line in outputs[0].splitlines() if line.startswith("RESULT ")]
    assert results, outputs[0][-3000:]
    found: dict[str, float] = json.loads(results[0].removeprefix("RESULT "))
    return found


@pytest.mark.parametrize("ranks", [1, 2])
def test_verl_makes_the_local_engines_updates(tmp_path: Path, ranks: int) -> None:
    """Every objective, two mini-batches, with and without dropping; also with nothing left in the
    second mini-batch, which then moves by momentum, and with nothing left at all."""
    found = run_ranks(tmp_path, ranks)
    assert len(found) == 2 * len(OBJECTIVES) + 2
    assert {name: share for name, share in found.items() if share > TOLERANCE} == {}


def test_responses_without_weight_are_dropped() -> None:
    advantages = torch.tensor([0.0, 2.0, 0.0, -1.0])
    assert kept_rows(advantages, torch.tensor([5, 5, 5, 5]), ranks=1, aggregation=SUM) == [1, 3]


def test_the_shortest_fill_up_what_ranks_cannot_share() -> None:
    advantages = torch.tensor([1.0, 0.0, 0.0, 0.0, 1.0, 1.0])
    assert kept_rows(advantages, torch.tensor([5, 9, 2, 4, 5, 5]), ranks=2, aggregation=SUM) == [
        0,
        2,
        4,
        5,
    ]


def test_every_rank_gets_a_row_when_nothing_is_left() -> None:
    assert kept_rows(
        torch.zeros(6), torch.tensor([3, 1, 2, 9, 9, 9]), ranks=2, aggregation=SUM
    ) == [1, 2]


def test_a_full_mini_batch_is_kept_whole() -> None:
    assert kept_rows(torch.ones(6), torch.ones(6), ranks=3, aggregation=SUM) == list(range(6))


def test_nothing_is_dropped_where_the_loss_is_divided_by_tokens() -> None:
    kept = kept_rows(torch.zeros(6), torch.ones(6), ranks=2, aggregation="token-mean")
    assert kept == list(range(6))


def test_ranks_that_cannot_share_a_mini_batch_are_named() -> None:
    with pytest.raises(InputError, match="6 responses cannot be shared by 4 ranks"):
        kept_rows(torch.ones(6), torch.ones(6), ranks=4, aggregation=SUM)
