"""The estimate of the actor's memory: against verl's actor on two CPU ranks, and in itself."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from rspo.config.schema import Shape
from rspo.plan.actor import KINDS, simulate
from rspo.plan.hours import flops_per_token
from rspo.plan.memory import SLEEPING, Memory, estimate, estimates, too_large
from rspo.training.verl.interface import FLASH
from rspo.training.verl.verl_config import verl_config
from tests.support import paper_scale, verl_memory
from tests.support.cpu_ranks import cpu_ranks

PAPER_CELL = "qwen2.5-math-1.5b--policy-gradient--k1--n16--s0"
SMALL = verl_memory.SHAPE | {"vocab_size": 65_536}


def estimate_of(shape: dict[str, Any], config: Any) -> Memory:
    return estimate(shape, config, gpu=80e9, judge=4.8e9)


def actor(kinds: dict[str, float]) -> float:
    """Bytes of the actor alone."""
    return sum(size for kind, size in kinds.items() if kind in (*KINDS, "logits"))


@pytest.mark.long
@pytest.mark.parametrize("kernel", ["verl", "flash"])
def test_two_ranks_of_verl_take_what_is_estimated(tmp_path: Path, kernel: str) -> None:
    experiment = verl_memory.load_experiment(tmp_path)
    verl_memory.save_policy(experiment)
    log = tmp_path / "log"
    module = "tests.support.verl_memory"
    with (
        log.open("w") as stdout,
        cpu_ranks(verl_memory.RANKS, module, str(tmp_path), kernel, stdout=stdout) as ranks,
    ):
        assert [rank.wait(timeout=900) for rank in ranks] == [0, 0], log.read_text()[-3000:]
    lines = [line for line in log.read_text().splitlines() if line.startswith("MEASURED")]
    assert len(lines) == verl_memory.RANKS
    config = verl_config(experiment, verl_memory.CELL)
    if kernel == "flash":
        config.actor_rollout_ref.model.override_config.attn_implementation = FLASH
    estimated = estimate_of(verl_memory.SHAPE, config).phases
    for line in lines:
        for phase, measured in json.loads(line.removeprefix("MEASURED ")).items():
            assert actor(estimated[phase]) == pytest.approx(measured, rel=0.15), phase


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """verl's config of the paper's scale, with passes of 4,096 tokens."""
    config = verl_config(paper_scale.load(tmp_path_factory.mktemp("paper")), PAPER_CELL)
    config.actor_rollout_ref.actor.ppo_max_token_len_per_gpu = 4096
    return config


def test_two_and_three_layers_tell_what_five_take(config: Any) -> None:
    shape = SMALL | {"num_hidden_layers": 5}
    found, whole = estimate_of(shape, config), simulate(shape, config)
    for (phase, kind), size in whole.items():
        expected = found.flops if kind == "flops" else found.phases[phase][kind]
        assert expected == pytest.approx(size, rel=1e-3), (phase, kind)


def test_kinds_of_memory_and_flops_are_those_of_formulas(config: Any) -> None:
    """By hand: float32 shards of 8 ranks, logits in bfloat16, and the servers' shares."""
    found, shape = estimate_of(SMALL, config), Shape(**SMALL)
    update, sampling, shard = *map(found.phases.get, ("update", "sampling")), shape.parameters / 2
    assert update["logits"] == found.tokens * shape.vocab_size * 2
    assert update["optimizer"] == pytest.approx(2 * shard, rel=0.01)
    assert actor(sampling) == pytest.approx(3 * shard, rel=0.01)
    assert (update["judge"], sampling["sampler"]) == (4.8e9, 48e9)
    assert update["sampler"] == SLEEPING
    flops = flops_per_token(shape, found.tokens)[1] * found.tokens
    assert found.flops == pytest.approx(flops, rel=0.1)


TOKENS = {"qwen2.5-math-1.5b": 32_768, "qwen2.5-math-7b": 16_384}  # of a pass, as shipped


def actor_keys(**keys: Any) -> dict[str, Any]:
    return {"actor_rollout_ref": keys}


def tokens(number: int) -> dict[str, Any]:
    return {"verl": actor_keys(actor={"ppo_max_token_len_per_gpu": number})}


@pytest.mark.ci
@pytest.mark.parametrize(
    ("times", "verl", "refused"),
    [
        (1, {}, {}),
        (5, {}, {"qwen2.5-math-1.5b": "update", "qwen2.5-math-7b": "update"}),
        (1, {"gpu": "rtx4090"}, {"qwen2.5-math-1.5b": "update", "qwen2.5-math-7b": "update"}),
        (
            1,
            {"overrides": actor_keys(rollout={"gpu_memory_utilization": 0.8})},
            {"qwen2.5-math-7b": "sampling"},
        ),
    ],
)
def test_what_does_not_fit_the_gpu_is_refused_with_the_number(
    tmp_path: Path, times: int, verl: dict[str, Any], refused: dict[str, str]
) -> None:
    """The shipped config; more tokens; a GPU of 24 GB; a sampler that leaves too little."""
    models = {name: tokens(times * number) for name, number in TOKENS.items()}
    experiment = paper_scale.load(tmp_path, models=models, verl=verl)
    found = estimates(experiment)
    assert {name: one.tokens for name, one in found.items()} == {
        name: times * number for name, number in TOKENS.items()
    }
    matches = [
        re.fullmatch(r"(\S+): (.*) needs (.*) GB of each GPU .* has (\d+): lower .*", line)
        for line in too_large(experiment, found)
    ]
    lines = [match.groups() for match in matches if match]
    assert {model: phase for model, phase, _, _ in lines} == refused
    assert all(float(needed) > float(has) for *_, needed, has in lines)
