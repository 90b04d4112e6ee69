"""The journal of an unfinished table, from which a killed run resumes.

The first line of a journal is the fingerprint of its origin. Each further line has the rows of one
chunk of the table, as JSON.
"""

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
    """The rows of all chunks. `work` is called for each chunk that the journal does not have yet.

    Each chunk is written to the journal as soon as it is complete. The caller holds a lock, writes
    the table and then removes the journal. If an error ends the work before any chunk is complete,
    the journal is removed here.

    Args:
        origin: everything that decides a row, as plain data. A journal with another origin is
            discarded.
        work: returns the rows of a chunk as plain data.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+") as journal:  # reads anywhere, but always writes at the end
        done = _read(journal, fingerprint(origin))[: len(chunks)]
        try:
            for chunk in chunks[len(done) :]:
                rows = work(chunk)
                journal.write(json.dumps(rows) + "\n")
                journal.flush()
                done.append(rows)
        except BaseException:  # also when the run is interrupted
            if not done:
                path.unlink()
            raise
    return [row for rows in done for row in rows]


def _read(journal: TextIO, origin: str) -> list[list[Any]]:
    """The rows of each complete chunk.

    Removes an unfinished line at the end, or everything if the journal has another origin. Writes
    the origin into an empty journal.
    """
    journal.seek(0)
    # Length of the lines to keep, in bytes. A character is a byte, since `json.dumps` writes ASCII.
    complete = 0
    chunks = []
    for number, line in enumerate(journal):
        is_unfinished = not line.endswith("\n")  # the run was killed while it wrote
        is_foreign = number == 0 and line != json.dumps(origin) + "\n"
        if is_unfinished or is_foreign:
            break
        complete += len(line)
        if number > 0:
            chunks.append(json.loads(line))
    journal.truncate(complete)
    if complete == 0:
        journal.write(json.dumps(origin) + "\n")
        journal.flush()
    return chunks
