"""Journal of an unfinished table, from which a killed run resumes."""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO, TypeVar

from rspo.core.files import fingerprint
from rspo.core.locks import take_lock, this_process

Chunk = TypeVar("Chunk")


def journal_of(table: Path) -> Path:
    """Path of the journal of a table."""
    return table.with_name(f".{table.stem}.journal")


@contextmanager
def in_chunks(
    path: Path, origin: Any, chunks: Sequence[Chunk], work: Callable[[Chunk], list[Any]]
) -> Iterator[list[Any]]:
    """The rows of all chunks, each chunk written to the journal as soon as it is complete.

    The block should write the table. The journal is removed when it ends without an error, and
    after an error if no chunk is complete.

    Args:
        path: of the journal.
        origin: everything that decides a row, as plain data. A journal with another origin is
            discarded.
        work: returns the rows of a chunk as plain data. The caller gets them as JSON returns them.

    Raises: InputError with the process that has locked the journal.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    owner = path.with_suffix(".owner")

    def busy() -> str:
        who = owner.read_text() if owner.exists() else "another process"
        return f"{path}: {who} is writing this table"

    with _locked(path, busy) as journal:
        owner.write_text(this_process())
        done = _read(journal, fingerprint(origin))[: len(chunks)]
        try:
            for chunk in chunks[len(done) :]:
                line = json.dumps(work(chunk))
                journal.write(line + "\n")
                journal.flush()
                done.append(json.loads(line))
            yield [row for rows in done for row in rows]
        except BaseException:
            owner.unlink(missing_ok=True)  # first: without the journal, another process may start
            if not done:
                path.unlink()
            raise
        owner.unlink(missing_ok=True)
        path.unlink()


def _locked(path: Path, busy: Callable[[], str]) -> TextIO:
    """Open and lock the journal, also if the process that held the lock has removed it."""
    while True:
        journal = path.open("a+")
        try:
            take_lock(journal, busy)
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(journal.fileno()), path.stat()):
                    return journal
        except BaseException:
            journal.close()
            raise
        journal.close()


def _read(journal: TextIO, origin: str) -> list[list[Any]]:
    """The rows of the complete chunks. Anything else in the journal is removed."""
    journal.seek(0)
    complete, chunks = 0, []
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
