"""Reads the rows of a file of the user: JSON, JSON lines, CSV with a header, Parquet, or a zip."""

import csv
import json
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import chain
from pathlib import Path
from typing import Any

from rspo.core.errors import InputError
from rspo.core.files import (
    digest,
    first_letter,
    json_document,
    json_value,
    numbered_json_lines,
    require_file,
)
from rspo.formats.paths import reach

# The most characters that a field of a CSV file may have. Python's default, 131,072, is too short
# for long responses.
_LONGEST_FIELD = 2**31 - 1
DOCUMENT = "the document"  # the place of a row that is the whole file
_ZSTANDARD = 93  # the number of this compression in a zip, which Python's zipfile does not know
# What the modules zipfile and zlib raise for a broken file, and for another compression.
_BROKEN_ZIP = (
    zipfile.BadZipFile,
    zlib.error,
    OSError,
    EOFError,
    UnicodeDecodeError,
    NotImplementedError,
)
_LOCAL_HEADER = 30  # bytes of the fixed part of the header before each member of a zip


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
        """The value of a key, or at the end of a path (`rspo.formats.paths`).

        Raises: InputError that names the location, the key and the existing keys.
        """
        if key in self.values:
            return self.values[key]
        try:
            return reach(self.values, key)
        except KeyError:
            has = ", ".join(self.values) or "no keys"
            for close in get_close_matches(key, self.values, n=1):
                has += f"; did you mean {close}?"
            raise InputError(f"{self}: the key {key!r} is missing; has {has}{hint}") from None

    def refuse(self, key: str, expected: str) -> InputError:
        """The error for a value that is not as expected."""
        value = json.dumps(self.value(key), ensure_ascii=False, default=str)
        return InputError(f"{self}: {key!r} is {value:.60}; expected {expected}")


def rows_of(path: Path) -> Iterator[Row]:
    """The rows of a file.

    CSV, Parquet and the zip of an evaluation with inspect_ai (.eval) are recognised by the suffix.
    Any other file is an array of JSON objects, a single object if its suffix is .json, or JSON
    lines.

    Raises: InputError if the file is missing. The iterator raises InputError for a row that is
        unreadable.
    """
    require_file(path)
    if path.suffix == ".csv":
        return _csv(path)
    if path.suffix == ".parquet":
        return _parquet(path)
    if path.suffix == ".eval":
        return _zip(path)
    if first_letter(path) == "[":
        return _array(path)
    if path.name.removesuffix(".gz").endswith(".json"):
        return _document(path)
    return _json_lines(path)


def _json_lines(path: Path) -> Iterator[Row]:
    """The rows of a file with a JSON object per line."""
    for number, values in numbered_json_lines(path):
        yield Row(str(path), f"line {number}", values)


def _array(path: Path) -> Iterator[Row]:
    """The rows of a file that is an array of JSON objects."""
    for number, values in enumerate(json_document(path), start=1):
        if not isinstance(values, dict):
            item = json.dumps(values)
            raise InputError(f"{path}, item {number}: expected a JSON object, got {item:.60}")
        yield Row(str(path), f"item {number}", values)


def _document(path: Path) -> Iterator[Row]:
    """The row of a file that is one JSON object, or the rows of JSON lines."""
    try:
        values = json_document(path)
    except InputError:
        # JSON lines under the name .json, or a broken file, whose line the next message names.
        return _json_lines(path)
    if not isinstance(values, dict):
        return _json_lines(path)
    return _records(path, values)


def _records(path: Path, document: Mapping[str, Any]) -> Iterator[Row]:
    """The rows of a JSON object: those of a table by row or by column, else the object itself.

    A table by row is {"0": {"problem": ...}, "1": ...}, and by column {"problem": {"0": ...}, ...},
    as pandas and OpenCompass write them.
    """
    if not all(isinstance(part, dict) and part for part in document.values()):
        yield Row(str(path), DOCUMENT, dict(document))
        return
    inner_keys = list(dict.fromkeys(chain.from_iterable(document.values())))
    if all(key.isdecimal() for key in document):
        for number, values in document.items():
            yield Row(str(path), f"row {number}", values)
    elif all(key.isdecimal() for key in inner_keys):
        for number in inner_keys:
            values = {column: document[column].get(number) for column in document}
            yield Row(str(path), f"row {number}", values)
    else:
        yield Row(str(path), DOCUMENT, dict(document))


def _zip(path: Path) -> Iterator[Row]:
    """A row for each sample of an evaluation log of inspect_ai, which is a zip of JSON files."""
    try:
        with zipfile.ZipFile(path) as archive:
            # A sample that was tried again has the same name; the last one counts.
            names = [name for name in dict.fromkeys(archive.namelist()) if _is_sample(name)]
            for name in names:
                text = _member(archive, archive.getinfo(name)).decode()
                values = json_value(text, f"{path}, {name}")
                if not isinstance(values, dict):
                    raise InputError(f"{path}, {name}: expected a JSON object, got {text:.60}")
                yield Row(str(path), name, values)
    except _BROKEN_ZIP as error:
        raise InputError(f"{path}: not a complete zip file ({error})") from None


def _is_sample(name: str) -> bool:
    """Whether a member of the zip is a sample, such as samples/3_epoch_1.json."""
    return name.startswith("samples/") and name.endswith(".json")


def _member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    """The contents of a member of a zip, which may be compressed with zstandard."""
    if member.compress_type != _ZSTANDARD:
        return archive.read(member)
    import pyarrow as pa

    stream = archive.fp
    if stream is None:  # only after the archive was closed
        raise zipfile.BadZipFile("closed")
    stream.seek(member.header_offset)
    header = stream.read(_LOCAL_HEADER)
    # The header ends with the lengths of the name and of the extra field, two bytes each.
    name_length = int.from_bytes(header[26:28], "little")
    extra_length = int.from_bytes(header[28:30], "little")
    stream.seek(name_length + extra_length, 1)
    compressed = stream.read(member.compress_size)
    return bytes(pa.CompressedInputStream(pa.BufferReader(compressed), "zstd").read())


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
