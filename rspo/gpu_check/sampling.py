"""Samples of the base policy with vLLM, whose log-probabilities transformers must confirm."""

import time
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from rspo.config.experiment import base_name
from rspo.core.tables import PROBLEMS, read_table
from rspo.gpu_check.random_judge import write_random_policy
from rspo.gpu_check.settings import SUITE, CheckFailed, Settings
from rspo.policies.prompt_limit import response_tokens
from rspo.policies.responses import Block, Question, Response
from rspo.policies.tokenizer import ChatTokenizer
from rspo.policies.vllm_sampler import VllmSampler

BLOCK = Block(0, 8, ("gpu-check",))
COMPARED = 16  # responses
# Mean absolute difference; 3e-6 and 0.01 on a CPU. GPUs may compute float32 with fewer digits.
ALLOWED = {torch.float32: 0.01, torch.bfloat16: 0.05}


def check(settings: Settings) -> str:
    return _check(settings, settings.experiment().policy(base_name(settings.model)))


def check_qwen2(settings: Settings) -> str:
    """With random weights, but in the architecture of the paper's models."""
    folder = Path(settings.folder) / "qwen2"
    write_random_policy(folder, settings.experiment().policy(base_name(settings.model)))
    return _check(settings, folder)


def _check(settings: Settings, folder: Path) -> str:
    experiment = settings.experiment()
    tokenizer, sampling = ChatTokenizer(folder), experiment.config.sampling
    problems = read_table(experiment.problems(experiment.benchmarks_of(SUITE)[0]), PROBLEMS)
    prompts = tokenizer.prompts([problem["prompt"] for problem in problems])
    questions = [
        Question(problem["id"], prompt, response_tokens(len(prompt), sampling))
        for problem, prompt in zip(problems, prompts, strict=True)
    ]
    sampler = VllmSampler(folder, tokenizer, sampling, log_probs=True)
    rows = list(range(len(questions)))
    sampler.draw(questions, rows[:1], BLOCK)  # the first requests compile
    started = time.perf_counter()
    responses = sampler.draw(questions, rows, BLOCK)
    seconds = time.perf_counter() - started
    asked = [question.prompt for question in questions for _ in BLOCK.indices]
    difference = mean_difference(folder, asked[:COMPARED], responses[:COMPARED])
    config = sampler.llm.llm_engine.vllm_config
    dtype, runner = config.model_config.dtype, 1 + config.use_v2_model_runner
    if not difference <= ALLOWED[dtype]:
        raise CheckFailed(
            f"log-probabilities differ from those of transformers by {difference:.2g} on average; "
            f"allowed in {dtype}: {ALLOWED[dtype]:g}"
        )
    tokens = sum(len(response.tokens) for response in responses)
    return (
        f"{len(responses)} responses, {tokens / seconds:.0f} tokens/s, {dtype}, model runner "
        f"{runner}; log-probabilities differ from those of transformers by {difference:.1g}"
    )


def mean_difference(
    folder: Path, prompts: Sequence[list[int]], responses: Sequence[Response]
) -> float:
    """Mean absolute difference of tokens' log-probabilities to transformers in float32, on a CPU.

    The responses are sampled at temperature 1 and top-p 1.
    """
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    differences: list[Tensor] = []
    for prompt, response in zip(prompts, responses, strict=True):
        with torch.inference_mode():
            logits = model(torch.tensor([prompt + response.tokens])).logits[0]
        log_probs = logits[len(prompt) - 1 : -1].log_softmax(dim=-1)
        expected = log_probs.gather(1, torch.tensor(response.tokens)[:, None])[:, 0]
        differences.append((expected - torch.tensor(response.log_probs)).abs())
    return float(torch.cat(differences).mean())
