"""What an unfinished table has so far, so that a killed run goes on where it was."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO, TypeVar

from rspo.core.files import fingerprint
from rspo.core.locks import take_lock, this_process

Chunk = TypeVar("Chunk")


def journal_of(table: Path) -> Path:
    """Where the journal of a table stands."""
    return table.with_name(f".{table.stem}.journal")


@contextmanager
def in_chunks(
    path: Path, origin: Any, chunks: Sequence[Chunk], work: Callable[[Chunk], list[Any]]
) -> Iterator[list[Any]]:
    """The rows of all chunks; those of a chunk are in the journal as soon as they are there.

    The journal is removed when the block ends well: by then the rows stand in a table.

    Args:
        path: of the journal.
        origin: plain data with everything that decides a row; a journal of another origin is not
            gone on from.
        work: the rows of a chunk, plain data. They come back as JSON has them.

    Raises: InputError that names the process that has the journal open.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    owner = path.with_suffix(".owner")
    with path.open("a+") as journal:

        def busy() -> str:
            who = owner.read_text() if owner.exists() else "another process"
            return f"{path}: {who} makes this table"

        take_lock(journal, busy)
        owner.write_text(this_process())
        done = _read(journal, fingerprint(origin))[: len(chunks)]
        for chunk in chunks[len(done) :]:
            line = json.dumps(work(chunk))
            journal.write(line + "\n")
            journal.flush()
            done.append(json.loads(line))
        yield [row for rows in done for row in rows]
        owner.unlink(missing_ok=True)
        path.unlink()


def _read(journal: TextIO, origin: str) -> list[list[Any]]:
    """The rows that are there, chunk by chunk; whatever else is in the journal is cut off."""
    journal.seek(0)
    whole, chunks = 0, []
    for number, line in enumerate(journal):
        if not line.endswith("\n") or (number == 0 and json.loads(line) != origin):
            break
        whole += len(line)
        if number > 0:
            chunks.append(json.loads(line))
    journal.truncate(whole)
    if whole == 0:
        journal.write(json.dumps(origin) + "\n")
        journal.flush()
    return chunks
