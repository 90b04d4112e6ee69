"""The parquet tables between the boxes of the DAG: their columns, versions, and how to read them.

docs/files.md describes every file of the project; this module is what holds for the tables.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rspo.core.errors import InputError
from rspo.core.files import atomic_write


@dataclass(frozen=True)
class Table:
    """A kind of table: name, version of its layout, and columns in order."""

    name: str
    version: int
    schema: pa.Schema


MESSAGE = pa.struct([("role", pa.string()), ("content", pa.string())])

PROBLEMS = Table(
    "problems",
    1,
    pa.schema(
        [
            ("id", pa.string()),  # unique in the file, such as "math500/12"
            ("benchmark", pa.string()),  # the set (or, of a mixture, the family) it belongs to
            ("prompt", pa.list_(MESSAGE)),  # chat messages, before any chat template
            ("answers", pa.list_(pa.string())),  # accepted forms; at least one
            ("source", pa.string()),  # hub id[/config]/split, or the generator
            ("revision", pa.string()),  # hub revision or content hash of the source
            ("row", pa.int32()),  # row in the source, from 0
        ]
    ),
)

SAMPLES = Table(
    "samples",
    1,
    pa.schema(
        [
            ("problem_id", pa.string()),
            ("sample_index", pa.int32()),  # 0 .. N-1 of each problem
            ("text", pa.string()),  # the response, without its end token
            ("tokens", pa.int32()),  # tokens of the response, its end token included
            ("finish_reason", pa.string()),  # "stop" (end token) or "length" (cut)
            ("seed", pa.int64()),  # of the sampler
        ]
    ),
)

SCORES = Table(
    "scores",
    1,
    pa.schema(
        [
            ("problem_id", pa.string()),
            ("sample_index", pa.int32()),
            ("correct", pa.bool_()),
            ("verifier", pa.string()),  # which verifier decided
            ("verdict", pa.string()),  # why: "correct", "incorrect", "no answer", "timeout", ...
            ("reward", pa.float64()),  # what training would have paid
        ]
    ),
)

CURVES = Table(
    "curves",
    1,
    pa.schema(
        [
            ("cell", pa.string()),
            ("benchmark", pa.string()),  # a benchmark, or "pooled": every problem of all of them
            ("metric", pa.string()),  # "pass_at_k" or "max_at_k"
            ("k", pa.int32()),
            ("estimate", pa.float64()),  # unbiased, averaged over problems
            ("error_within", pa.float64()),  # standard error for these problems; NaN if 2k > N
            ("error_total", pa.float64()),  # standard error for the population of problems
            ("low", pa.float64()),  # 95 % interval from resampled problems
            ("high", pa.float64()),
            ("problems", pa.int32()),
            ("samples", pa.int32()),  # N, samples per problem
        ]
    ),
)

GRADIENTS = Table(
    "gradients",
    1,
    pa.schema(
        [
            ("problem_id", pa.string()),  # of the training set
            ("objective", pa.string()),
            ("k", pa.int32()),  # of the objective; 1 where it has none
            ("n", pa.int32()),  # responses of a group
            ("responses", pa.int32()),  # drawn to the prompt
            ("correct", pa.float64()),  # share of them
            ("variance", pa.float64()),  # tr Cov[g] of a group's gradient, unbiased
            ("signal", pa.float64()),  # |E[g]|^2, unbiased, so it may be below 0
        ]
    ),
)


def write_table(path: Path, kind: Table, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write rows in the layout of `kind`, whole or not at all.

    Raises: InputError if a row lacks a column or has a value of another type.
    """
    rows = list(rows)
    try:
        columns = {name: [row[name] for row in rows] for name in kind.schema.names}
        table = pa.table(columns, schema=kind.schema)
    except KeyError as error:
        raise InputError(f"{path}: a row of {kind.name} lacks the column {error}") from None
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise InputError(f"{path}: not a row of {kind.name}: {error}") from None
    label = {"rspo": f"{kind.name}/{kind.version}"}
    with atomic_write(path) as partial:
        pq.write_table(table.replace_schema_metadata(label), partial)


def read_table(path: Path, kind: Table) -> list[dict[str, Any]]:
    """Rows of a table, checked against the layout of `kind`.

    Raises: InputError, naming the file, for one that is missing, truncated, empty, of another
    version, or without a column or with one of another type.
    """
    if not path.is_file():
        raise InputError(f"{path}: no such file (expected a table of {kind.name})")
    try:
        table = pq.ParquetFile(path).read()  # pq.read_table imports pandas, for a second
    except (pa.ArrowException, OSError) as error:
        first_line = str(error).splitlines()[0]
        raise InputError(f"{path}: not a whole parquet file; remove it ({first_line})") from None
    label = (table.schema.metadata or {}).get(b"rspo", b"").decode()
    if label and label != f"{kind.name}/{kind.version}":
        raise InputError(f"{path}: is {label}, expected {kind.name}/{kind.version}; remake it")
    missing = [name for name in kind.schema.names if name not in table.schema.names]
    if missing:
        raise InputError(
            f"{path}: the column {missing[0]!r} is missing; has {table.schema.names}, "
            f"{kind.name} needs {kind.schema.names}"
        )
    table = table.select(kind.schema.names)
    for field in kind.schema:
        try:  # other writers' integers and texts of other widths are the same values
            table.column(field.name).cast(field.type)
        except pa.ArrowException as error:
            raise InputError(
                f"{path}: column {field.name!r} is not {field.type}: {error}"
            ) from None
    if table.num_rows == 0:
        raise InputError(f"{path}: has no rows; at least one of {kind.name} is needed")
    rows: list[dict[str, Any]] = table.cast(kind.schema).to_pylist()
    return rows
