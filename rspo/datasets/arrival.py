"""Compare the rows of a source with what the config expects."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from rspo.config.schema import Hub
from rspo.core.errors import InputError

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Arrival:
    """Summary of the rows of a source, after filter and exclude."""

    rows: int
    unanswered: Sequence[str]  # locations of the rows without an answer
    content_sha256: str  # hash of the published problems and answers
    origin: str  # the mirror's file or the hub's page


def check(arrival: Arrival, hub: Hub, name: str, key: str) -> None:
    """Check the number of rows, of rows without an answer, and the content.

    Args:
        name: the data set.
        key: location of its `hub` section, such as "config/paper.yaml: data.train.hub".

    Raises: InputError with the expected and the actual value, and the key that accepts it.
    """
    rows, unanswered = arrival.rows, arrival.unanswered
    if rows not in hub.accepted_rows:
        counts = " or ".join(str(count) for count in hub.accepted_rows)
        raise InputError(
            f"{name}: expected {counts} rows, got {rows} from {arrival.origin}; "
            f"if they are correct, change {key}.rows"
        )
    if len(unanswered) != hub.without_answer:
        raise InputError(
            f"{name}: expected {hub.without_answer} rows without an answer, got {len(unanswered)}"
            + "".join(f"; {location}" for location in unanswered[:5])
            + f"; if they really have none, set {key}.without_answer = {len(unanswered)}"
        )
    if unanswered:
        _log.warning("%s: dropped rows without an answer: %s", name, "; ".join(unanswered))
    actual, expected = arrival.content_sha256, hub.content_sha256.get(rows)
    if expected is None:
        _log.warning(
            "%s: content not checked: it has content_sha256 %s; %s.content_sha256 has no value for "
            "%d rows",
            *(name, actual, key, rows),
        )
    elif actual != expected:
        value = actual if isinstance(hub.rows, int) else f"{{{rows}: {actual}}}"
        raise InputError(
            f"{name}: problems or answers changed: expected content_sha256 {expected}, got "
            f"{actual} from {arrival.origin}; check them, then set {key}.content_sha256 = {value}"
        )
