"""Verify responses; a killed run resumes from its journal."""

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

from rspo.config.fingerprints import Settings
from rspo.core.files import fingerprint
from rspo.core.provenance import code_version
from rspo.evaluation.journal import in_chunks, journal_of
from rspo.rewards import Verdict
from rspo.rewards.configured import Verify
from rspo.rewards.verdict import INVALID_REPLY, NO_REPLY, REFUSED

ROWS_OF_A_CHUNK = 500

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Responses:
    """Responses to verify, one a row; answers: accepted forms."""

    texts: list[str]
    answers: list[list[str]]
    questions: list[str]


def verified(path: Path, responses: Responses, verify: Verify, verifier: Settings) -> list[Verdict]:
    """The verdicts of responses, with which the caller writes the table `path`.

    They are also in the table's journal, from which a killed run resumes.

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

    rows = in_chunks(journal_of(path), origin, chunks, verify_chunk)
    return [Verdict(*row) for row in rows]


def verdict_counts(verdicts: Sequence[Verdict]) -> dict[str, int]:
    """Counts by verifier and reason; warns about replies of a judge without a verdict."""
    counts = Counter(f"{verdict.verifier}: {verdict.reason}" for verdict in verdicts)
    judged = [verdict for verdict in verdicts if verdict.verifier == "xverify"]
    for reason in (INVALID_REPLY, REFUSED, NO_REPLY):
        if count := sum(verdict.reason == reason for verdict in judged):
            message = "%d of %d responses that the judge model verified count as wrong: %s"
            _log.warning(message, count, len(judged), reason)
    return dict(counts.most_common())
