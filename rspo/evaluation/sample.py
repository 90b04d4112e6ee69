"""`rspo sample`: a block of a policy's responses to every problem of a suite of benchmarks."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rspo.config.experiment import Experiment
from rspo.config.schema import Config, Sampling
from rspo.core.files import digest
from rspo.core.tables import PROBLEMS, SAMPLES, read_table, write_table
from rspo.evaluation.journal import in_chunks, journal_of
from rspo.pipeline import tasks
from rspo.pipeline.provenance import code_version
from rspo.pipeline.run import run
from rspo.pipeline.task import Done, Task
from rspo.policies.prompt_limit import report_too_long, response_tokens, too_long
from rspo.policies.responses import Block, Question, Sampler
from rspo.policies.tokenizer import ChatTokenizer


def sample_suite(
    experiment: Experiment, policy: str, suite: str, block: int = 0, force: bool = False
) -> None:
    """Write one samples table of a policy (a cell or a base).

    A killed run resumes after the last complete batch and writes the same file.

    Args:
        block: samples `block * evaluation.block` and following of each problem.
    """
    experiment.require_block(block)
    step = tasks.sample(experiment, policy, suite, block)
    folder = experiment.policy(policy)
    problems = {name: experiment.problems(name) for name in experiment.benchmarks_of(suite)}
    run(step, lambda: _sample(step, experiment.config, folder, problems, block), force)


def _sample(
    step: Task, config: Config, folder: Path, problems: Mapping[str, Path], number: int
) -> Done:
    """Write a block of responses of the policy in `folder`; problems: each benchmark's table."""
    started, (path,) = time.monotonic(), step.outputs
    tokenizer = ChatTokenizer(folder)
    questions, long = {}, list[str]()
    for name, file in problems.items():
        questions[name], too_long_here = _questions(file, config.sampling, tokenizer)
        long += too_long_here
    notes = report_too_long(long, config.sampling, "kept whole, with shorter responses")
    sampler = _load(config, folder, tokenizer)
    size, seed = config.evaluation.block, config.evaluation.seed
    blocks = {name: Block(number, size, (seed, name)) for name in questions}
    batches = [
        (name, batch)
        for name in questions
        for batch in sampler.batches(questions[name], blocks[name])
    ]

    def draw(name_and_batch: tuple[str, list[int]]) -> list[dict[str, Any]]:
        """Rows of the samples table for a batch of a benchmark's questions."""
        name, batch = name_and_batch
        responses, drawn_with = sampler.draw(questions[name], batch, blocks[name])
        without_end = [tokenizer.without_end(tokens) for tokens in responses]
        texts = tokenizer.decode(without_end)
        samples = [(questions[name][row], index) for row in batch for index in blocks[name].indices]
        return [
            {
                "benchmark": name,
                "problem_id": question.problem,
                "sample_index": index,
                "text": text,
                "tokens": len(tokens),
                "finish_reason": "stop" if tokens[-1] in tokenizer.ends else "length",
                "seed": drawn_with,
            }
            for (question, index), tokens, text in zip(samples, responses, texts, strict=True)
        ]

    prompts = {name: [one.prompt for one in asked] for name, asked in questions.items()}
    origin = [step.settings, code_version(), digest(folder), prompts, number]
    write_table(path, SAMPLES, in_chunks(journal_of(path), origin, batches, draw))
    gpu_seconds = sampler.gpus * (time.monotonic() - started)
    return Done(gpu_seconds, notes, clean_up=journal_of(path).unlink)


def _questions(
    file: Path, sampling: Sampling, tokenizer: ChatTokenizer
) -> tuple[list[Question], list[str]]:
    """The questions of a benchmark, and the problems whose prompts are too long."""
    problems = read_table(file, PROBLEMS)
    prompts = tokenizer.prompts([problem["prompt"] for problem in problems])
    long = [problems[index]["id"] for index in too_long(prompts, sampling)]
    questions = [
        Question(problem["id"], prompt, response_tokens(len(prompt), sampling))
        for problem, prompt in zip(problems, prompts, strict=True)
    ]
    return questions, long


def _load(config: Config, folder: Path, tokenizer: ChatTokenizer) -> Sampler:
    """Load the policy into the sampler that the config names."""
    if config.sampler == "vllm":
        from rspo.policies.vllm_sampler import VllmSampler

        return VllmSampler(folder, tokenizer, config.sampling)
    from rspo.policies.sampler import TorchSampler

    return TorchSampler(folder, tokenizer, config.sampling)
