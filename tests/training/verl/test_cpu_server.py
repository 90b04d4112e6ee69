"""The rollout server on CPUs: a response depends only on its request and the weights."""

import asyncio
import math
from pathlib import Path

import torch

from rspo.policies import qwen2
from rspo.policies.qwen2 import KVCache, ModelConfig, Qwen2
from rspo.policies.tokenizer import build_tokenizer, save_tokenizer
from rspo.training.verl.cpu_server import Output, Request, Server

PROMPTS = [[2 + (7 * row + column) % 30 for column in range(10)] for row in range(40)]
TOKENS = 18


def make_policy(folder: Path) -> Path:
    config = ModelConfig(
        build_tokenizer().get_vocab_size(), 64, 2, 2, 2, 192, max_position_embeddings=10 + TOKENS
    )
    model = Qwen2(config)
    model.initialise(0.3, torch.Generator().manual_seed(0))
    folder.mkdir()
    save_tokenizer(folder, prompt_tokens=10, context=10 + TOKENS)
    qwen2.save(model, folder, {"eos_token_id": 1, "pad_token_id": 0})
    return folder


def request(server: Server, rows: list[int]) -> dict[int, Output]:
    """Responses to requests that arrive together, in this order."""

    async def gather() -> list[Output]:
        parameters = {"temperature": 1.0}
        return await asyncio.gather(
            *(server.generate(f"1-{row}-0", PROMPTS[row], parameters) for row in rows)
        )

    return dict(zip(rows, asyncio.run(gather()), strict=True))


def test_responses_do_not_depend_on_other_requests_or_their_order(tmp_path: Path) -> None:
    policy = make_policy(tmp_path / "policy")
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


def test_a_cancelled_request_does_not_stop_the_others(tmp_path: Path) -> None:
    server = Server(make_policy(tmp_path / "policy"), TOKENS, 0)

    async def cancel_one() -> list[Output | BaseException]:
        tasks = [
            asyncio.ensure_future(server.generate(f"1-{row}-0", PROMPTS[row], {"temperature": 1.0}))
            for row in range(3)
        ]
        await asyncio.sleep(0)  # until all wait for their responses
        tasks[1].cancel()
        return await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 60)

    first, second, third = asyncio.run(cancel_one())
    assert isinstance(second, asyncio.CancelledError)
    in_order = request(Server(tmp_path / "policy", TOKENS, 0), [0, 2])
    assert isinstance(first, Output)
    assert isinstance(third, Output)
    assert [first.token_ids, third.token_ids] == [in_order[row].token_ids for row in (0, 2)]


def test_responses_depend_on_the_seed(tmp_path: Path) -> None:
    policy = make_policy(tmp_path / "policy")
    first, other = (request(Server(policy, TOKENS, seed), list(range(40))) for seed in (0, 1))
    same = sum(first[row].token_ids == other[row].token_ids for row in range(40))
    assert same < 10


def test_second_tokens_follow_the_model(tmp_path: Path) -> None:
    """Chi-squared over the requests for responses to one prompt, whose seeds are their names."""
    requests = 20_000
    server = Server(make_policy(tmp_path / "policy"), 2, 0)
    prompt = tuple(PROMPTS[0])
    batch = [Request(f"1-0-{number}", prompt, 1.0, None) for number in range(requests)]
    responses = server._sample(batch)
    with torch.no_grad():
        p = next_token(server, [prompt])[0]
        longer = [token for token in range(len(p)) if token != server.end]
        after = next_token(server, [(*prompt, token) for token in longer])
    expected = (p[longer, None] * after).sum(0) * requests
    counts = torch.bincount(responses.tokens[responses.lengths == 2, 1], minlength=len(p))
    likely = expected > 5
    statistic = float(((counts - expected) ** 2 / expected)[likely].sum())
    freedom = int(likely.sum())
    assert statistic < freedom + 5 * math.sqrt(2 * freedom)


def next_token(server: Server, prompts: list[tuple[int, ...]]) -> torch.Tensor:
    """Probabilities of the token after each prompt, (prompts, vocabulary)."""
    hidden = server.model(torch.tensor(prompts), KVCache())[:, -1]
    return server.model.logits(hidden).softmax(-1)
