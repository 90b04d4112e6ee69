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
        block: number of the block. It has `evaluation.block` samples of each problem, of which
            the first has the index `block * evaluation.block`.
    """
    experiment.require_block(policy, suite, block)
    task = tasks.sample(experiment, policy, suite, block)
    folder = experiment.files.policy(policy)
    problems = {name: experiment.files.problems(name) for name in experiment.benchmarks_of(suite)}
    config = experiment.config.model_copy(update={"sampling": experiment.sampling_of(policy)})
    run(task, lambda: _sample(task, config, folder, problems, block), force)


def _sample(
    task: Task, config: Config, folder: Path, problems: Mapping[str, Path], number: int
) -> Done:
    """Write a block of responses of the policy in `folder`.

    Args:
        problems: the table of each benchmark.
        number: number of the block.
    """
    started = time.monotonic()
    (path,) = task.outputs
    tokenizer = ChatTokenizer(folder)
    questions, long = _all_questions(problems, config.sampling, tokenizer)
    notes = report_too_long(long, config.sampling, "kept whole, with shorter responses")
    sampler, place = _load(config, folder, tokenizer)
    evaluation = config.evaluation
    blocks = {name: Block(number, evaluation.block, (evaluation.seed, name)) for name in questions}
    # A batch has the indices of some questions of one benchmark.
    batches = [
        (name, batch)
        for name in questions
        for batch in sampler.batches(questions[name], blocks[name])
    ]

    def draw(name_and_batch: tuple[str, list[int]]) -> list[dict[str, Any]]:
        """Rows of the samples table for a batch of a benchmark's questions."""
        name, batch = name_and_batch
        responses, drawn_with = sampler.draw(questions[name], batch, blocks[name])
        # The text has no end token, but the number of tokens includes it.
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
                # A response that reached the limit of tokens does not end with an end token.
                "finish_reason": "stop" if tokens[-1] in tokenizer.ends else "length",
                "seed": drawn_with,
            }
            for (question, index), tokens, text in zip(samples, responses, texts, strict=True)
        ]

    prompts = {}
    for name, asked in questions.items():
        prompts[name] = [question.prompt for question in asked]
    # Everything that decides a sample: a journal with another origin is not continued.
    origin = [task.settings, code_version(), digest(folder), prompts, number, place]
    write_table(path, SAMPLES, in_chunks(journal_of(path), origin, batches, draw))
    gpu_seconds = sampler.gpus * (time.monotonic() - started)
    return Done(gpu_seconds, notes | place, clean_up=journal_of(path).unlink)


def _all_questions(
    problems: Mapping[str, Path], sampling: Sampling, tokenizer: ChatTokenizer
) -> tuple[dict[str, list[Question]], list[str]]:
    """The questions of each benchmark, and the ids of problems whose prompts are too long."""
    questions = {}
    long: list[str] = []
    for name, file in problems.items():
        questions[name], long_of_benchmark = _questions(file, sampling, tokenizer)
        long += long_of_benchmark
    return questions, long


def _questions(
    file: Path, sampling: Sampling, tokenizer: ChatTokenizer
) -> tuple[list[Question], list[str]]:
    """The questions of a benchmark, and the ids of problems whose prompts are too long.

    Args:
        file: the table of the benchmark's problems.
    """
    problems = read_table(file, PROBLEMS)
    prompts = tokenizer.prompts([problem["prompt"] for problem in problems])
    long = [problems[index]["id"] for index in too_long(prompts, sampling)]
    questions = [
        Question(problem["id"], prompt, response_tokens(len(prompt), sampling))
        for problem, prompt in zip(problems, prompts, strict=True)
    ]
    return questions, long


def _load(config: Config, folder: Path, tokenizer: ChatTokenizer) -> tuple[Sampler, dict[str, Any]]:
    """Load the policy into the sampler that the config names.

    Returns: the sampler; and notes for the provenance: the device and the data type of `torch`,
        which depend on the machine, and nothing of vLLM.
    """
    if config.sampler == "vllm":
        from rspo.policies.vllm_sampler import VllmSampler

        return VllmSampler(folder, tokenizer, config.sampling), {}
    from rspo.policies.sampler import TorchSampler

    sampler = TorchSampler(folder, tokenizer, config.sampling, config.local)
    return sampler, sampler.place.note
