"""`rspo sample`: a policy's N responses to every problem of a suite of benchmarks."""

import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from rspo.config import fingerprints
from rspo.config.experiment import Experiment
from rspo.core.provenance import code_version, write_provenance
from rspo.core.tables import PROBLEMS, SAMPLES, read_table, write_table
from rspo.core.usage import usage_so_far
from rspo.datasets.prepared import existing_problems
from rspo.evaluation.journal import in_chunks, journal_of
from rspo.evaluation.suite_tables import keep, make_outdated
from rspo.policies.prompt_limit import report_too_long, response_tokens, too_long
from rspo.policies.responses import Block, Question, Sampler
from rspo.policies.tokenizer import ChatTokenizer


def sample_suite(
    experiment: Experiment, policy: str, suite: str, benchmark: str | None = None
) -> None:
    """Write the samples tables of a policy (a cell or a base) that are missing or outdated.

    A killed run resumes after the last complete batch and writes the same files.

    Args:
        benchmark: sample only this benchmark of the suite.

    Raises: InputError for missing or bad inputs.
    """
    tables = experiment.tables_of(policy, suite, benchmark)
    folder = experiment.existing_policy(policy)
    paths = {table: experiment.samples(policy, *table) for table in tables}
    settings = fingerprints.settings(experiment, "sample")
    for name in dict.fromkeys(name for name, _ in tables):
        existing_problems(experiment, name)
    for path in paths.values():
        experiment.require_replaceable(path, settings)
    sampled = make_outdated(
        paths,
        settings,
        lambda table: [folder, experiment.problems(table[0])],
        partial(_sample, experiment, policy),
    )
    print(f"{policy} on {suite}: sampled {sampled} of {len(tables)} tables, others up to date")


def _sample(experiment: Experiment, policy: str, tables: Sequence[tuple[str, int]]) -> None:
    """Load the policy once, and write these samples tables."""
    folder, evaluation = experiment.policy(policy), experiment.config.evaluation
    settings = fingerprints.settings(experiment, "sample")
    # The first table includes the time to load the policy.
    started, already = time.monotonic(), None
    tokenizer = ChatTokenizer(folder)
    sampler = _load(experiment, folder, tokenizer)
    for benchmark, number in tables:
        questions, notes = _questions(experiment, benchmark, tokenizer)
        block = Block(number, evaluation.block, (evaluation.seed, benchmark))
        prompts = [question.prompt for question in questions]
        origin = [settings, code_version(), _policy_files(folder), prompts, number]
        batches = sampler.batches(questions, block)
        draw = partial(_rows, sampler, tokenizer, questions, block)
        path = experiment.samples(policy, benchmark, number)
        with in_chunks(journal_of(path), origin, batches, draw) as rows:
            write_table(path, SAMPLES, rows)
            inputs = [folder, experiment.problems(benchmark)]
            gpu_seconds = sampler.gpus * (time.monotonic() - started)
            write_provenance(path, settings, inputs, gpu_seconds, notes, already=already)
            keep(path)
        started, already = time.monotonic(), usage_so_far()


def _questions(
    experiment: Experiment, benchmark: str, tokenizer: ChatTokenizer
) -> tuple[list[Question], dict[str, Any]]:
    """The questions of a benchmark, and notes on those whose prompts are too long."""
    problems = read_table(experiment.problems(benchmark), PROBLEMS)
    sampling = experiment.config.sampling
    prompts = tokenizer.prompts([problem["prompt"] for problem in problems])
    long = [problems[index]["id"] for index in too_long(prompts, sampling)]
    notes = report_too_long(long, sampling, "kept whole, with shorter responses")
    questions = [
        Question(problem["id"], prompt, response_tokens(len(prompt), sampling))
        for problem, prompt in zip(problems, prompts, strict=True)
    ]
    return questions, notes


def _load(experiment: Experiment, folder: Path, tokenizer: ChatTokenizer) -> Sampler:
    """Load the policy into the sampler that the config names."""
    if experiment.config.sampler == "vllm":
        from rspo.policies.vllm_sampler import VllmSampler

        return VllmSampler(folder, tokenizer, experiment.config.sampling)
    from rspo.policies.torch_sampler import TorchSampler

    return TorchSampler(folder, tokenizer, experiment.config.sampling)


def _rows(
    sampler: Sampler,
    tokenizer: ChatTokenizer,
    questions: Sequence[Question],
    block: Block,
    batch: list[int],
) -> list[dict[str, Any]]:
    """Rows of the samples table for a batch of questions."""
    responses = sampler.draw(questions, batch, block)
    without_end = [one.tokens[:-1] if one.ended else one.tokens for one in responses]
    texts = tokenizer.decode(without_end)
    samples = [(questions[row].problem, index) for row in batch for index in block.indices]
    return [
        {
            "problem_id": problem,
            "sample_index": index,
            "text": text,
            "tokens": len(response.tokens),
            "finish_reason": "stop" if response.ended else "length",
            "seed": response.seed,
        }
        for (problem, index), response, text in zip(samples, responses, texts, strict=True)
    ]


def _policy_files(folder: Path) -> list[tuple[str, int, int]]:
    """Name, size and time of each file, to identify a policy without reading gigabytes."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in files]
