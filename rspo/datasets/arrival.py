"""What came from a source against what the config expects of it."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from rspo.config.schema import Hub
from rspo.core.errors import InputError

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Arrival:
    """A set's rows as they came, those that the config leaves out aside."""

    rows: int
    unanswered: Sequence[str]  # of those, where the ones without an answer stand
    content_sha256: str  # of what was published
    origin: str  # the mirror's file or the hub's page


def check(arrival: Arrival, hub: Hub, name: str, key: str) -> None:
    """Stop where something else came, and say what is new.

    Args:
        name: of the data set.
        key: place of its `hub` section, such as "config/paper.yaml: data.train.hub".

    Raises: InputError that says what was expected, what came, and which key accepts it.
    """
    rows, unanswered = arrival.rows, arrival.unanswered
    if rows not in hub.accepted_rows:
        expected = " or ".join(str(count) for count in hub.accepted_rows)
        raise InputError(
            f"{name}: expected {expected} rows, {rows} came from {arrival.origin}; "
            f"if they are right, change {key}.rows"
        )
    if len(unanswered) != hub.without_answer:
        raise InputError(
            f"{name}: expected {hub.without_answer} rows without an answer, {len(unanswered)} came"
            + "".join(f"; {place}" for place in unanswered[:5])
            + f"; if they have none, set {key}.without_answer = {len(unanswered)}"
        )
    if unanswered:
        _log.warning("%s: left out, having no answer: %s", name, "; ".join(unanswered))
    _check_content(arrival, hub, name, key)


def _check_content(arrival: Arrival, hub: Hub, name: str, key: str) -> None:
    came, expected = arrival.content_sha256, hub.content_sha256.get(arrival.rows)
    if expected is None:
        _log.warning(
            "%s: taken as it came, content_sha256 %s; %s.content_sha256 has none for %d rows",
            *(name, came, key, arrival.rows),
        )
    elif came != expected:
        value = came if isinstance(hub.rows, int) else f"{{{arrival.rows}: {came}}}"
        raise InputError(
            f"{name}: problems or answers changed: expected content_sha256 {expected}, {came} "
            f"came from {arrival.origin}; once you have checked that they are right, accept them "
            f"by {key}.content_sha256 = {value}"
        )
