"""Atomic writes, JSON lines, and digests of files and folders."""

import gzip
import hashlib
import json
import os
import re
import shutil
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from errno import EISDIR
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO, cast

from rspo.core.errors import InputError

STANDARD_INPUT = ("-", "/dev/stdin")  # names with which users mean it
_GZIP = b"\x1f\x8b"  # the first bytes of every file that gzip has compressed


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Write a file or folder atomically, so that `path` never has incomplete content.

    The block writes to the temporary path that this yields. When the block succeeds, this renames
    the temporary path to `path`. If the block fails, `path` stays as it was. After SIGKILL, the
    temporary file remains until the next write of `path`. An OSError names `path` if it names no
    other file.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    for leftover in path.parent.glob(f".{path.name}.partial*"):
        _remove(leftover)
    # The temporary name ends like `path`, because some libraries choose the format by the suffix.
    partial = path.parent / f".{path.name}.partial{path.suffix}"
    try:
        yield partial
        _sync(partial)
        os.utime(partial)  # a copied folder would keep the timestamp of its source
        if path.is_dir():  # a rename cannot replace a folder that is not empty
            if not partial.is_dir():
                raise IsADirectoryError(EISDIR, os.strerror(EISDIR), str(path))
            # After SIGKILL here, the next write removes the old folder, which the pattern above
            # matches too.
            path.replace(path.parent / f".{path.name}.partial-old")
        partial.replace(path)
        _remove(path.parent / f".{path.name}.partial-old")
    except BaseException as error:
        _remove(partial)
        if isinstance(error, shutil.Error):  # of a copy; it has no number of its own
            raise _first_error(error, path) from None
        if isinstance(error, OSError) and error.errno is not None and error.filename is None:
            error.filename = str(path)
        raise


def _first_error(error: shutil.Error, path: Path) -> OSError:
    """The first error of a failed copy of a folder, which names the folder that was written.

    Such an error is a list of the source, the target and the text of each error.
    """
    for _, _, text in error.args[0]:
        number = re.match(r"\[Errno (\d+)\]", str(text))
        if number:
            return OSError(int(number[1]), os.strerror(int(number[1])), str(path))
    return error


def _remove(path: Path) -> None:
    """Remove a file, a link or a folder, if it exists."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _sync(path: Path) -> None:
    """Flush a file or folder to disk, so that a crash after the rename cannot leave empty files."""
    for file in path.rglob("*") if path.is_dir() else [path]:
        if file.is_file():
            with file.open("rb") as stream:
                os.fsync(stream.fileno())


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically."""
    with atomic_write(path) as partial:
        partial.write_text(text)


def write_json_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write one JSON object per line, atomically."""
    write_text(path, "".join(json.dumps(row) + "\n" for row in rows))


def read_json_lines(path: Path) -> list[dict[str, Any]]:
    """Read a file with one JSON object per line; empty lines are skipped."""
    return [row for _, row in numbered_json_lines(path)]


def numbered_json_lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the number and the JSON object of each line that is not empty.

    Lines are counted from 1, including empty ones. The file must be UTF-8, and may be compressed
    with gzip.

    Raises: InputError that names the line.
    """
    require_file(path)
    number = 0  # for an error before the first line is read
    try:
        with _uncompressed(path) as lines:
            for number, line in enumerate(lines, start=1):
                # Editors on Windows begin a file with a byte order mark, which utf-8-sig skips.
                text = line.decode("utf-8-sig" if number == 1 else "utf-8")
                if not text.strip():
                    continue
                row = json.loads(text, object_pairs_hook=_unique_keys)
                if not isinstance(row, dict):
                    raise InputError(
                        f"{path}, line {number}: expected a JSON object, got {text.strip():.60}"
                    )
                yield number, row
    except UnicodeDecodeError as error:
        raise InputError(f"{path}, line {number}: not UTF-8 ({error})") from None
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise InputError(f"{path}: not a complete gzip file ({error})") from None
    except InputError:  # a ValueError too, which the next clause would report as invalid JSON
        raise
    except (ValueError, RecursionError) as error:  # such as an integer of more than 4,300 digits
        reason = getattr(error, "msg", error)  # without json's own line number
        raise InputError(f"{path}, line {number}: not JSON ({reason})") from None


