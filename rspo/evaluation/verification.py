"""Verify responses and write their scores table; a killed run resumes from its journal."""

import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

from rspo.config.fingerprints import Settings
from rspo.core.files import fingerprint
from rspo.core.provenance import code_version, write_provenance
from rspo.core.tables import SCORES, write_table
from rspo.core.usage import Usage
from rspo.evaluation.journal import in_chunks, journal_of
from rspo.rewards import Verdict
from rspo.rewards.configured import Verify
from rspo.rewards.verdict import INVALID_REPLY, NO_REPLY, REFUSED

ROWS_OF_A_CHUNK = 500

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Responses:
    """Responses to verify, one a row.

    samples: problem id and sample index.
    answers: accepted forms.
    rewards: of each response if it is correct.
    rewards_if_wrong: of each response if it is wrong; empty: 0.
    """

    samples: list[tuple[str, int]]
    texts: list[str]
    answers: list[list[str]]
    questions: list[str]
    rewards: list[float]
    rewards_if_wrong: Sequence[float] = ()


@contextmanager
def verified(
    path: Path, responses: Responses, verify: Verify, verifier: Settings
) -> Iterator[list[Verdict]]:
    """The verdicts of responses; the block should write the table `path` with them.

    Verdicts are written to the table's journal, from which a killed run resumes. The journal is
    removed when the block ends without an error.

    Args:
        verify: the verifier.
        verifier: its settings, which decide a verdict.

    Raises: InputError if the verifier cannot run.
    """
    origin = [verifier, code_version(), fingerprint(astuple(responses))]
    starts = range(0, len(responses.texts), ROWS_OF_A_CHUNK)
    chunks = [slice(start, start + ROWS_OF_A_CHUNK) for start in starts]

    def verify_chunk(rows: slice) -> list[Any]:
        texts, answers = responses.texts[rows], responses.answers[rows]
        verdicts = verify(texts, answers, questions=responses.questions[rows])
        return [astuple(verdict) for verdict in verdicts]

    with in_chunks(journal_of(path), origin, chunks, verify_chunk) as rows:
        yield [Verdict(*row) for row in rows]


def write_scores(
    path: Path,
    responses: Responses,
    verify: Verify,
    verifier: Settings,
    settings: Any,
    inputs: Sequence[Path],
    already: Usage | None = None,
) -> None:
    """Verify responses and write their scores table with its provenance.

    Args:
        verify, verifier: as in `verified`.
        settings, inputs, already: as in `write_provenance`.

    Raises: InputError if the verifier cannot run.
    """
    with verified(path, responses, verify, verifier) as verdicts:
        write_table(path, SCORES, _rows(responses, verdicts))
        notes = {"verdicts": verdict_counts(verdicts)}
        write_provenance(path, settings, inputs, notes=notes, already=already)


def _rows(responses: Responses, verdicts: Sequence[Verdict]) -> list[dict[str, Any]]:
    wrong = responses.rewards_if_wrong or [0.0] * len(verdicts)
    return [
        {
            "problem_id": problem,
            "sample_index": index,
            "correct": verdict.correct,
            "verifier": verdict.verifier,
            "verdict": verdict.reason,
            "reward": reward if verdict.correct else otherwise,
        }
        for (problem, index), reward, otherwise, verdict in zip(
            responses.samples, responses.rewards, wrong, verdicts, strict=True
        )
    ]


def verdict_counts(verdicts: Sequence[Verdict]) -> dict[str, int]:
    """Counts by verifier and reason; warns about replies of a judge without a verdict."""
    counts = Counter(f"{verdict.verifier}: {verdict.reason}" for verdict in verdicts)
    judged = [verdict for verdict in verdicts if verdict.verifier == "xverify"]
    for reason in (INVALID_REPLY, REFUSED, NO_REPLY):
        if count := sum(verdict.reason == reason for verdict in judged):
            message = "%d of %d responses that the judge model verified count as wrong: %s"
            _log.warning(message, count, len(judged), reason)
    return dict(counts.most_common())
