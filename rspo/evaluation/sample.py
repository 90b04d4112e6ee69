"""`rspo sample`: a policy's N responses to every problem of a benchmark, block by block."""

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
from rspo.policies.responses import Block, Question, Sampler
from rspo.policies.tokenizer import ChatTokenizer


def sample_benchmark(
    experiment: Experiment, policy: str, benchmark: str, block: int | None = None
) -> None:
    """Write the samples tables of a policy (a cell or a base) on a benchmark.

    A killed run resumes after the last complete batch and writes the same file.

    Args:
        block: sample only this block; default: every block.

    Raises: InputError for missing or bad inputs.
    """
    blocks = experiment.blocks_to_make(policy, benchmark, block)
    folder, data = experiment.existing_policy(policy), experiment.problems(benchmark)
    problems = read_table(data, PROBLEMS)
    tokenizer, sampling = ChatTokenizer(folder), experiment.config.sampling
    prompts = tokenizer.prompts([problem["prompt"] for problem in problems])
    long = [problems[index]["id"] for index in too_long(prompts, sampling)]
    notes = report_too_long(long, sampling, "kept whole, with shorter responses")
    questions = [
        Question(problem["id"], prompt, response_tokens(len(prompt), sampling))
        for problem, prompt in zip(problems, prompts, strict=True)
    ]
    sampler = _load(experiment, folder, tokenizer)
    already: Usage | None = None  # the first block includes the time to load the policy
    for number in blocks:
        started = time.monotonic()
        path = experiment.samples(policy, benchmark, number)
        settings = fingerprints.settings(experiment, "sample")
        origin = [settings, code_version(), _policy_files(folder), prompts, number]
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
