"""Samples of a policy with vLLM, whose log-probabilities transformers must confirm."""

import shutil
import time
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from rspo.core.tables import PROBLEMS, read_table
from rspo.policies import qwen2
from rspo.policies.prompt_limit import response_tokens
from rspo.policies.qwen2 import ModelConfig, Qwen2
from rspo.policies.responses import Block, Question
from rspo.policies.templates import TEMPLATES, set_template
from rspo.policies.tokenizer import ChatTokenizer
from tests.gpu.settings import SUITE, Settings
from tests.support.log_probs import Logged, LoggingSampler

BLOCK = Block(0, 8, ("gpu-check",))
COMPARED = 16  # responses
# Mean absolute difference; 3e-6 and 0.01 on a CPU. GPUs may compute float32 with fewer digits.
ALLOWED = {torch.float32: 0.01, torch.bfloat16: 0.05}


def compare(settings: Settings, folder: Path) -> str:
    """Sample from the policy of a folder; returns what was measured.

    Raises: AssertionError if the log-probabilities differ.
    """
    experiment = settings.experiment()
    tokenizer, sampling = ChatTokenizer(folder), experiment.config.sampling
    problems = read_table(experiment.files.problems(experiment.benchmarks_of(SUITE)[0]), PROBLEMS)
    prompts = tokenizer.prompts([problem["prompt"] for problem in problems])
    questions = [
        Question(problem["id"], prompt, response_tokens(len(prompt), sampling))
        for problem, prompt in zip(problems, prompts, strict=True)
    ]
    sampler = LoggingSampler(folder, tokenizer, sampling)
    rows = list(range(len(questions)))
    sampler.logged(questions, rows[:1], BLOCK)  # the first requests compile
    started = time.perf_counter()
    responses = sampler.logged(questions, rows, BLOCK)
    seconds = time.perf_counter() - started
    asked = [question.prompt for question in questions for _ in BLOCK.indices]
    difference = mean_difference(folder, asked[:COMPARED], responses[:COMPARED])
    config = sampler.llm.llm_engine.vllm_config
    dtype, runner = config.model_config.dtype, 1 + config.use_v2_model_runner
    assert runner == 1, "vLLM uses its second model runner, and trainings use the first"
    assert difference <= ALLOWED[dtype], (
        f"log-probabilities differ from those of transformers by {difference:.2g} on average; "
        f"allowed in {dtype}: {ALLOWED[dtype]:g}"
    )
    tokens = sum(len(response.tokens) for response in responses)
    return (
        f"{len(responses)} responses, {tokens / seconds:.0f} tokens/s, {dtype}, model runner "
        f"{runner}; log-probabilities differ from those of transformers by {difference:.1g}"
    )


def mean_difference(
    folder: Path, prompts: Sequence[list[int]], responses: Sequence[Logged]
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


def write_random_policy(folder: Path, policy: Path) -> None:
    """Write a tiny Qwen2, with the tokenizer of `policy`, that has tokens of all probabilities."""
    folder.mkdir()
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(policy / name, folder)
    set_template(folder, TEMPLATES["qwen_math"])
    tokenizer = ChatTokenizer(folder)
    model = Qwen2(ModelConfig(tokenizer.size, 128, 2, 2, 1, 128, 8192))
    model.initialise(0.2, torch.Generator().manual_seed(0))
    qwen2.save(model, folder, {"eos_token_id": tokenizer.end})
