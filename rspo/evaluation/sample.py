"""A policy's N responses to every problem of a benchmark, one row each."""

from typing import Any

from rspo.experiment import Experiment
from rspo.files import write_provenance
from rspo.policies import qwen2
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
    config = experiment.config
    rows: list[dict[str, Any]] = []
    for first in range(0, len(problems), PROBLEMS_PER_BATCH):
        batch = problems[first : first + PROBLEMS_PER_BATCH]
        stream = (config.evaluation.seed, benchmark, first)
        responses = sample(
            model,
            tokenizer.prompts([problem["prompt"] for problem in batch]),
            config.evaluation.samples,
            max_tokens=config.sampling.max_response_tokens,
            end=tokenizer.end,
            pad=tokenizer.pad,
            generator=generator_of(*stream),
            temperature=config.sampling.temperature,
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
                    "problem_id": batch[problem]["id"],
                    "sample_index": index,
                    "text": text,
                    "tokens": lengths[row],
                    "finish_reason": "stop" if ended[row] else "length",
                    "seed": seed_of(*stream),
                }
            )
    path = experiment.samples(policy, benchmark)
    write_table(path, SAMPLES, rows)
    write_provenance(path, experiment.settings("sample"), inputs=[folder, data])
