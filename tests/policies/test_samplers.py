"""The samplers of evaluation, torch and vLLM: the same distribution, and killed jobs go on."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import torch

from rspo.config.schema import Sampling
from rspo.core.errors import InputError
from rspo.core.tables import PROBLEMS, SAMPLES, read_table, write_table
from rspo.evaluation.estimators import pass_at_k, pass_at_k_variance
from rspo.policies import qwen2
from rspo.policies.qwen2 import response_logits
from rspo.policies.responses import Block, Question, Response
from rspo.policies.tokenizer import ChatTokenizer, save_tokenizer
from rspo.policies.torch_sampler import TorchSampler
from rspo.policies.vllm_sampler import VllmSampler
from rspo.training.pretraining import make_base_policy
from tests.policies.test_policies import END, PAD, make
from tests.policies.test_prompt_limit import problem
from tests.support import ROOT, tiny_world

WHOLE = Sampling(temperature=1.0, top_p=1.0, max_prompt_tokens=10, max_response_tokens=18)
NUCLEUS = WHOLE.model_copy(update={"temperature": 0.7, "top_p": 0.8})
BLOCK = Block(1, 64, (1000, "test"))
PROBLEM_COUNT = 40


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random Qwen2 whose distributions are far from uniform, and whose responses end."""
    folder = tmp_path_factory.mktemp("policy")
    save_tokenizer(folder, 10, 28)
    qwen2.save(make(), folder, {"eos_token_id": END, "pad_token_id": PAD})
    return folder


@pytest.fixture(scope="module")
def questions() -> list[Question]:
    """The last two ask the same; the second one may have nine tokens only."""
    generator = torch.Generator().manual_seed(5)
    prompts = torch.randint(2, 35, (PROBLEM_COUNT, 10), generator=generator).tolist()
    prompts[-1] = prompts[-2]
    limits = [9 if place == 1 else 18 for place in range(PROBLEM_COUNT)]
    pairs = zip(prompts, limits, strict=True)
    return [Question(f"p{place}", prompt, limit) for place, (prompt, limit) in enumerate(pairs)]


@pytest.fixture(scope="module")
def drawn(
    folder: Path, questions: list[Question], tmp_path_factory: pytest.TempPathFactory
) -> list[list[Response]]:
    """vLLM's responses under WHOLE and under NUCLEUS."""
    output = tmp_path_factory.mktemp("drawn") / "responses.json"
    asked = {
        "folder": str(folder),
        "questions": [asdict(question) for question in questions],
        "block": asdict(BLOCK),
        "samplings": [sampling.model_dump() for sampling in (WHOLE, NUCLEUS)],
        "output": str(output),
    }
    command = [sys.executable, "-m", "tests.support.vllm_draws"]
    subprocess.run(command, cwd=ROOT, input=json.dumps(asked), text=True, check=True, timeout=500)
    return [[Response(**row) for row in rows] for rows in json.loads(output.read_text())]


def log_probabilities(
    folder: Path, questions: list[Question], responses: list[Response], temperature: float
) -> list[torch.Tensor]:
    """Of every token at each place of a response, from the model of the torch sampler."""
    longest = max(len(response.tokens) for response in responses)
    padded = [response.tokens + [PAD] * (longest - len(response.tokens)) for response in responses]
    prompts = torch.tensor([question.prompt for question in questions])
    prompt_of = torch.arange(len(questions)).repeat_interleave(BLOCK.size)
    with torch.no_grad():
        logits = response_logits(qwen2.load(folder), prompts, prompt_of, torch.tensor(padded))
    found = (logits / temperature).log_softmax(-1)
    return [row[: len(response.tokens)] for row, response in zip(found, responses, strict=True)]


def test_token_log_probabilities_are_those_of_the_torch_model(
    folder: Path, questions: list[Question], drawn: list[list[Response]]
) -> None:
    responses = drawn[0]
    expected = log_probabilities(folder, questions, responses, WHOLE.temperature)
    worst = 0.0
    for response, row in zip(responses, expected, strict=True):
        mine = row.gather(-1, torch.tensor(response.tokens)[:, None])[:, 0]
        worst = max(worst, float((mine - torch.tensor(response.log_probs)).abs().max()))
    assert len(responses) == PROBLEM_COUNT * BLOCK.size
    assert worst < 1e-4


def test_temperature_and_top_p_are_those_of_the_config(
    folder: Path, questions: list[Question], drawn: list[list[Response]]
) -> None:
    """Every token is one of the likeliest that reach top_p together, with its share of them."""
    responses = drawn[1]
    rows = log_probabilities(folder, questions, responses, NUCLEUS.temperature)
    log_p = torch.cat(rows).double()  # [tokens, vocabulary]
    tokens = torch.tensor([token for response in responses for token in response.tokens])
    given = torch.tensor([value for response in responses for value in response.log_probs])
    ordered = log_p.exp().sort(descending=True).values
    before = ordered.cumsum(-1) - ordered
    # Where rounding decides whether one more token belongs, there is nothing to compare.
    clear = (before - NUCLEUS.top_p).abs().min(dim=-1).values > 1e-4
    assert clear.float().mean() > 0.9
    kept = torch.where(before < NUCLEUS.top_p, ordered, 0.0).sum(-1)
    least = torch.where(before < NUCLEUS.top_p, ordered, 1.0).min(dim=-1).values
    drawn_log_p = log_p.gather(-1, tokens[:, None])[:, 0]
    assert (drawn_log_p.exp() >= least - 1e-6)[clear].all()
    assert ((drawn_log_p - kept.log()) - given).abs()[clear].max() < 1e-4


