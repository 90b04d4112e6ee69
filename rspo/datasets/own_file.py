"""Rows of a file of the user: JSON lines, CSV with a header, or Parquet.

    data:
      validation: {file: my.jsonl, problem: question, answer: gold}

Unlike a data set of the hub, whose expected content is in the config, such a file may change. Every
row must therefore be a problem of its own with an answer.
"""

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rspo.config.schema import Columns
from rspo.core.errors import InputError
from rspo.core.files import digest, numbered_json_lines, open_file
from rspo.datasets.source_row import SourceRow

_COLUMN_KEYS = ("problem", "answer", "context", "unit")  # of `Columns`, each with a column's name


def read_own_file(path: Path, name: str, columns: Columns, key: str) -> list[SourceRow]:
    """All rows of a file, unfiltered.

    Args:
        name: the file's name in the config.
        key: location of the data set in the config, such as "config/tiny.yaml: data.train".

    Raises: InputError that names file, key and value: for a file that is missing, has no rows or
        another format than its suffix says, and for a row without a column that the config names.
    """
    if not path.is_file():
        raise InputError(
            f"{path}: no such file ({key}.file; paths are relative to the folder that has config/)"
        )
    try:
        found = list(rows_of(path))
        revision = f"sha256:{digest(path)}"
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}; {key}.file)") from None
    if not found:
        raise InputError(f"{path}: has no rows; expected at least one problem ({key}.file)")
    rows = [
        SourceRow(values, name, revision, row, str(path), place)
        for row, (place, values) in enumerate(found)
    ]
    for row in rows:
        _require_columns(row, columns, key)
    return rows


def _require_columns(row: SourceRow, columns: Columns, key: str) -> None:
    named = {f"{key}.{kind}": getattr(columns, kind) for kind in _COLUMN_KEYS}
    if columns.filter is not None:
        named[f"{key}.filter.column"] = columns.filter.column
    for location, column in named.items():
        if column is not None and column not in row.columns:
            raise InputError(
                f"{row.location}: has no column {column!r} ({location}); "
                f"has {', '.join(row.columns)}"
            )


_LONGEST_FIELD = 2**31 - 1  # characters; the default, 131,072, is too short for long responses
Rows = Iterator[tuple[str, dict[str, Any]]]  # place of a row, and its values


def rows_of(path: Path) -> Rows:
    """The rows of a file: CSV or Parquet if its suffix says so, else JSON lines.

    Raises: InputError for a file that is missing or has another format.
    """
    open_file(path).close()
    return {".csv": _csv, ".parquet": _parquet}.get(path.suffix, _json_lines)(path)


def _json_lines(path: Path) -> Rows:
    for number, values in numbered_json_lines(path, open_file(path)):
        yield f"line {number}", values


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
