"""Tables as rows and as pandas frames: the same bytes, and no pandas for the short commands."""

from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rspo.core import tables
from rspo.core.errors import InputError
from rspo.core.tables import (
    CURVES,
    PROBLEMS,
    read_csv,
    read_frame,
    read_table,
    write_csv,
    write_frame,
    write_table,
)

POINT = {"cell": "a", "benchmark": 'b,"c"', "metric": "pass_at_k", "k": 2, "estimate": 1 / 3}
POINT |= {"error_within": float("nan"), "error_total": 1e-17, "low": -0.0, "high": float("inf")}
POINT |= {"problems": 3, "samples": 2**31 - 1}


def test_rows_and_frames_give_the_file_that_pyarrow_gives(tmp_path: Path) -> None:
    """Compared with `pa.table`, which imports pandas: NaN stays NaN, and is not null."""
    rows, direct = tmp_path / "rows.parquet", tmp_path / "direct.parquet"
    write_table(rows, CURVES, [POINT | {"more": 1}, POINT])
    columns = {name: [POINT[name]] * 2 for name in CURVES.names}
    pq.write_table(pa.table(columns, schema=CURVES), direct)
    assert rows.read_bytes() == direct.read_bytes()
    write_frame(tmp_path / "frame.parquet", CURVES, read_frame(rows, CURVES))
    assert (tmp_path / "frame.parquet").read_bytes() == direct.read_bytes()


def test_texts_and_lists_of_any_size_come_back(tmp_path: Path) -> None:
    """Two megabytes: more than one block of pyarrow's JSON reader by default."""
    texts = ["\u2028 \x00 \\boxed{5}\r\n", "", "x" * 2**20, "\U0001f600" * 2**18]
    row = {"id": "a", "benchmark": "b", "answers": texts, "source": "s", "revision": "1", "row": 0}
    rows = [row | {"prompt": [{"role": "user", "content": text}]} for text in texts]
    write_table(tmp_path / "a.parquet", PROBLEMS, rows)
    assert read_table(tmp_path / "a.parquet", PROBLEMS) == [
        {name: row[name] for name in PROBLEMS.names} for row in rows
    ]
    assert pq.ParquetFile(tmp_path / "a.parquet").num_row_groups == 1


def test_the_rows_of_one_benchmark_are_read_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    write_table(path, CURVES, [POINT | {"benchmark": name} for name in ("a", "b", "a")])
    assert list(read_frame(path, CURVES, "a")["benchmark"]) == ["a", "a"]
    assert len(read_frame(path, CURVES)) == 3
    with pytest.raises(InputError, match=f"^{path}: has no rows of benchmark c$"):
        read_frame(path, CURVES, "c")


def test_a_table_of_many_parts_is_one_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "ROWS_OF_A_PART", 2)
    path = tmp_path / "a.parquet"
    write_table(path, CURVES, [POINT | {"k": k} for k in range(5)])
    assert [row["k"] for row in read_table(path, CURVES)] == [0, 1, 2, 3, 4]
    write_table(path, CURVES, [])
    with pytest.raises(InputError, match=f"^{path}: has no rows$"):
        read_table(path, CURVES)


def test_what_does_not_fit_the_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not a row of this table"):
        write_table(tmp_path / "a.parquet", CURVES, [POINT | {"k": "two"}])
    assert not list(tmp_path.iterdir())


def test_csv_has_every_digit_and_reads_as_written(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    write_csv(path, pd.DataFrame([POINT | {"note": ""}]))
    assert path.read_text() == (
        "cell,benchmark,metric,k,estimate,error_within,error_total,low,high,problems,samples,note\n"
        'a,"b,""c""",pass_at_k,2,0.3333333333333333,,1e-17,-0.0,inf,3,2147483647,\n'
    )
    (row,) = read_csv(path).to_dict("records")
    assert (row["benchmark"], row["error_within"], row["note"]) == ('b,"c"', "", "")
