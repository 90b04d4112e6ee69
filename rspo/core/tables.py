"""Read and write tables: the Parquet files between the tasks, and CSV files.

Commands that run hundreds of times in an experiment use rows (`read_table`, `write_table`), without
pandas, whose import takes half a second. docs/files.md describes every file.
"""

import io
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pa_json
import pyarrow.parquet as pq

from rspo.core.errors import InputError
from rspo.core.files import atomic_write, require_file

if TYPE_CHECKING:
    import pandas as pd

# `write_table` converts this many rows at a time by way of a JSON document, because pyarrow reads a
# document of at most 2 GiB.
ROWS_OF_A_PART = 10_000

MESSAGE = pa.struct([("role", pa.string()), ("content", pa.string())])

PROBLEMS = pa.schema(
    {
        "id": pa.string(),  # unique in the file, such as "math500/12"
        "benchmark": pa.string(),  # data set, or the family within a mixture
        "prompt": pa.list_(MESSAGE),  # chat messages, without a chat template
        "answers": pa.list_(pa.string()),  # accepted forms; at least one
        "source": pa.string(),  # hub id[/config]/split, or the generator
        "revision": pa.string(),  # hub revision or content hash of the source
        "row": pa.int32(),  # row in the source, from 0
    }
)

SAMPLES = pa.schema(
    {
        "benchmark": pa.string(),
        "problem_id": pa.string(),
        "sample_index": pa.int32(),  # 0 .. N-1 of each problem
        "text": pa.string(),  # the response, without its end token
        "tokens": pa.int32(),  # tokens of the response, its end token included
        "finish_reason": pa.string(),  # "stop" (end token) or "length" (cut)
        "seed": pa.int64(),  # of the sampler
    }
)

SCORES = pa.schema(
    {
        "benchmark": pa.string(),
        "problem_id": pa.string(),
        "sample_index": pa.int32(),
        "correct": pa.bool_(),
        "verifier": pa.string(),  # the verifier that decided
        "verdict": pa.string(),  # the reason: "correct", "incorrect", "no answer", "timeout", ...
        "reward": pa.float64(),  # the reward in Max@k (evaluation.reward), by default "length"
    }
)

CURVES = pa.schema(
    {
        "cell": pa.string(),
        "benchmark": pa.string(),  # a benchmark, or "pooled": the problems of all of them
        "metric": pa.string(),  # "pass_at_k" or "max_at_k"
        "k": pa.int32(),
        "estimate": pa.float64(),  # unbiased, averaged over problems
        "error_within": pa.float64(),  # standard error for these problems; NaN if 2k > N
        "error_total": pa.float64(),  # standard error over the population of problems
        "low": pa.float64(),  # 95 % interval from resampled problems
        "high": pa.float64(),
        "problems": pa.int32(),
        "samples": pa.int32(),  # N, samples per problem
    }
)


def write_table(path: Path, schema: pa.Schema, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write rows as a Parquet table, atomically; columns outside the schema are left out.

    Raises: InputError for a row that does not fit the schema.
    """
    rows = list(rows)
    starts = range(0, max(1, len(rows)), ROWS_OF_A_PART)
    try:
        parts = [_table(schema, rows[start : start + ROWS_OF_A_PART]) for start in starts]
    except pa.ArrowException as error:
        raise InputError(f"{path}: not a row of this table: {error}") from None
    write_arrow(path, pa.concat_tables(parts).combine_chunks())


def _table(schema: pa.Schema, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """A table of rows, each a mapping from the schema's names to Python values.

    The values are converted by way of JSON, because `pa.array` imports pandas for Python objects.
    """
    # One JSON document that has a list for each column; `flatten` turns the lists into columns. A
    # block holds the whole document, which pyarrow cannot divide.
    text = json.dumps({name: [row[name] for row in rows] for name in schema.names}).encode()
    lists = pa.schema([pa.field(field.name, pa.list_(field)) for field in schema])
    reading = pa_json.ReadOptions(use_threads=False, block_size=len(text) + 1)
    parsing = pa_json.ParseOptions(explicit_schema=lists)
    columns = pa_json.read_json(io.BytesIO(text), reading, parsing)
    return pa.table([column.combine_chunks().flatten() for column in columns], schema=schema)


def write_frame(path: Path, schema: pa.Schema, frame: "pd.DataFrame") -> None:
    """Write a frame as a Parquet table, atomically; columns outside the schema are left out."""
    # NaN stays NaN in the arrays of NumPy; the conversion from pandas would turn it into null.
    arrays = [pa.array(frame[field.name].to_numpy(), type=field.type) for field in schema]
    write_arrow(path, pa.Table.from_arrays(arrays, schema=schema))


def write_arrow(path: Path, table: pa.Table) -> None:
    """Write an Arrow table as a Parquet table, atomically."""
    with atomic_write(path) as partial:
        pq.write_table(table, partial)


def read_table(path: Path, schema: pa.Schema) -> list[dict[str, Any]]:
    """Read the rows of a Parquet table.

    Raises: InputError if the file is missing, damaged, or another table, or if it has no rows.
    """
    rows: list[dict[str, Any]] = _read(path, schema).to_pylist()
    return rows


def read_frame(path: Path, schema: pa.Schema, benchmark: str | None = None) -> "pd.DataFrame":
    """Read a Parquet table, or its rows of one benchmark, as a pandas frame.

    Raises: InputError as `read_table` does.
    """
    return _read(path, schema, benchmark).to_pandas()


def _read(path: Path, schema: pa.Schema, benchmark: str | None = None) -> pa.Table:
    """Read a Parquet table with this schema, or its rows of one benchmark."""
    require_file(path)
    try:
        table = pq.ParquetFile(path).read(columns=schema.names)  # `pq.read_table` imports pandas
        # Other writers, such as pandas, use wider integers and strings for the same values.
        table = table.select(schema.names).cast(schema)
    except (pa.ArrowException, KeyError, OSError) as error:
        line = str(error).splitlines()[0]
        raise InputError(f"{path}: damaged, or another table ({line})") from None
    if benchmark is not None:
        table = table.filter(pc.equal(table.column("benchmark"), benchmark))
    if table.num_rows == 0:
        which = "" if benchmark is None else f" of benchmark {benchmark}"
        raise InputError(f"{path}: has no rows{which}")
    return table


def write_csv(path: Path, frame: "pd.DataFrame") -> None:
    """Write a frame as CSV, atomically. Floats keep every digit, so reading restores them."""
    with atomic_write(path) as partial:
        frame.to_csv(partial, index=False, lineterminator="\n")


def read_csv(path: Path) -> "pd.DataFrame":
    """Read a CSV file as a frame of strings, exactly as written."""
    import pandas as pd  # here, because it takes half a second

    return pd.read_csv(path, dtype=str, keep_default_na=False)
