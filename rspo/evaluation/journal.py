"""Journal of an unfinished table, from which a killed run resumes."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TextIO, TypeVar

from rspo.core.files import fingerprint

Chunk = TypeVar("Chunk")


def journal_of(table: Path) -> Path:
    """Path of the journal of a table."""
    return table.with_name(f".{table.stem}.journal")


def in_chunks(
    path: Path, origin: Any, chunks: Sequence[Chunk], work: Callable[[Chunk], list[Any]]
) -> list[Any]:
    """The rows of all chunks, each chunk written to the journal as soon as it is complete.

    The caller holds a lock, writes the table and then removes the journal. After an error before
    the first complete chunk, there is no journal.

    Args:
        origin: everything that decides a row, as plain data. A journal with another origin is
            discarded.
        work: returns the rows of a chunk as plain data.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+") as journal:
        done = _read(journal, fingerprint(origin))[: len(chunks)]
        try:
            for chunk in chunks[len(done) :]:
                rows = work(chunk)
                journal.write(json.dumps(rows) + "\n")
                journal.flush()
                done.append(rows)
        except BaseException:
            if not done:
                path.unlink()
            raise
    return [row for rows in done for row in rows]


def _read(journal: TextIO, origin: str) -> list[list[Any]]:
    """The rows of the complete chunks. Anything else in the journal is removed."""
    journal.seek(0)
    complete = 0  # number of characters
    chunks = []
    for number, line in enumerate(journal):
        if not line.endswith("\n") or (number == 0 and line != json.dumps(origin) + "\n"):
            break
        complete += len(line)
        if number > 0:
            chunks.append(json.loads(line))
    journal.truncate(complete)
    if complete == 0:
        journal.write(json.dumps(origin) + "\n")
        journal.flush()
    return chunks
