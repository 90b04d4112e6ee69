"""`rspo verify POLICY --suite SUITE`: how often a second verifier agrees with a policy's scores."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from rspo.config.experiment import Experiment
from rspo.config.registered import verifier_names
from rspo.core.errors import InputError, allowed_names
from rspo.core.files import write_json_lines
from rspo.evaluation.pass_at_k import short, titles
from rspo.evaluation.read_outcomes import scored_samples
from rspo.pipeline import tasks
from rspo.pipeline.run import require_inputs
from rspo.rewards import places_named, shown_verifier
from rspo.rewards.configured import Verify, require_judge, verifier_of

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
    def accepted_a(self) -> float:
        """Fraction of responses that A accepts."""
        return (self.both + self.only_a) / self.responses

    @property
    def accepted_b(self) -> float:
        """Fraction of responses that B accepts."""
        return (self.both + self.only_b) / self.responses

    @property
    def kappa(self) -> float:
        """Cohen's kappa (1960): (agreement - chance) / (1 - chance).

        Chance is the agreement of two independent verifiers that accept as often as these do. NaN
        where it is 1, because both accept every response, or none.
        """
        accepted_a = self.accepted_a
        accepted_b = self.accepted_b
        chance = accepted_a * accepted_b + (1 - accepted_a) * (1 - accepted_b)
        return float("nan") if chance == 1 else (self.agreement - chance) / (1 - chance)

    @property
    def kappa_text(self) -> str:
        """Kappa with three decimals; "-" where it is NaN."""
        return "-" if np.isnan(self.kappa) else f"{self.kappa:.3f}"


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
    experiment: Experiment,
    policy: str,
    suite: str,
    verifier: str,
    output: Path | None = None,
    extract: str | None = None,
) -> Iterator[str]:
    """Verify a policy's samples again, and compare the verdicts with its scores.

    Args:
        verifier: the second verifier, B; A is that of the scores.
        output: new JSON lines for all responses on which the two differ.
        extract: where B reads the answer (`rspo.rewards.verify`); default: as the config says.

    Returns: lines with a row for each benchmark, and the first responses on which they differ.

    Raises: InputError for an unknown policy, suite or verifier, for the verifier of the scores, for
        an output that exists, and for scores that are missing, or that were made with other
        settings or from other files than the config says.
    """
    benchmarks = experiment.benchmarks_of(suite)
    config = experiment.config
    places = places_named(extract, [verifier]) or config.extract
    others = [name for name in verifier_names() if name != config.verifier]
    if places != config.extract and verifier == config.verifier:
        others.append(verifier)  # it reads other places than the scores
    if verifier not in others:
        raise InputError(
            f"verifier {verifier!r} is no other one than that of the scores; "
            f"{allowed_names(verifier, others)}"
        )
    require_judge(experiment, verifier)
    if output is not None and (output.suffix != ".jsonl" or output.exists()):
        raise InputError(f"{output}: expected a new file that ends with .jsonl")
    experiment.model_of(policy)
    require_inputs(tasks.curves(experiment, policy, suite))
    stored = experiment.files.verdicts(policy, f"{suite}.second")
    rows_of: dict[str, list[dict[str, Any]]] = {}
    with verifier_of(experiment, verifier, stored, extract=places) as verify:
        for benchmark in benchmarks:
            rows_of[benchmark] = _verified(scored_samples(experiment, policy, benchmark), verify)
    yield f"A: {shown_verifier(config.verifier, config.extract)}, the scores"
    yield f"B: {shown_verifier(verifier, places)}"
    yield ""
    yield from _table(rows_of)
    disputed: list[Mapping[str, Any]] = []
    problems: list[str] = []
    for benchmark, rows in rows_of.items():
        disputed += [{"benchmark": benchmark, **row} for row in differing(rows)]
        problems += [row["problem"] for row in rows]
    yield from differing_lines(disputed, problems)
    if output is not None:
        write_json_lines(output, disputed)
        yield f"wrote {output}"


def _verified(frame: "pd.DataFrame", verify: Verify) -> list[dict[str, Any]]:
    """A row for each sample of a benchmark, with the verdicts of both verifiers."""
    questions = [messages[-1]["content"] for messages in frame["prompt"]]
    answers = [list(forms) for forms in frame["answers"]]
    verdicts = verify(list(frame["text"]), answers, questions=questions)
    rows = []
    for place, sample in enumerate(frame.to_dict("records")):
        rows.append(
            {
                "problem_id": sample["problem_id"],
                "sample_index": sample["sample_index"],
                "correct": sample["correct"],
                "reason": sample["verdict"],
                "correct_b": verdicts[place].correct,
                "reason_b": verdicts[place].reason,
                "answer": answers[place],
                "problem": questions[place],
                "response": sample["text"],
            }
        )
    return rows


def differing(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The rows on which the verdicts `correct` and `correct_b` differ."""
    return [row for row in rows if row["correct"] != row["correct_b"]]


def _table(rows_of: Mapping[str, Sequence[Mapping[str, Any]]]) -> Iterator[str]:
    """A table with a row for each benchmark, and one for all."""
    heads = ("benchmark", "responses", "both", "only A", "only B", "neither", "agreement", "kappa")
    yield _ROW.format(*heads)
    everything: list[Mapping[str, Any]] = []
    for benchmark, rows in rows_of.items():
        yield _row(benchmark, agreement_of_rows(rows))
        everything.extend(rows)
    yield _row("all", agreement_of_rows(everything))
    yield "both, only A, only B, neither: who accepts; kappa: agreement beyond chance (Cohen 1960)"


def agreement_of_rows(rows: Sequence[Mapping[str, Any]]) -> Agreement:
    """The agreement of the verdicts `correct` and `correct_b` of some rows."""
    return agreement_of([row["correct"] for row in rows], [row["correct_b"] for row in rows])


def differing_lines(rows: Sequence[Mapping[str, Any]], problems: Sequence[str]) -> Iterator[str]:
    """Lines with the first responses on which two verifiers differ.

    Args:
        rows: these responses with `correct`, which is the verdict of A, `response`, `answer` and
            `problem`.
        problems: the problems of all responses, also of those on which the two agree.
    """
    if not rows:
        return
    yield ""
    yield f"they differ on {len(rows)} response{'s' * (len(rows) > 1)}, such as:"
    names = list(dict.fromkeys(problems))
    title_of = dict(zip(names, titles(names), strict=True))
    for row in rows[:SHOWN]:
        accepts = "A" if row["correct"] else "B"
        end = short(row["response"][-60:])
        yield f"  only {accepts} accepts {end} for {row['answer']}  {title_of[row['problem']]}"


def _row(name: str, counts: Agreement) -> str:
    """A row of the table."""
    share = f"{counts.agreement:.3f}"
    return _ROW.format(name, counts.responses, *counts, share, counts.kappa_text)