def json_document(path: Path) -> Any:
    """The value of a file that is a single JSON document, perhaps over several lines.

    The file must be UTF-8, and may be compressed with gzip.

    Raises: InputError that names the line, also if another document follows, as in JSON lines.
    """
    require_file(path)
    try:
        with _uncompressed(path) as stream:
            text = stream.read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 ({error})") from None
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise InputError(f"{path}: not a complete gzip file ({error})") from None
    return json_value(text, str(path))


def json_value(text: str, origin: str) -> Any:
    """The value of a text in JSON.

    Raises: InputError that names the origin and the line.
    """
    try:
        return json.loads(text, object_pairs_hook=_unique_keys)
    except (ValueError, RecursionError) as error:
        reason = getattr(error, "msg", error)
        line = getattr(error, "lineno", 1)
        raise InputError(f"{origin}, line {line}: not JSON ({reason})") from None


def first_letter(path: Path) -> str:
    """The first character of a file that is no space, in ASCII; empty if there is none."""
    try:
        with _uncompressed(path) as stream:
            for line in stream:
                text = line.decode("utf-8-sig", errors="replace").strip()
                if text:
                    return text[0]
    except (EOFError, gzip.BadGzipFile, zlib.error):
        return ""
    return ""


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object with these keys and values.

    Raises: ValueError for a duplicate key, of which `json` alone would silently keep the last one.
    """
    row = dict(pairs)
    if len(row) < len(pairs):
        keys = [key for key, _ in pairs]
        repeated = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"the key {repeated!r} is duplicated")
    return row


def require_output(path: Path, *suffixes: str) -> None:
    """Raises: InputError for a file to write that has none of the suffixes, or no folder."""
    if path.is_dir():
        raise InputError(f"{path}: is a folder; expected a file with the suffix {suffixes[0]}")
    if path.suffix not in suffixes:
        allowed = ", ".join(suffixes)
        raise InputError(f"{path}: has the suffix {path.suffix!r}; allowed: {allowed}")
    if not path.parent.is_dir():
        raise InputError(f"{path}: no such folder: {path.parent}")


def require_file(path: Path) -> None:
    """Raises: InputError if a path is missing, or is no regular file.

    A pipe is refused because it can be read only once, and `_uncompressed` opens the file twice.
    """
    # /dev/stdin is a regular file if the shell redirects one: results would be written into /dev.
    if str(path) in STANDARD_INPUT or path.is_fifo():
        raise InputError(
            f"{path}: a pipe can be read only once, and this reads its input several times; write "
            "it into a file first"
        )
    if not path.is_file():
        raise InputError(f"{path}: {'not a file' if path.exists() else 'no such file'}")


def _uncompressed(path: Path) -> BinaryIO:
    """Open a file for reading, decompressed if it begins like a gzip file, whatever its name."""
    with path.open("rb") as stream:
        compressed = stream.read(len(_GZIP)) == _GZIP
    return cast(BinaryIO, gzip.open(path)) if compressed else path.open("rb")


def fingerprint(settings: Any) -> str:
    """The hash of plain data, as twelve hexadecimal digits.

    Neither the order of keys changes the hash, nor writing the data as JSON and reading it again.
    """
    # JSON turns tuples into lists, and keys that are numbers into text, so that `sort_keys` then
    # compares strings only.
    as_json = json.loads(json.dumps(settings, default=str))
    text = json.dumps(as_json, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def digest(path: Path) -> str:
    """The SHA-256 of a file, or of the names and digests of a folder's files; 64 hex digits.

    Hidden files in a folder do not count, because Snakemake and the hub's client create some.
    """
    if not path.is_dir():
        status = path.stat()
        return _digest(path, status.st_size, status.st_mtime_ns)
    files = sorted(visible_files(path))
    lines = [f"{digest(file)}  {file.relative_to(path).as_posix()}\n" for file in files]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def visible_files(folder: Path) -> Iterator[Path]:
    """Yield the files of a folder, at any depth, that are neither hidden nor in a hidden folder."""
    for file in folder.rglob("*"):
        hidden = any(part.startswith(".") for part in file.relative_to(folder).parts)
        if file.is_file() and not hidden:
            yield file


@cache
def _digest(path: Path, size: int, changed: int) -> str:
    """The SHA-256 of a file, cached for processes that write several files from the same inputs.

    Size (bytes) and time of the last change (nanoseconds) are keys of the cache: a file that has
    changed is read again.
    """
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
