"""Reads the rows of a file of the user: JSON lines, CSV with a header, or Parquet."""

import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rspo.core.errors import InputError
from rspo.core.files import digest, numbered_json_lines, require_file

# The most characters that a field of a CSV file may have. Python's default, 131,072, is too short
# for long responses.
_LONGEST_FIELD = 2**31 - 1


@dataclass(frozen=True)
class Row:
    """A row of a file or data set, with its location.

    Messages name the origin and the place. Rows of problems also have a source, a revision and a
    number, for the problems table; rows of responses keep the defaults.

    origin: the file, or the page of a data set on the Hugging Face hub.
    place: the row within the origin, such as "line 3".
    values: the value of each key or column.
    source: ID/SPLIT or ID/CONFIG/SPLIT on the hub, or the name of a file.
    revision: the commit of the hub's repository, or sha256:... of a file.
    number: index of the row in the source, counted from 0.
    """

    origin: str
    place: str
    values: dict[str, Any]
    source: str = ""
    revision: str = ""
    number: int = 0

    def __str__(self) -> str:
        return f"{self.origin}, {self.place}"

    def value(self, key: str, hint: str = "") -> Any:
        """The value of a key.

        Raises: InputError that names the location, the key and the existing keys.
        """
        if key not in self.values:
            has = ", ".join(self.values) or "no keys"
            raise InputError(f"{self}: the key {key!r} is missing; has {has}{hint}")
        return self.values[key]

    def refuse(self, key: str, expected: str) -> InputError:
        """The error for a value that is not as expected."""
        value = json.dumps(self.value(key), ensure_ascii=False, default=str)
        return InputError(f"{self}: {key!r} is {value:.60}; expected {expected}")


def rows_of(path: Path) -> Iterator[Row]:
    """The rows of a file: CSV or Parquet if its suffix says so, else JSON lines.

    Raises: InputError if the file is missing. The iterator raises InputError for a row that is
        unreadable.
    """
    require_file(path)
    if path.suffix == ".csv":
        return _csv(path)
    if path.suffix == ".parquet":
        return _parquet(path)
    lines = numbered_json_lines(path)
    return (Row(str(path), f"line {number}", values) for number, values in lines)


def rows_of_source(path: Path, source: str) -> list[Row]:
    """Read the rows of a file of problems, with their source, revision and number."""
    rows = rows_of(path)
    # `rows` is an iterator that has read nothing yet. The digest is computed first, so that a file
    # that changes meanwhile does not have the recorded digest any more.
    revision = f"sha256:{digest(path)}"
    return [
        replace(row, source=source, revision=revision, number=number)
        for number, row in enumerate(rows)
    ]


def _csv(path: Path) -> Iterator[Row]:
    """The rows of a CSV file. Every value is text, so that answers such as 007 keep their zeros."""
    with path.open(encoding="utf-8-sig", newline="") as stream:  # Excel writes a byte order mark
        csv.field_size_limit(_LONGEST_FIELD)
        reader = csv.reader(stream, strict=True)
        try:
            header = next(reader, [])
            repeated = [name for name in header if header.count(name) > 1]
            if repeated:
                raise InputError(f"{path}: the column {min(repeated)!r} is duplicated")
            for values in reader:
                if not values:  # an empty line
                    continue
                if len(values) != len(header):
                    raise InputError(
                        f"{path}, line {reader.line_num}: has {len(values)} values; expected "
                        f"{len(header)}: {', '.join(header)}"
                    )
                row = dict(zip(header, values, strict=True))
                yield Row(str(path), f"line {reader.line_num}", row)
        except csv.Error as error:
            raise InputError(f"{path}, line {reader.line_num}: not CSV ({error})") from None
        except UnicodeDecodeError as error:
            raise InputError(f"{path}: not UTF-8 ({error})") from None


def _parquet(path: Path) -> Iterator[Row]:
    """The rows of a Parquet file, with the types of its columns."""
    import pyarrow as pa
    import pyarrow.parquet

    try:
        table = pa.parquet.read_table(path)
    except pa.ArrowException as error:
        raise InputError(f"{path}: not Parquet ({' '.join(str(error).split())})") from None
    for number, values in enumerate(table.to_pylist(), start=1):
        yield Row(str(path), f"row {number}", values)
