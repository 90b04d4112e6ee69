"""Settings of verl's actor that only matter at the scale of a GPU, tested on two CPU ranks."""

import contextlib
import subprocess

import pytest

from tests.support import tiny_world
from tests.support.cpu_ranks import cpu_ranks
from tests.support.random_policy import save_policy
from tests.support.rollouts import make_model

pytestmark = pytest.mark.ci

TIMEOUT = 20  # seconds; enough for a rank that starts later


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What rank 0 of tests/support/verl_actor.py prints within some minutes."""
    folder = tmp_path_factory.mktemp("ranks")
    save_policy(make_model(), tiny_world.load(folder).policy("small--base"))
    log = folder / "log"
    arguments = ("tests.support.verl_actor", str(folder), str(TIMEOUT))
    with (
        log.open("a") as stdout,
        cpu_ranks(2, *arguments, stdout=stdout) as ranks,
        contextlib.suppress(subprocess.TimeoutExpired),  # the tests show that it took too long
    ):
        ranks[0].wait(timeout=540)
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
