"""Updates of verl compared with those of the local engine, and dropping before them."""

import json
import subprocess
from pathlib import Path

import pytest
import torch

from rspo.core.errors import InputError
from rspo.objectives import compared
from rspo.training.verl.disk import checkpoint_bytes
from rspo.training.verl.dropping import kept_rows
from tests.support.cpu_ranks import cpu_ranks
from tests.support.rollouts import make_model

TOLERANCE = 1e-4  # of the update's norm
SUM = "seq-mean-token-sum-norm"


def run_ranks(folder: Path, ranks: int) -> dict[str, float]:
    """The output of rank 0 of tests/support/verl_update.py."""
    arguments = ("tests.support.verl_update", str(folder))
    with cpu_ranks(ranks, *arguments, stdout=subprocess.PIPE) as processes:
        outputs = [process.communicate()[0] for process in processes]
    results = [line for line in outputs[0].splitlines() if line.startswith("RESULT ")]
    assert results, outputs[0][-3000:]
    distances: dict[str, float] = json.loads(results[0].removeprefix("RESULT "))
    return distances


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(1, id="1 rank", marks=pytest.mark.ci),
        pytest.param(2, id="2 ranks", marks=pytest.mark.ci),
    ],
)
def updated(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, float], Path]:
    """Distances between the engines' parameters, and verl's checkpoint."""
    folder = tmp_path_factory.mktemp("ranks")
    return run_ranks(folder, request.param), folder / "checkpoint"


def test_verl_and_the_local_engine_make_the_same_updates(
    updated: tuple[dict[str, float], Path],
) -> None:
    """For every objective, with and without dropping.

    Also with no response left in the second mini-batch, which then updates by momentum; with no
    response left at all; with the loss divided by the number of tokens; and with one update for all
    prompts.
    """
    distances, _ = updated
    assert len(distances) == 2 * len(compared()) + 4
    assert {name: value for name, value in distances.items() if value > TOLERANCE} == {}


def test_disk_usage_of_a_checkpoint(
    updated: tuple[dict[str, float], Path],
) -> None:
    """Apart from metadata and the tokenizer, which are small even for a tiny model."""
    _, checkpoint = updated
    parameters = sum(parameter.numel() for parameter in make_model().parameters())
    measured = sum(file.stat().st_size for file in checkpoint.rglob("*") if file.is_file())
    assert 1 <= measured / checkpoint_bytes(parameters) < 1.1


@pytest.mark.parametrize(
    ("advantages", "lengths", "ranks", "kept"),
    [
        ([0, 2, 0, -1], [5, 5, 5, 5], 1, [1, 3]),
        ([1, 0, 0, 0, 1, 1], [5, 9, 2, 4, 5, 5], 2, [0, 2, 4, 5]),  # the shortest fills up
        ([0, 0, 0, 0, 0, 0], [3, 1, 2, 9, 9, 9], 2, [1, 2]),  # one row for every rank
        ([1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1], 3, [0, 1, 2, 3, 4, 5]),
    ],
)
def test_responses_of_weight_0_are_dropped(
    advantages: list[float], lengths: list[int], ranks: int, kept: list[int]
) -> None:
    weights, tokens = torch.tensor(advantages), torch.tensor(lengths)
    assert kept_rows(weights, tokens, ranks, SUM) == kept
    # `token-mean` divides the loss by the number of tokens, so nothing is dropped.
    assert kept_rows(weights, tokens, ranks, "token-mean") == list(range(len(advantages)))


def test_a_mini_batch_that_ranks_cannot_split_equally_is_an_error() -> None:
    with pytest.raises(InputError, match="6 responses cannot be split equally among 4 ranks"):
        kept_rows(torch.ones(6), torch.ones(6), ranks=4, aggregation=SUM)
