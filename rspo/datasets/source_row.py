"""One row of a source of problems, with its location for messages and provenance."""

from dataclasses import dataclass
from typing import Any

from rspo.core.errors import InputError


@dataclass(frozen=True)
class SourceRow:
    """One row as published, with its location.

    source: id[/config]/split on the hub, or the name of a file.
    revision: commit of the hub's repository, or sha256:... of a file.
    row: index in the source.
    origin: for messages: the file or the hub's page.
    place: the row within the origin, such as "line 3"; default: one row a line.
    """

    columns: dict[str, Any]
    source: str
    revision: str
    row: int
    origin: str
    place: str = ""

    @property
    def location(self) -> str:
        return f"{self.origin}, {self.place or f'line {self.row + 1}'}"

    def column(self, name: str) -> Any:
        """Raises: InputError that names the file, the column and the existing columns."""
        if name not in self.columns:
            raise InputError(
                f"{self.location}: the column {name!r} is missing; has {', '.join(self.columns)}"
            )
        return self.columns[name]
