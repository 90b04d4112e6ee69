"""Prompts with the same beginning, such as worked examples, share its computation."""

import pytest
import torch

from rspo.policies import qwen2
from rspo.policies.qwen2 import (
    ModelConfig,
    Qwen2,
    padded_on_the_left,
    response_logits,
    shared_beginning,
)
from rspo.policies.sampler import Responses, sample

VOCABULARY = 50
SHARED = 80
LENGTHS = [83, 90, 81, 97]
PAD = 0
T = 5
N = 3


@pytest.fixture
def model() -> Qwen2:
    shape = ModelConfig(
        vocab_size=VOCABULARY,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=64,
        max_position_embeddings=128,
    )
    model = Qwen2(shape)
    model.initialise(0.3, torch.Generator().manual_seed(0))
    return model


@pytest.fixture
def prompts() -> list[list[int]]:
    """Prompts of different lengths, of which the first 80 tokens are the same."""
    draw = torch.Generator().manual_seed(1)
    beginning = torch.randint(1, VOCABULARY, (SHARED,), generator=draw).tolist()
    rows = []
    for row, length in enumerate(LENGTHS):
        rest = torch.randint(1, VOCABULARY, (length - SHARED,), generator=draw).tolist()
        rest[0] = row + 1  # no further token is shared
        rows.append(beginning + rest)
    return rows


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of tokens of each call of the model."""
    counts = []
    forward = Qwen2.forward

    def record(model, tokens, *more):  # type: ignore[no-untyped-def]
        counts.append(tokens.numel())
        return forward(model, tokens, *more)

    monkeypatch.setattr(Qwen2, "forward", record)
    return counts


def logits_and_gradients(
    model: Qwen2, prompts: list[list[int]]
) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """The logits of two random responses to each prompt; the gradients of their sum of squares."""
    tokens, padding = padded_on_the_left(prompts, PAD, model.device)
    draw = torch.Generator().manual_seed(2)
    responses = torch.randint(1, VOCABULARY, (2 * len(prompts), T), generator=draw)
    prompt_of = torch.arange(len(prompts)).repeat_interleave(2)
    logits = response_logits(model, tokens, prompt_of, responses, padding)
    gradients = torch.autograd.grad(logits.square().sum(), list(model.parameters()))
    return logits.detach(), list(gradients)


def one_by_one(model: Qwen2, prompts: list[list[int]]) -> list[torch.Tensor]:
    """The logits of the last token of each prompt, which is alone in its batch."""
    rows = []
    for prompt in prompts:
        hidden = model(torch.tensor([prompt]), qwen2.KVCache())
        rows.append(model.logits(hidden)[0, -1])
    return rows


def test_the_beginning_is_computed_once(
    model: Qwen2, prompts: list[list[int]], computed: list[int]
) -> None:
    logits_and_gradients(model, prompts)
    rest = len(prompts) * (max(LENGTHS) - SHARED)
    assert computed == [SHARED, rest, 2 * len(prompts) * (T - 1)]


@pytest.mark.parametrize("same_length", [False, True])
def test_logits_and_gradients_are_those_without_sharing(
    model: Qwen2,
    prompts: list[list[int]],
    monkeypatch: pytest.MonkeyPatch,
    same_length: bool,
) -> None:
    if same_length:
        prompts = [prompt[: min(LENGTHS)] for prompt in prompts]
    logits, gradients = logits_and_gradients(model, prompts)
    for prompt, row in enumerate(one_by_one(model, prompts)):
        torch.testing.assert_close(logits[2 * prompt, 0], row, atol=1e-4, rtol=1e-4)
    monkeypatch.setattr(qwen2, "SHARED_AT_LEAST", 1000)
    expected, expected_gradients = logits_and_gradients(model, prompts)
    torch.testing.assert_close(logits, expected, atol=1e-4, rtol=1e-4)
    for found, one in zip(gradients, expected_gradients, strict=True):
        assert (found - one).norm() <= 1e-4 * one.norm()


def test_the_same_responses_are_sampled_as_without_sharing(
    model: Qwen2, prompts: list[list[int]], monkeypatch: pytest.MonkeyPatch, computed: list[int]
) -> None:
    def draw() -> Responses:
        generator = torch.Generator().manual_seed(3)
        return sample(model, prompts, N, max_tokens=T, end=7, pad=PAD, generator=generator)

    shared = draw()
    assert computed[:2] == [SHARED, len(prompts) * (max(LENGTHS) - SHARED)]
    monkeypatch.setattr(qwen2, "SHARED_AT_LEAST", 1000)
    alone = draw()
    assert torch.equal(shared.tokens, alone.tokens)
    torch.testing.assert_close(shared.log_probs, alone.log_probs, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    ("prompts", "expected"),
    [
        ([[1, 2, 3, 4], [1, 2, 5]], 2),
        ([[1, 2, 3, 4], [1, 2, 3]], 2),  # the last token of a prompt predicts the response
        ([[1, 2, 3], [1, 2, 3]], 2),
        ([[2, 1], [1, 2]], 0),
        ([[1], [1, 2]], 0),
    ],
)
def test_the_shared_beginning_leaves_a_token_of_each_prompt(
    prompts: list[list[int]], expected: int
) -> None:
    tokens, padding = padded_on_the_left(prompts, PAD, torch.device("cpu"))
    assert shared_beginning(tokens, padding) == expected
