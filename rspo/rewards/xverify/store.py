"""Verdicts of the judge on disk: one JSON object per line, appended in order of arrival."""

import json
from contextlib import suppress
from pathlib import Path
from typing import TextIO

from rspo.core.errors import InputError
from rspo.core.locks import take_lock

_LONGEST_REPLY = 200  # characters to keep; a valid reply is one word


class VerdictStore:
    """A file of verdicts, locked by the process that uses it.

    A killed process may leave an incomplete last line, which the next one removes.

    Raises: InputError if another process has locked the file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file: TextIO = path.open("a+")
        try:
            take_lock(self._file, lambda: f"{path}: another process is writing to it")
        except InputError:
            self._file.close()
            raise
        self._reasons = self._read()

    def __enter__(self) -> "VerdictStore":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def __len__(self) -> int:
        return len(self._reasons)

    def __contains__(self, key: str) -> bool:
        return key in self._reasons

    def __getitem__(self, key: str) -> str:
        """The reason of a verdict."""
        return self._reasons[key]

    def add(self, key: str, reason: str, reply: str) -> None:
        """Store a verdict, with the reply for inspection."""
        line = json.dumps({"key": key, "verdict": reason, "reply": reply[:_LONGEST_REPLY]})
        self._file.write(line + "\n")
        self._file.flush()
        self._reasons[key] = reason

    def _read(self) -> dict[str, str]:
        self._file.seek(0)
        reasons, complete = {}, 0
        for line in self._file:
            if not line.endswith("\n"):
                break
            complete += len(line.encode())
            with suppress(ValueError, LookupError, TypeError):  # a damaged line is requested again
                row = json.loads(line)
                reasons[row["key"]] = row["verdict"]
        self._file.truncate(complete)
        return reasons
