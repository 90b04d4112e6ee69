"""`rspo verify POLICY --suite SUITE`: how often a second verifier agrees with a policy's scores."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from rspo.config.experiment import Experiment
from rspo.config.registered import verifier_names
from rspo.core.errors import InputError, allowed_names
from rspo.core.files import write_json_lines
from rspo.evaluation.pass_at_k import short
from rspo.evaluation.read_outcomes import scored_samples
from rspo.pipeline import tasks
from rspo.pipeline.run import require_inputs
from rspo.rewards.configured import verifier_of

if TYPE_CHECKING:
    import pandas as pd

SHOWN = 5  # the most responses that are printed
_ROW = "{:<22}{:>10}{:>9}{:>8}{:>8}{:>9}{:>11}{:>8}"


class Agreement(NamedTuple):
    """How often two verifiers A and B agree on the same responses.

    both, only_a, only_b, neither: numbers of responses that they accept.
    """

    both: int
    only_a: int
    only_b: int
    neither: int

    @property
    def responses(self) -> int:
        """Number of responses."""
        return sum(self)

    @property
    def agreement(self) -> float:
        """Fraction of responses with equal verdicts."""
        return (self.both + self.neither) / self.responses

    @property
    def kappa(self) -> float:
        """Cohen's kappa (1960): (agreement - chance) / (1 - chance).

        Chance is the agreement of two independent verifiers that accept as often as these do. NaN
        where it is 1, because both accept every response, or none.
        """
        accepted_a = (self.both + self.only_a) / self.responses
        accepted_b = (self.both + self.only_b) / self.responses
        chance = accepted_a * accepted_b + (1 - accepted_a) * (1 - accepted_b)
        return float("nan") if chance == 1 else (self.agreement - chance) / (1 - chance)


def agreement_of(a: ArrayLike, b: ArrayLike) -> Agreement:
    """The agreement of the verdicts of two verifiers, true or false, of the same shape."""
    first = np.asarray(a, dtype=bool)
    second = np.asarray(b, dtype=bool)
    return Agreement(
        both=int((first & second).sum()),
        only_a=int((first & ~second).sum()),
        only_b=int((~first & second).sum()),
        neither=int((~first & ~second).sum()),
    )


def agreement(
    experiment: Experiment, policy: str, suite: str, verifier: str, output: Path | None = None
) -> Iterator[str]:
    """Verify a policy's samples again, and compare the verdicts with its scores.

    Args:
        verifier: the second verifier, B; A is that of the scores.
        output: new JSON lines for all responses on which the two differ.

    Returns: lines with a row for each benchmark, and the first responses on which they differ.

    Raises: InputError for an unknown policy, suite or verifier, for the verifier of the scores, for
        an output that exists, and for scores that are missing, or that were made with other
        settings or from other files than the config says.
    """
    benchmarks = experiment.benchmarks_of(suite)
    others = [name for name in verifier_names() if name != experiment.config.verifier]
    if verifier not in others:
        raise InputError(
            f"verifier {verifier!r} is no other one than that of the scores; "
            f"{allowed_names(verifier, others)}"
        )
    if output is not None and (output.suffix != ".jsonl" or output.exists()):
        raise InputError(f"{output}: expected a new file that ends with .jsonl")
    experiment.model_of(policy)
    require_inputs(tasks.curves(experiment, policy, suite))
    frames = []
    with verifier_of(
        experiment, verifier, experiment.files.verdicts(policy, f"{suite}.second")
    ) as verify:
        for benchmark in benchmarks:
            frame = scored_samples(experiment, policy, benchmark)
            questions = [messages[-1]["content"] for messages in frame["prompt"]]
            answers = [list(forms) for forms in frame["answers"]]
            verdicts = verify(list(frame["text"]), answers, questions=questions)
            frames.append(
                frame.assign(
                    benchmark=benchmark,
                    problem=questions,
                    answer=answers,
                    correct_b=[verdict.correct for verdict in verdicts],
                    verdict_b=[verdict.reason for verdict in verdicts],
                )
            )
    yield from _lines(
        experiment.config.verifier, verifier, dict(zip(benchmarks, frames, strict=True))
    )
    if output is not None:
        differing = [row for frame in frames for row in _differing(frame)]
        write_json_lines(output, differing)
        yield f"wrote {output}"


def _lines(first: str, second: str, frames: "dict[str, pd.DataFrame]") -> Iterator[str]:
    """A table with a row for each benchmark and for all, and the first differing responses."""
    yield f"A: {first}, the scores"
    yield f"B: {second}"
    yield ""
    heads = ("benchmark", "responses", "both", "only A", "only B", "neither", "agreement", "kappa")
    yield _ROW.format(*heads)
    total = Agreement(0, 0, 0, 0)
    for benchmark, frame in frames.items():
        counts = agreement_of(frame["correct"], frame["correct_b"])
        total = Agreement(*(sum(pair) for pair in zip(total, counts, strict=True)))
        yield _row(benchmark, counts)
    yield _row("all", total)
    yield "both, only A, only B, neither: who accepts; kappa: agreement beyond chance (Cohen 1960)"
    differing = [row for frame in frames.values() for row in _differing(frame)]
    if differing:
        yield ""
        yield f"they differ on {len(differing)} responses, such as:"
    for row in differing[:SHOWN]:
        accepts = "A" if row["correct"] else "B"
        end = short(row["response"][-60:])
        yield f"  only {accepts} accepts {end} for {row['answer']}  {short(row['problem'])}"


def _row(name: str, counts: Agreement) -> str:
    """A row of the table."""
    kappa = "-" if np.isnan(counts.kappa) else f"{counts.kappa:.3f}"
    share = f"{counts.agreement:.3f}"
    return _ROW.format(name, counts.responses, *counts, share, kappa)


def _differing(frame: "pd.DataFrame") -> list[dict[str, Any]]:
    """The responses on which the verifiers differ, in their order."""
    rows = frame[frame["correct"] != frame["correct_b"]].to_dict("records")
    return [
        {
            "benchmark": row["benchmark"],
            "problem_id": row["problem_id"],
            "sample_index": row["sample_index"],
            "correct": row["correct"],
            "reason": row["verdict"],
            "correct_b": row["correct_b"],
            "reason_b": row["verdict_b"],
            "answer": row["answer"],
            "problem": row["problem"],
            "response": row["text"],
        }
        for row in rows
    ]
