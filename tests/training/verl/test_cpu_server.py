"""The rollout server on CPUs: a response depends only on its request and the weights."""

import asyncio
from pathlib import Path

import torch

from rspo.training.verl.cpu_server import Output, Server
from tests.support.random_policy import random_model, save_policy

PROMPTS = [[2 + (7 * row + column) % 30 for column in range(10)] for row in range(40)]
TOKENS = 18


def request(server: Server, rows: list[int]) -> dict[int, Output]:
    """Responses to requests that arrive together, in this order."""

    async def gather() -> list[Output]:
        parameters = {"temperature": 1.0}
        return await asyncio.gather(
            *(server.generate(f"1-{row}-0", PROMPTS[row], parameters) for row in rows)
        )

    return dict(zip(rows, asyncio.run(gather()), strict=True))


def test_responses_do_not_depend_on_other_requests_or_their_order(tmp_path: Path) -> None:
    policy = save_policy(random_model(deviation=0.3), tmp_path)
    rows = list(range(40))
    in_order = request(Server(policy, TOKENS, 0), rows)
    reversed_order = request(Server(policy, TOKENS, 0), rows[::-1])
    server = Server(policy, TOKENS, 0)
    apart = {}
    for first, last in ((0, 1), (1, 3), (3, 40)):
        apart |= request(server, rows[first:last])
    for row in rows:
        for other in (reversed_order[row], apart[row]):
            assert other.token_ids == in_order[row].token_ids
            # On another CPU, the order of summation may change the last digit.
            torch.testing.assert_close(other.log_probs, in_order[row].log_probs)
    assert len({tuple(output.token_ids) for output in in_order.values()}) > 30


def test_responses_depend_on_the_seed(tmp_path: Path) -> None:
    policy = save_policy(random_model(deviation=0.3), tmp_path)
    first, other = (request(Server(policy, TOKENS, seed), list(range(40))) for seed in (0, 1))
    same = sum(first[row].token_ids == other[row].token_ids for row in range(40))
    assert same < 10
