"""`rspo score`: write the verdict and the reward of each sample of a policy.

`verified`, which makes the verdicts, also serves `rspo verify`.
"""

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rspo.config.experiment import Experiment
from rspo.core.files import fingerprint
from rspo.core.settings import Settings
from rspo.core.tables import PROBLEMS, SAMPLES, SCORES, read_table, write_table
from rspo.evaluation.journal import in_chunks, journal_of
from rspo.formats.responses import Response
from rspo.pipeline import tasks
from rspo.pipeline.provenance import code_version
from rspo.pipeline.run import run
from rspo.pipeline.task import Done
from rspo.pipeline.tasks import verifier_settings
from rspo.rewards import Verdict
from rspo.rewards.configured import Verify, rewards_of, verifier_of
from rspo.rewards.verdict import INVALID_REPLY, NO_REPLY, REFUSED

ROWS_OF_A_CHUNK = 500  # verdicts between two writes to the journal

_log = logging.getLogger(__name__)


def verified(
    path: Path, responses: Sequence[Response], verify: Verify, verifier: Settings
) -> list[Verdict]:
    """The verdicts on responses, in their order.

    The journal of the table keeps them, so that a killed run resumes. The caller writes the table
    and then removes the journal.

    Args:
        path: the table that the caller writes.
        verifier: the settings of `verify` that decide a verdict.
    """
    contents = fingerprint([vars(response) for response in responses])
    origin = [verifier, code_version(), contents]
    starts = range(0, len(responses), ROWS_OF_A_CHUNK)
    chunks = [responses[start : start + ROWS_OF_A_CHUNK] for start in starts]

    def verify_chunk(chunk: Sequence[Response]) -> list[Any]:
        texts = [response.text for response in chunk]
        answers = [response.answers for response in chunk]
        questions = [response.question for response in chunk]
        verdicts = verify(texts, answers, questions=questions)
        return [(verdict.reason, verdict.verifier) for verdict in verdicts]

    rows = in_chunks(journal_of(path), origin, chunks, verify_chunk)
    return [Verdict(*row) for row in rows]


def verdict_counts(verdicts: Sequence[Verdict]) -> dict[str, int]:
    """The number of verdicts by verifier and reason, most first.

    Logs a warning if a judge model gave no valid verdict on some responses.
    """
    counts = Counter(f"{verdict.verifier}: {verdict.reason}" for verdict in verdicts)
    for reason in (INVALID_REPLY, REFUSED, NO_REPLY):
        count = sum(verdict.reason == reason for verdict in verdicts)
        if count:
            message = "%d of %d responses that the judge model verified count as wrong: %s"
            _log.warning(message, count, len(verdicts), reason)
    return dict(counts.most_common())


def score(
    experiment: Experiment, policy: str, suite: str, block: int = 0, force: bool = False
) -> None:
    """Write one scores table of a policy: a row for each sample of the suite and block.

    The reward is `evaluation.reward` of the config for every policy, whatever reward it was trained
    with: Max@k is evaluated on this reward, and Pass@k on `correct`. A killed run resumes from its
    journal.
    """
    experiment.require_block(policy, suite, block)
    task = tasks.score(experiment, policy, suite, block)
    (path,) = task.outputs
    samples = experiment.files.samples(policy, suite, block)
    config = experiment.config
    problems = {name: experiment.files.problems(name) for name in experiment.benchmarks_of(suite)}
    deciding_settings = verifier_settings(config, config.verifier)

    def work() -> Done:
        rows = read_table(samples, SAMPLES)
        responses = _responses(problems, rows)
        stored = experiment.files.verdicts(policy, f"{suite}.{block}")
        with verifier_of(experiment, config.verifier, stored) as verify:
            verdicts = verified(path, responses, verify, deciding_settings)
        correct = np.array([verdict.correct for verdict in verdicts])
        tokens = [row["tokens"] for row in rows]
        name = config.evaluation.reward
        # Only a reward that a user registered reads the texts.
        rewards = rewards_of(config, name, correct, tokens, lambda: [row["text"] for row in rows])
        scores = [
            {
                "benchmark": row["benchmark"],
                "problem_id": row["problem_id"],
                "sample_index": row["sample_index"],
                "correct": verdict.correct,
                "verifier": verdict.verifier,
                "verdict": verdict.reason,
                "reward": reward,
            }
            for row, verdict, reward in zip(rows, verdicts, rewards.tolist(), strict=True)
        ]
        write_table(path, SCORES, scores)
        return Done(notes={"verdicts": verdict_counts(verdicts)}, clean_up=journal_of(path).unlink)

    run(task, work, force)


def _responses(
    problems: Mapping[str, Path], samples: Sequence[Mapping[str, Any]]
) -> list[Response]:
    """What the verifier reads of each sample.

    Args:
        problems: the table of each benchmark.
    """
    problem_of = {
        (name, problem["id"]): problem
        for name, file in problems.items()
        for problem in read_table(file, PROBLEMS)
    }
    responses = []
    for sample in samples:
        problem = problem_of[sample["benchmark"], sample["problem_id"]]
        question = problem["prompt"][-1]["content"]  # the last message of the chat
        responses.append(Response(question, problem["answers"], sample["text"]))
    return responses
