"""Settings of verl's actor that only matter at the scale of a GPU, tested on two CPU ranks."""

import os
import socket
import subprocess
import sys

import pytest

from tests.support import ROOT, tiny_world
from tests.support.random_policy import save_policy
from tests.support.rollouts import make_model

TIMEOUT = 20  # seconds; enough for a rank that starts later


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What rank 0 of tests/support/verl_actor.py prints within some minutes."""
    folder = tmp_path_factory.mktemp("ranks")
    save_policy(make_model(), tiny_world.load(folder).policy("small--base"))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = os.environ | {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "WORLD_SIZE": "2",
        "VERL_PLATFORM": "cpu",
        "VERL_USE_EXTERNAL_MODULES": "rspo.training.verl.cpu_platform",
        "OMP_NUM_THREADS": "1",
    }
    log = folder / "log"
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.support.verl_actor", str(folder), str(TIMEOUT)],
            cwd=ROOT,
            env=environment | {"RANK": str(rank)},
            stdout=log.open("a"),
            stderr=subprocess.STDOUT,
        )
        for rank in range(2)
    ]
    try:
        processes[0].wait(timeout=540)
    except subprocess.TimeoutExpired:
        pass  # it waited for too long; the tests show it
    finally:
        for process in processes:
            process.kill()
            process.wait()
    return log.read_text()


def number(output: str, name: str) -> int:
    lines = [line for line in output.splitlines() if line.startswith(f"{name} ")]
    assert len(lines) == 1, output[-3000:]
    return int(lines[0].split()[1])


def test_the_entropy_is_not_compiled_for_every_length(output: str) -> None:
    """verl's compiled function is recompiled for each length, and PyTorch gives up after eight."""
    assert number(output, "COMPILED") == 0


def test_ranks_wait_for_each_other_as_long_as_configured(output: str) -> None:
    assert TIMEOUT <= number(output, "WAITED") < TIMEOUT + 10
