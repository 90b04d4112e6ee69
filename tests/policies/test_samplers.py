"""The samplers of evaluation, torch and vLLM, draw from the same distribution."""

import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rspo.config.schema import Sampling
from rspo.estimators import pass_at_k, pass_at_k_variance
from rspo.policies import qwen2
from rspo.policies.qwen2 import response_logits
from rspo.policies.responses import Block, Question
from rspo.policies.sampler import TorchSampler
from rspo.policies.tokenizer import ChatTokenizer
from tests.support import ROOT
from tests.support.log_probs import Logged
from tests.support.random_policy import END, PAD, peaked_model, save_policy

FULL = Sampling(temperature=1.0, top_p=1.0, max_prompt_tokens=10, max_response_tokens=18)
NUCLEUS = FULL.model_copy(update={"temperature": 0.7, "top_p": 0.8})
BLOCK = Block(1, 64, (1000, "test"))
PROBLEM_COUNT = 40


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random Qwen2 with distributions far from uniform, and with responses that end."""
    return save_policy(peaked_model(), tmp_path_factory.mktemp("policy"))


@pytest.fixture(scope="module")
def questions() -> list[Question]:
    """The last two have the same prompt; responses to the second have at most nine tokens."""
    generator = torch.Generator().manual_seed(5)
    prompts = torch.randint(2, 35, (PROBLEM_COUNT, 10), generator=generator).tolist()
    prompts[-1] = prompts[-2]
    limits = [9 if index == 1 else 18 for index in range(PROBLEM_COUNT)]
    pairs = zip(prompts, limits, strict=True)
    return [Question(f"p{index}", prompt, limit) for index, (prompt, limit) in enumerate(pairs)]


@pytest.fixture(scope="module")
def results(
    folder: Path, questions: list[Question], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    """The output of tests/support/vllm_draws.py with the settings FULL and NUCLEUS."""
    output = tmp_path_factory.mktemp("drawn") / "responses.json"
    request = {
        "folder": str(folder),
        "questions": [asdict(question) for question in questions],
        "block": asdict(BLOCK),
        "samplings": [sampling.model_dump() for sampling in (FULL, NUCLEUS)],
        "output": str(output),
    }
    command = [sys.executable, "-m", "tests.support.vllm_draws"]
    subprocess.run(command, cwd=ROOT, input=json.dumps(request), text=True, check=True)
    return json.loads(output.read_text())


@pytest.fixture(scope="module")
def drawn(results: dict[str, Any]) -> list[list[Logged]]:
    """Responses of vLLM with the settings FULL and NUCLEUS."""
    return [[Logged(**row) for row in rows] for rows in results["drawn"]]


def log_probabilities(
    folder: Path, questions: list[Question], responses: list[Logged], temperature: float
) -> list[torch.Tensor]:
    """(T, vocabulary) of each response, from the model of the torch sampler."""
    longest = max(len(response.tokens) for response in responses)
    padded = [response.tokens + [PAD] * (longest - len(response.tokens)) for response in responses]
    prompts = torch.tensor([question.prompt for question in questions])
    prompt_of = torch.arange(len(questions)).repeat_interleave(BLOCK.size)
    with torch.no_grad():
        logits = response_logits(qwen2.load(folder), prompts, prompt_of, torch.tensor(padded))
    log_p = (logits / temperature).log_softmax(-1)
    return [row[: len(response.tokens)] for row, response in zip(log_p, responses, strict=True)]


def test_log_probabilities_equal_those_of_the_torch_model(
    folder: Path, questions: list[Question], drawn: list[list[Logged]]
) -> None:
    responses = drawn[0]
    expected = log_probabilities(folder, questions, responses, FULL.temperature)
    worst = 0.0
    for response, row in zip(responses, expected, strict=True):
        mine = row.gather(-1, torch.tensor(response.tokens)[:, None])[:, 0]
        worst = max(worst, float((mine - torch.tensor(response.log_probs)).abs().max()))
    assert len(responses) == PROBLEM_COUNT * BLOCK.size
    assert worst < 1e-4


def test_temperature_and_top_p_follow_the_config(
    folder: Path, questions: list[Question], drawn: list[list[Logged]]
) -> None:
    """Each token is in the nucleus of top_p, with its probability renormalised over it."""
    responses = drawn[1]
    rows = log_probabilities(folder, questions, responses, NUCLEUS.temperature)
    log_p = torch.cat(rows).double()  # (tokens, vocabulary)
    tokens = torch.tensor([token for response in responses for token in response.tokens])
    given = torch.tensor([value for response in responses for value in response.log_probs])
    ordered = log_p.exp().sort(descending=True).values
    before = ordered.cumsum(-1) - ordered
    # Leave positions out where rounding decides whether a token is in the nucleus.
    clear = (before - NUCLEUS.top_p).abs().min(dim=-1).values > 1e-4
    assert clear.float().mean() > 0.9
    kept = torch.where(before < NUCLEUS.top_p, ordered, 0.0).sum(-1)
    least = torch.where(before < NUCLEUS.top_p, ordered, 1.0).min(dim=-1).values
    drawn_log_p = log_p.gather(-1, tokens[:, None])[:, 0]
    assert (drawn_log_p.exp() >= least - 1e-6)[clear].all()
    assert ((drawn_log_p - kept.log()) - given).abs()[clear].max() < 1e-4


def ends_early(questions: list[Question], responses: list[list[int]]) -> np.ndarray:
    """(problems, samples): "correct" is a response that ends within 1, 2, ... 9 tokens."""
    limits = [1 + row % 9 for row in range(len(questions)) for _ in range(BLOCK.size)]
    right = [r[-1] == END and len(r) <= limit for r, limit in zip(responses, limits, strict=True)]
    return np.array(right).reshape(len(questions), BLOCK.size)


@pytest.fixture(scope="module")
def drawn_by_torch(folder: Path, questions: list[Question]) -> list[list[int]]:
    """Responses of the torch sampler with the settings FULL."""
    sampler = TorchSampler(folder, ChatTokenizer(folder), FULL)
    batches = sampler.batches(questions, BLOCK)
    return [row for batch in batches for row in sampler.draw(questions, batch, BLOCK)[0]]


@pytest.mark.parametrize("k", [1, 2, 4, 8, 16])
def test_pass_at_k_agrees_within_sampling_error(
    questions: list[Question],
    drawn: list[list[Logged]],
    drawn_by_torch: list[list[int]],
    k: int,
) -> None:
    estimates, variances = [], []
    for responses in ([response.tokens for response in drawn[0]], drawn_by_torch):
        right = ends_early(questions, responses).sum(axis=1)
        estimates.append(pass_at_k(BLOCK.size, right, k).mean())
        variances.append(pass_at_k_variance(BLOCK.size, right, k).sum() / PROBLEM_COUNT**2)
    error = np.sqrt(sum(variances))
    assert error < 0.04  # otherwise the comparison has no power
    assert 0.02 < estimates[1] < 0.98
    assert abs(estimates[0] - estimates[1]) < 3.5 * error


def test_a_batch_can_be_repeated_and_no_two_batches_or_blocks_share_random_numbers(
    results: dict[str, Any],
) -> None:
    """A resumed job samples a batch without those before it."""
    rows = results["drawn"][0]
    last = rows[-10 * BLOCK.size :]
    assert results["last_batch"] == last
    assert [row["tokens"] for row in results["other_block"]] != [row["tokens"] for row in last]
    first, second = last[-2 * BLOCK.size : -BLOCK.size], last[-BLOCK.size :]  # of equal prompts
    assert [row["tokens"] for row in first] != [row["tokens"] for row in second]
    seeds = [row["seed"] for row in [*rows, *results["other_block"]]]
    assert len(set(seeds)) == 5
    assert seeds == sorted(seeds, key=seeds.index)  # one seed per batch


def test_responses_stop_at_the_end_token_or_their_own_limit(
    questions: list[Question], drawn: list[list[Logged]]
) -> None:
    rows = [question for question in questions for _ in range(BLOCK.size)]
    for question, response in zip(rows, drawn[0], strict=True):
        assert response.tokens[:-1].count(END) == 0
        assert response.tokens[-1] == END or len(response.tokens) == question.max_tokens
    assert {response.tokens[-1] == END for response in drawn[0]} == {True, False}
