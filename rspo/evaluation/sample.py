"""A policy's N responses to every problem of a benchmark, one row each."""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from rspo.experiment import Experiment
from rspo.files import write_provenance
from rspo.policies import qwen2
from rspo.policies.prompt_limit import report_too_long, response_tokens, too_long
from rspo.policies.sampler import sample
from rspo.policies.tokenizer import ChatTokenizer
from rspo.seeds import generator_of, seed_of
from rspo.tables import PROBLEMS, SAMPLES, read_table, write_table

# Problems sampled together; with 32 samples each, 1,024 rows keep one core busy.
PROBLEMS_PER_BATCH = 32


def sample_benchmark(experiment: Experiment, policy: str, benchmark: str) -> None:
    """Write the samples table of a policy (a cell or a base) on a benchmark.

    The random numbers depend on the evaluation seed, the benchmark and the batch, not on the
    policy, so two policies are compared under the same draws.

    Raises: InputError for missing or bad inputs.
    """
    experiment.model_of(policy)  # an error for a name that the config does not have
    folder, data = experiment.existing_policy(policy), experiment.problems(benchmark)
    problems = read_table(data, PROBLEMS)
    tokenizer, model = ChatTokenizer(folder), qwen2.load(folder)
    config, sampling = experiment.config, experiment.config.sampling
    prompts = tokenizer.prompts([problem["prompt"] for problem in problems])
    long = [problems[place]["id"] for place in too_long(prompts, sampling)]
    notes = report_too_long(long, sampling, "kept whole, with shorter responses")
    rows: list[dict[str, Any]] = []
    for batch in _batches([len(prompt) for prompt in prompts]):
        stream = (config.evaluation.seed, benchmark, batch[0])
        responses = sample(
            model,
            [prompts[place] for place in batch],
            config.evaluation.samples,
            max_tokens=response_tokens(len(prompts[batch[0]]), sampling),
            end=tokenizer.end,
            pad=tokenizer.pad,
            generator=generator_of(*stream),
            temperature=sampling.temperature,
        )
        lengths, ended = responses.lengths.tolist(), responses.finished.tolist()
        tokens = responses.tokens.tolist()
        texts = tokenizer.decode(
            [tokens[row][: lengths[row] - ended[row]] for row in range(len(tokens))]
        )
        for row, text in enumerate(texts):
            problem, index = divmod(row, config.evaluation.samples)
            rows.append(
                {
                    "problem_id": problems[batch[problem]]["id"],
                    "sample_index": index,
                    "text": text,
                    "tokens": lengths[row],
                    "finish_reason": "stop" if ended[row] else "length",
                    "seed": seed_of(*stream),
                }
            )
    path = experiment.samples(policy, benchmark)
    write_table(path, SAMPLES, rows)
    write_provenance(path, experiment.settings("sample"), inputs=[folder, data], notes=notes)


def _batches(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Places of consecutive prompts that are equally long, as the sampler needs them."""
    for _, run in itertools.groupby(range(len(lengths)), key=lambda place: lengths[place]):
        places = list(run)
        for first in range(0, len(places), PROBLEMS_PER_BATCH):
            yield places[first : first + PROBLEMS_PER_BATCH]
