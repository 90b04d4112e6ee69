"""A policy's N responses to every problem of a benchmark, one row each, block by block."""

import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from rspo.config import fingerprints
from rspo.config.experiment import Experiment
from rspo.core.provenance import code_version, write_provenance
from rspo.core.tables import PROBLEMS, SAMPLES, read_table, write_table
from rspo.core.usage import Usage, usage_so_far
from rspo.evaluation.journal import in_chunks, journal_of
from rspo.policies.prompt_limit import report_too_long, response_tokens, too_long
from rspo.policies.responses import Block, Question, Response, Sampler
from rspo.policies.tokenizer import ChatTokenizer


def sample_benchmark(
    experiment: Experiment, policy: str, benchmark: str, block: int | None = None
) -> None:
    """Write the samples tables of a policy (a cell or a base) on a benchmark.

    A run that is killed goes on where it was, to the same file.

    Args:
        block: only this one of the blocks that N samples come in; default: all.

    Raises: InputError for missing or bad inputs.
    """
    experiment.model_of(policy)  # an error for a name that the config does not have
    experiment.data_set(benchmark)  # likewise
    if block is not None:
        experiment.check_block(block)
    folder, data = experiment.existing_policy(policy), experiment.problems(benchmark)
    problems = read_table(data, PROBLEMS)
    tokenizer, sampling = ChatTokenizer(folder), experiment.config.sampling
    prompts = tokenizer.prompts([problem["prompt"] for problem in problems])
    long = [problems[place]["id"] for place in too_long(prompts, sampling)]
    notes = report_too_long(long, sampling, "kept whole, with shorter responses")
    questions = [
        Question(problem["id"], prompt, response_tokens(len(prompt), sampling))
        for problem, prompt in zip(problems, prompts, strict=True)
    ]
    sampler = _load(experiment, folder, tokenizer)
    already: Usage | None = None  # loading counts with the first block
    for number in experiment.blocks if block is None else [block]:
        started = time.monotonic()
        path = experiment.samples(policy, benchmark, number)
        settings = fingerprints.settings(experiment, "sample")
        origin = [settings, code_version(), _files(folder), prompts, number]
        chosen = Block(
            number,
            experiment.config.evaluation.block,
            (experiment.config.evaluation.seed, benchmark),
        )
        batches = sampler.batches(questions, chosen)
        draw = partial(_rows, sampler, tokenizer, questions, chosen)
        with in_chunks(journal_of(path), origin, batches, draw) as rows:
            write_table(path, SAMPLES, rows)
            gpu_seconds = sampler.gpus * (time.monotonic() - started)
            write_provenance(path, settings, [folder, data], gpu_seconds, notes, already=already)
        already = usage_so_far()


def policy_samples(
    experiment: Experiment, policy: str, benchmark: str, first: int | None = None
) -> list[dict[str, Any]]:
    """Rows of a policy's samples on a benchmark, block after block.

    Args:
        first: only the blocks with the first so many samples of each problem.

    Raises: InputError for missing or bad tables.
    """
    files = experiment.sample_files(policy, benchmark, first)
    return [row for file in files for row in read_table(file, SAMPLES)]


def _load(experiment: Experiment, folder: Path, tokenizer: ChatTokenizer) -> Sampler:
    """The policy in the config's sampler."""
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
    texts = tokenizer.decode([_said(response) for response in responses])
    places = [(questions[place].problem, index) for place in batch for index in block.indices]
    return [
        {
            "problem_id": problem,
            "sample_index": index,
            "text": text,
            "tokens": len(response.tokens),
            "finish_reason": "stop" if response.ended else "length",
            "seed": response.seed,
        }
        for (problem, index), response, text in zip(places, responses, texts, strict=True)
    ]


def _said(response: Response) -> list[int]:
    """The tokens without the end token."""
    return response.tokens[:-1] if response.ended else response.tokens


def _files(folder: Path) -> list[tuple[str, int, int]]:
    """What tells a policy from another one in its place, without reading gigabytes."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in files]
