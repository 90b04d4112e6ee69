"""The rollout server on CPUs: a response depends only on its request and the weights."""

import asyncio
from pathlib import Path

import pytest
import torch

from rspo.core.seeds import generator_of
from rspo.policies import qwen2
from rspo.policies.sampler import sample
from rspo.training.verl.cpu_server import Output, Server
from tests.support.random_policy import END, PAD, peaked_model, save_policy

PROMPTS = [[2 + (7 * row + column) % 30 for column in range(10)] for row in range(40)]
TOKENS = 18


def responses(server: Server, rows: list[int]) -> dict[int, Output]:
    """Responses to requests that arrive together, in this order."""

    async def gather() -> list[Output]:
        return await asyncio.gather(*(server.generate(f"1-{row}-0", PROMPTS[row]) for row in rows))

    return dict(zip(rows, asyncio.run(gather()), strict=True))


def test_responses_do_not_depend_on_other_requests_or_their_order(tmp_path: Path) -> None:
    policy = save_policy(peaked_model(), tmp_path / "policy")

    def server(seed: int = 0) -> Server:
        return Server(policy, TOKENS, 1.0, 1.0, seed)

    rows = list(range(40))
    in_order = responses(server(), rows)
    reversed_order = responses(server(), rows[::-1])
    apart = {}
    for first, last in ((0, 1), (1, 3), (3, 40)):
        apart |= responses(server(), rows[first:last])
    for row in rows:
        for other in (reversed_order[row], apart[row]):
            assert other.token_ids == in_order[row].token_ids
            assert other.log_probs == pytest.approx(in_order[row].log_probs, abs=1e-5)
    others = responses(server(seed=1), rows)
    assert sum(in_order[row].token_ids == others[row].token_ids for row in rows) < 10


def test_temperature_and_weights_are_those_of_the_server(tmp_path: Path) -> None:
    """The same responses as the sampler of the local engine, from the same random numbers."""
    policy = save_policy(peaked_model(), tmp_path / "policy")
    server = Server(policy, TOKENS, 0.7, 1.0, seed=0)
    weights = {name: 1.1 * value for name, value in server.sampler.model.state_dict().items()}
    asyncio.run(server.set_weights(weights, 3))
    model = qwen2.load(policy)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.1)
    found = responses(server, list(range(40)))
    drawn = sample(
        *(model, PROMPTS, 1),
        max_tokens=TOKENS,
        end=END,
        pad=PAD,
        generator=[generator_of(0, "verl", f"1-{row}-0") for row in range(40)],
        temperature=0.7,
    )
    for row, length in enumerate(drawn.lengths.tolist()):
        assert found[row].token_ids == drawn.tokens[row, :length].tolist()
        assert found[row].extra_fields == {"global_steps": 3}
