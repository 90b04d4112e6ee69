"""The judge's verdicts on disk, by content: one JSON object a line, appended as they come."""

import json
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TextIO

from rspo.core.errors import InputError
from rspo.core.locks import take_lock

_LONGEST_REPLY = 200  # characters to keep; a verdict has one word


class VerdictStore:
    """A file of verdicts that one process at a time has open.

    A line is written whole or, when the process is killed at it, cut; a cut last line is dropped.

    Raises: InputError if another process has the file open.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file: TextIO = path.open("a+")
        try:
            take_lock(self._file, lambda: f"{path}: another process writes it")
        except InputError:
            self._file.close()
            raise
        self._reasons = self._read()

    def __enter__(self) -> "VerdictStore":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()

    def __len__(self) -> int:
        return len(self._reasons)

    def __contains__(self, key: str) -> bool:
        return key in self._reasons

    def __getitem__(self, key: str) -> str:
        """The reason of a verdict."""
        return self._reasons[key]

    def add(self, key: str, reason: str, reply: str) -> None:
        """Keep a verdict; the judge's own words stand beside it to be read."""
        line = json.dumps({"key": key, "verdict": reason, "reply": reply[:_LONGEST_REPLY]})
        self._file.write(line + "\n")
        self._file.flush()
        self._reasons[key] = reason

    def _read(self) -> dict[str, str]:
        self._file.seek(0)
        reasons, whole = {}, 0
        for line in self._file:
            if not line.endswith("\n"):
                break
            whole += len(line.encode())
            with suppress(ValueError, LookupError, TypeError):  # a damaged line is asked for again
                row = json.loads(line)
                reasons[row["key"]] = row["verdict"]
        self._file.truncate(whole)
        return reasons
