"""Which tables of a policy have to be made."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from rspo.core.provenance import is_up_to_date
from rspo.evaluation.journal import journal_of

Table = TypeVar("Table")


def outdated(
    paths: Mapping[Table, Path], settings: Any, inputs_of: Callable[[Table], Sequence[Path]]
) -> list[Table]:
    """The tables that are missing, damaged, unfinished, or made with other settings or inputs.

    The timestamps of the others are updated: Snakemake would otherwise rerun a job forever whose
    inputs have new timestamps but the same content.
    """
    result = []
    for table, path in paths.items():
        if not journal_of(path).exists() and is_up_to_date(path, settings, inputs_of(table)):
            path.touch()
        else:
            result.append(table)
    return result
