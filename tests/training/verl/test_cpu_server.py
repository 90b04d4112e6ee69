"""The rollout server on CPUs: a response depends on its request and the weights alone."""

import asyncio
from pathlib import Path

import torch

from rspo.policies import qwen2
from rspo.policies.qwen2 import ModelConfig, Qwen2
from rspo.policies.tokenizer import build_tokenizer, save_tokenizer
from rspo.training.verl.cpu_server import Output, Server

PROMPTS = [[2 + (7 * row + place) % 30 for place in range(10)] for row in range(40)]
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


def ask(server: Server, rows: list[int]) -> dict[int, Output]:
    """Requests that arrive together, in this order."""

    async def answers() -> list[Output]:
        parameters = {"temperature": 1.0}
        return await asyncio.gather(
            *(server.generate(f"1-{row}-0", PROMPTS[row], parameters) for row in rows)
        )

    return dict(zip(rows, asyncio.run(answers()), strict=True))


def test_who_else_asks_and_in_which_order_changes_nothing(tmp_path: Path) -> None:
    policy = make_policy(tmp_path / "policy")
    everyone = list(range(40))
    together = ask(Server(policy, TOKENS, 0), everyone)
    backwards = ask(Server(policy, TOKENS, 0), everyone[::-1])
    server = Server(policy, TOKENS, 0)
    apart = {}
    for first, last in ((0, 1), (1, 3), (3, 40)):
        apart |= ask(server, everyone[first:last])
    for row in everyone:
        for other in (backwards[row], apart[row]):
            assert other.token_ids == together[row].token_ids
            # In another order of adding up, the last digit may differ on another CPU.
            torch.testing.assert_close(other.log_probs, together[row].log_probs)
    assert len({tuple(output.token_ids) for output in together.values()}) > 30


def test_another_seed_and_another_name_give_another_response(tmp_path: Path) -> None:
    policy = make_policy(tmp_path / "policy")
    first, other = (ask(Server(policy, TOKENS, seed), list(range(40))) for seed in (0, 1))
    same = sum(first[row].token_ids == other[row].token_ids for row in range(40))
    assert same < 10
