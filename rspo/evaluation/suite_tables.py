"""The tables of a policy on a suite: which of them must be made.

Snakemake deletes the outputs of a job before it starts, and again if it fails. Each complete table
therefore also has a hidden hard link beside it, which takes no space: `.<block>.parquet.complete`.
The next job restores the table from it if it is still up to date.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from rspo.core.locks import exclusive_lock
from rspo.core.provenance import is_up_to_date, provenance_path

Table = TypeVar("Table")


def keep(path: Path) -> None:
    """Link a complete table, whose provenance is written, so that it can be restored.

    On a file system without hard links, a table that Snakemake deleted is made again instead.
    """
    link = _link_of(path)
    link.unlink(missing_ok=True)
    with suppress(OSError):
        os.link(path, link)


def make_outdated(
    paths: Mapping[Table, Path],
    settings: Any,
    inputs_of: Callable[[Table], Sequence[Path]],
    make: Callable[[list[Table]], None],
) -> int:
    """Make the tables that are missing, damaged, or made with other settings or inputs.

    Args:
        make: writes these tables and calls `keep` for each. It is not called without any.

    Returns: their number.

    Raises: InputError that names the process that already makes tables of this suite.
    """
    with _locked(paths.values()):
        tables = _outdated(paths, settings, inputs_of)
        if tables:
            make(tables)
    return len(tables)


@contextmanager
def _locked(paths: Iterable[Path]) -> Iterator[None]:
    """Hold the locks of the folders of these tables.

    Raises: InputError that names the process that holds one of them.
    """
    with ExitStack() as locks:
        for folder in dict.fromkeys(path.parent for path in paths):
            locks.enter_context(exclusive_lock(folder))
        yield


def _outdated(
    paths: Mapping[Table, Path], settings: Any, inputs_of: Callable[[Table], Sequence[Path]]
) -> list[Table]:
    """The tables that are missing, damaged, or made with other settings or inputs.

    The others are restored if Snakemake deleted them. Their timestamps are updated: Snakemake would
    otherwise rerun a job forever whose inputs have new timestamps but the same content.
    """
    result = []
    for table, path in paths.items():
        file = path if path.exists() else _link_of(path)
        if not is_up_to_date(file, provenance_path(path), settings, inputs_of(table)):
            result.append(table)
            continue
        if not path.exists():
            os.link(file, path)
        path.touch()
        keep(path)
    return result


def _link_of(path: Path) -> Path:
    return path.with_name(f".{path.name}.complete")
