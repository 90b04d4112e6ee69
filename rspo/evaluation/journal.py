"""Verdicts of a scoring run that is not finished, so that a killed one goes on where it was."""

import fcntl
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import astuple
from pathlib import Path
from typing import Any, TextIO

from rspo.errors import InputError
from rspo.files import fingerprint
from rspo.rewards import Verdict

ROWS_OF_A_CHUNK = 500


@contextmanager
def judged_in_chunks(
    path: Path, origin: Any, rows: int, judge: Callable[[slice], list[Verdict]]
) -> Iterator[list[Verdict]]:
    """The verdicts of all rows; each chunk is in the journal at `path` as soon as it is judged.

    The journal is removed when the block ends well: by then the verdicts stand in a table.

    Args:
        origin: plain data with everything that decides a verdict; a journal of another origin is
            not gone on from.
        judge: the verdicts of some rows.

    Raises: InputError if another process has the journal open.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+") as journal:
        try:
            fcntl.flock(journal, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(f"{path}: another process judges these rows; wait or end it") from None
        verdicts = _read(journal, fingerprint(origin))[:rows]
        while len(verdicts) < rows:
            chunk = judge(slice(len(verdicts), min(len(verdicts) + ROWS_OF_A_CHUNK, rows)))
            journal.write(json.dumps([astuple(verdict) for verdict in chunk]) + "\n")
            journal.flush()
            verdicts += chunk
        yield verdicts
        path.unlink()


def _read(journal: TextIO, origin: str) -> list[Verdict]:
    """The verdicts that are there; whatever else is in the journal is cut off."""
    journal.seek(0)
    whole, verdicts = 0, []
    for number, line in enumerate(journal):
        if not line.endswith("\n") or (number == 0 and json.loads(line) != origin):
            break
        whole += len(line)
        if number > 0:
            verdicts += [Verdict(*values) for values in json.loads(line)]
    journal.truncate(whole)
    if whole == 0:
        journal.write(json.dumps(origin) + "\n")
        journal.flush()
    return verdicts
