"""Rows of a file of the user: JSON lines, CSV with a header, or Parquet."""

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rspo.core.errors import InputError
from rspo.core.files import numbered_json_lines, open_file

_LONGEST_FIELD = 2**31 - 1  # characters; the default, 131,072, is too short for long responses
Rows = Iterator[tuple[str, dict[str, Any]]]  # place of a row, and its values


def rows_of(path: Path) -> Rows:
    """The rows of a file: CSV or Parquet if its suffix says so, else JSON lines.

    Raises: InputError for a file that is missing or has another format.
    """
    stream = open_file(path)
    if path.suffix not in (".csv", ".parquet"):
        return ((f"line {line}", row) for line, row in numbered_json_lines(path, stream))
    stream.close()
    return _csv(path) if path.suffix == ".csv" else _parquet(path)


def _csv(path: Path) -> Rows:
    """Every value is text, so that answers such as 007 keep their zeros."""
    with path.open(encoding="utf-8-sig", newline="") as stream:  # Excel writes a byte order mark
        csv.field_size_limit(_LONGEST_FIELD)
        reader = csv.reader(stream, strict=True)
        try:
            header = next(reader, [])
            if repeated := {name for name in header if header.count(name) > 1}:
                raise InputError(f"{path}: the column {min(repeated)!r} is duplicated")
            for values in reader:
                if values and len(values) != len(header):
                    raise InputError(
                        f"{path}, line {reader.line_num}: has {len(values)} values; expected "
                        f"{len(header)}: {', '.join(header)}"
                    )
                if values:
                    yield f"line {reader.line_num}", dict(zip(header, values, strict=True))
        except csv.Error as error:
            raise InputError(f"{path}, line {reader.line_num}: not CSV ({error})") from None
        except UnicodeDecodeError as error:
            raise InputError(f"{path}: not UTF-8 ({error})") from None


def _parquet(path: Path) -> Rows:
    import pyarrow as pa
    import pyarrow.parquet

    try:
        table = pa.parquet.read_table(path)
    except pa.ArrowException as error:
        raise InputError(f"{path}: not Parquet ({' '.join(str(error).split())})") from None
    for number, values in enumerate(table.to_pylist(), start=1):
        yield f"row {number}", values
