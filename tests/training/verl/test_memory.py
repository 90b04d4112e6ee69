"""The estimate of the actor's memory: against verl's actor on two CPU ranks, and in itself."""

import json
from pathlib import Path
from typing import Any

import pytest

from rspo.config.schema import Shape
from rspo.slurm.hours import flops_per_token
from rspo.training.verl import memory
from rspo.training.verl.config_check import Memory
from rspo.training.verl.verl_config import verl_config
from tests.support import paper_scale, verl_memory
from tests.support.cpu_ranks import cpu_ranks

PAPER_CELL = "qwen2.5-math-1.5b--policy-gradient--k1--n16--s0"
SMALL = verl_memory.SHAPE | {"vocab_size": 65_536}


def estimate_of(shape: dict[str, Any], config: Any) -> Memory:
    return memory.memory_of(shape, config, gpu=80e9, judge=4.8e9)


def actor(kinds: dict[str, float]) -> float:
    """Bytes of the actor alone."""
    return sum(size for kind, size in kinds.items() if kind in (*memory.KINDS, "logits"))


@pytest.mark.long
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_two_ranks_of_verl_take_what_is_estimated(tmp_path: Path, precision: str) -> None:
    experiment = verl_memory.load_experiment(tmp_path, precision)
    verl_memory.save_policy(experiment)
    log = tmp_path / "log"
    module = "tests.support.verl_memory"
    with (
        log.open("w") as stdout,
        cpu_ranks(verl_memory.RANKS, module, str(tmp_path), precision, stdout=stdout) as ranks,
    ):
        assert [rank.wait(timeout=900) for rank in ranks] == [0, 0], log.read_text()[-3000:]
    lines = [line for line in log.read_text().splitlines() if line.startswith("MEASURED")]
    assert len(lines) == verl_memory.RANKS
    config = verl_config(experiment, verl_memory.CELL)
    estimate = estimate_of(verl_memory.SHAPE, config).phases
    for line in lines:
        for phase, measured in json.loads(line.removeprefix("MEASURED ")).items():
            assert actor(estimate[phase]) == pytest.approx(measured, rel=0.15), phase


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """verl's config of the paper's scale, with passes of 4,096 tokens."""
    config = verl_config(paper_scale.load(tmp_path_factory.mktemp("paper")), PAPER_CELL)
    config.actor_rollout_ref.actor.ppo_max_token_len_per_gpu = 4096
    return config


def test_two_and_three_layers_tell_what_five_take(config: Any) -> None:
    shape = SMALL | {"num_hidden_layers": 5}
    found, whole = estimate_of(shape, config), memory.simulate(shape, config)
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
    assert update["sampler"] == memory.SLEEPING
    flops = flops_per_token(shape, found.tokens)[1] * found.tokens
    assert found.flops == pytest.approx(flops, rel=0.1)