def ends_early(questions: list[Question], responses: list[Response]) -> np.ndarray:
    """[problems, samples]: "correct" is a response that ends within 1, 2, ... 9 tokens."""
    limits = [1 + place % 9 for place in range(len(questions)) for _ in range(BLOCK.size)]
    right = [r.ended and len(r.tokens) <= limit for r, limit in zip(responses, limits, strict=True)]
    return np.array(right).reshape(len(questions), BLOCK.size)


@pytest.fixture(scope="module")
def drawn_by_torch(folder: Path, questions: list[Question]) -> list[Response]:
    """The torch sampler's, under WHOLE."""
    sampler = TorchSampler(folder, ChatTokenizer(folder), WHOLE)
    batches = sampler.batches(questions, BLOCK)
    return [row for batch in batches for row in sampler.draw(questions, batch, BLOCK)]


@pytest.mark.parametrize("k", [1, 2, 4, 8, 16])
def test_pass_at_k_agrees_within_sampling_error(
    questions: list[Question],
    drawn: list[list[Response]],
    drawn_by_torch: list[Response],
    k: int,
) -> None:
    estimates, variances = [], []
    for found in (drawn[0], drawn_by_torch):
        right = ends_early(questions, found).sum(axis=1)
        estimates.append(pass_at_k(BLOCK.size, right, k).mean())
        variances.append(pass_at_k_variance(BLOCK.size, right, k).sum() / PROBLEM_COUNT**2)
    error = np.sqrt(sum(variances))
    assert error < 0.04  # or it could not tell much
    assert 0.02 < estimates[1] < 0.98
    assert abs(estimates[0] - estimates[1]) < 3.5 * error


def test_each_response_has_random_numbers_of_its_own(drawn: list[list[Response]]) -> None:
    """With one seed for all, the same prompt would get the same responses."""
    responses = drawn[0]
    assert len({response.seed for response in responses}) == len(responses)
    first, second = responses[-2 * BLOCK.size : -BLOCK.size], responses[-BLOCK.size :]
    assert [r.tokens for r in first] != [r.tokens for r in second]
    assert len({tuple(r.tokens) for r in first}) > BLOCK.size / 2


def test_responses_stop_at_the_end_token_or_their_own_limit(
    questions: list[Question], drawn: list[list[Response]]
) -> None:
    rows = [question for question in questions for _ in range(BLOCK.size)]
    for question, response in zip(rows, drawn[0], strict=True):
        assert response.tokens[:-1].count(END) == 0
        assert response.ended == (response.tokens[-1] == END)
        assert response.ended or len(response.tokens) == question.max_tokens
    assert {response.ended for response in drawn[0]} == {True, False}


def test_a_folder_that_is_not_there_is_not_looked_for_on_the_hub(
    folder: Path, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=r"no/where: not a model folder"):
        VllmSampler(Path("no/where"), ChatTokenizer(folder), WHOLE)


def test_a_model_with_less_context_than_the_config_asks_for_is_refused(folder: Path) -> None:
    more = WHOLE.model_copy(update={"max_response_tokens": 19})
    with pytest.raises(InputError, match=r"max_position_embeddings = 28, fewer than .* = 29"):
        VllmSampler(folder, ChatTokenizer(folder), more)


# --- killed jobs ----------------------------------------------------------------------------------

# Batches small enough that a job of a test has several.
PROGRAM = """
import sys
from rspo.policies import torch_sampler, vllm_sampler
torch_sampler.PROBLEMS_PER_BATCH = 8
vllm_sampler.RESPONSES_PER_BATCH = 64
from rspo.cli import main
sys.exit(main(sys.argv[1:]))
"""
BATCHES = 20


@pytest.mark.parametrize(
    "sampler",
    ["torch", pytest.param("vllm", marks=pytest.mark.long)],  # starts vLLM thrice
)
def test_a_killed_job_goes_on_where_it_was_to_the_same_file(tmp_path: Path, sampler: str) -> None:
    experiment = tiny_world.load(tmp_path)
    make_base_policy(experiment, "small")
    problems = [problem("linear", row, f"{row}+1=?") for row in range(8 * BATCHES)]
    write_table(experiment.problems("linear"), PROBLEMS, problems)
    path = experiment.samples("small--base", "linear", 0)
    kept = path.with_name(".0.journal")
    settings = [f"--set={key}={json.dumps(value)}" for key, value in tiny_world.OVERRIDES.items()]
    command = ["sample", "small--base", "linear", f"--set=sampler={sampler}", *settings]

    def start() -> "subprocess.Popen[bytes]":
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        return subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *command], cwd=tmp_path, env=environment
        )

    assert start().wait() == 0
    undisturbed = path.read_bytes()
    assert {row["problem_id"] for row in read_table(path, SAMPLES)} == {
        row["id"] for row in problems
    }
    path.unlink()

    def done() -> list[str]:
        """A line a batch, behind the first; the last one may be cut."""
        lines = kept.read_text().splitlines(keepends=True)[1:] if kept.exists() else []
        return [line for line in lines if line.endswith("\n")]

    process = start()
    end = time.monotonic() + 300
    while len(done()) < 2 and time.monotonic() < end and process.poll() is None:
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    before = done()
    assert 2 <= len(before) < BATCHES
    assert not path.exists()

    process = start()
    while len(done()) <= len(before) and process.poll() is None:
        time.sleep(0.005)
    if process.poll() is None:
        assert done()[: len(before)] == before
    assert process.wait() == 0
    assert path.read_bytes() == undisturbed
    assert not kept.exists()
