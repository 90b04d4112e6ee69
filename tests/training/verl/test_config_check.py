"""verl's verification of all cells before any job is submitted; about two minutes."""

import os
import re
from pathlib import Path
from typing import Any

import pytest

from rspo.training.verl.config_check import check_configs
from tests.support import paper_scale
from tests.support.gpu_stubs import make_login_node

pytestmark = pytest.mark.long

TOKENS = {"qwen2.5-math-1.5b": 32768, "qwen2.5-math-7b": 16384}  # of a pass, as shipped


def test_each_problem_of_the_cells_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By hand: 16 prompts with 4 responses are fewer than 128 ranks."""
    environment = dict(os.environ)
    many = paper_scale.load(tmp_path, verl={"ranks": 128})
    without_flash, indivisible = sorted(check_configs(many).problems)
    assert "flash-attn is not installed" in without_flash
    assert indivisible.endswith("allowed: numbers of ranks that divide 64")
    assert dict(os.environ) == environment
    monkeypatch.setenv("PYTHONPATH", str(make_login_node(tmp_path)), prepend=os.pathsep)
    check = check_configs(paper_scale.load(tmp_path))
    assert check.problems == []
    assert set(check.attention) == {"flash_attention_2"}
    assert {model: memory.tokens for model, memory in check.memory.items()} == TOKENS


@pytest.mark.parametrize(
    ("changes", "refused"),
    [
        ({"tokens": 8}, dict.fromkeys(TOKENS, "update")),
        ({"gpu": "rtx4090"}, {"qwen2.5-math-7b": "update"}),
        ({"keys": {"rollout": {"gpu_memory_utilization": 0.8}}}, {"qwen2.5-math-7b": "sampling"}),
    ],
)
def test_what_does_not_fit_the_gpu_is_refused_with_the_number(
    tmp_path: Path, changes: dict[str, Any], refused: dict[str, str]
) -> None:
    """Eight times the tokens; a GPU of 24 GB; a sampler that leaves too little."""
    models = {
        name: {"verl": {"actor_rollout_ref": {"actor": {"ppo_max_token_len_per_gpu": tokens}}}}
        for name, tokens in ((name, TOKENS[name] * changes.get("tokens", 1)) for name in TOKENS)
    }
    verl = {"gpu": changes.get("gpu", "h800")}
    overrides = {"overrides": {"actor_rollout_ref": changes.get("keys", {})}}
    check = check_configs(paper_scale.load(tmp_path, models=models, verl=verl | overrides))
    found = [line for line in check.problems if "by estimate" in line]
    assert len(found) == len(refused)
    for line in found:
        model, phase, number, has = re.fullmatch(
            r"(\S+): (.*) needs (.*) GB of each GPU .* has (\d+): lower .*", line
        ).groups()  # type: ignore[union-attr]
        assert refused[model] == phase
        assert float(number) > float(has)
