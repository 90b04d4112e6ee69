"""The rollout server on CPUs: a response depends only on its request and the weights."""

import asyncio
import math
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from rspo.core.errors import InputError
from rspo.policies.qwen2 import KVCache
from rspo.training.verl.cpu_server import Output, Request, Server, TinyPolicy
from tests.support import llama_model
from tests.support.random_policy import random_model, save_policy

PROMPTS = [[2 + (7 * row + column) % 30 for column in range(10)] for row in range(40)]
TOKENS = 18


def make_policy(folder: Path) -> Path:
    return save_policy(random_model(deviation=0.3), folder)


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
    batch = [Request(f"1-0-{number}", prompt, 1.0, 1.0, None) for number in range(requests)]
    responses = server._sample(batch)
    with torch.no_grad():
        p = next_token(server, [prompt])[0]
        longer = [token for token in range(len(p)) if token != server.policy.end]
        after = next_token(server, [(*prompt, token) for token in longer])
    expected = (p[longer, None] * after).sum(0) * requests
    second = [response.tokens[1] for response in responses if len(response.tokens) == 2]
    counts = torch.bincount(torch.tensor(second), minlength=len(p))
    likely = expected > 5
    statistic = float(((counts - expected) ** 2 / expected)[likely].sum())
    freedom = int(likely.sum())
    assert statistic < freedom + 5 * math.sqrt(2 * freedom)


def next_token(server: Server, prompts: list[tuple[int, ...]]) -> torch.Tensor:
    """Probabilities of the token after each prompt, (prompts, vocabulary)."""
    assert isinstance(server.policy, TinyPolicy)
    model = server.policy.model
    return model.logits(model(torch.tensor(prompts), KVCache())[:, -1]).softmax(-1)


def test_a_published_model_answers_prompts_of_different_lengths(tmp_path: Path) -> None:
    llama_model.write(tmp_path / "llama")
    server = Server(tmp_path / "llama", TOKENS, 0)
    prompts = [llama_model.tokenizer().encode("1" * length).ids for length in range(1, 9)]

    async def gather() -> list[Output]:
        return await asyncio.gather(
            *(
                server.generate(f"1-{row}-0", prompt, {"temperature": 1.0, "top_p": 0.9})
                for row, prompt in enumerate(prompts)
            )
        )

    outputs = asyncio.run(gather())
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "llama")
    for prompt, output in zip(prompts, outputs, strict=True):
        assert 0 < len(output.token_ids) == len(output.log_probs) <= TOKENS
        with torch.inference_mode():
            p = model(torch.tensor([prompt])).logits[0, -1].softmax(-1)
        # Tokens above it have less than 90 % together, so with the token they have more.
        first = p[output.token_ids[0]]
        assert p[p > first].sum() < 0.9
        assert math.exp(output.log_probs[0]) > first


def test_a_model_from_scratch_refuses_top_p(tmp_path: Path) -> None:
    server = Server(make_policy(tmp_path / "policy"), TOKENS, 0)
    with pytest.raises(InputError, match=r"top_p = 0\.9: models from scratch"):
        asyncio.run(server.generate("1-0-0", PROMPTS[0], {"temperature": 1.0, "top_p": 0.9}))
