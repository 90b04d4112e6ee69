"""Copies of tables and pictures in docs/."""

from pathlib import Path

import pandas as pd
import pytest

from rspo.report.copies import publish

TABLE = """\
id,k,seeds,estimate,low,high,note
a,4,,14.919226996645488,-inf,1e-17,
None,,5,1.0,nan,0.30000000000000004,2.10
"""
PUBLISHED = """\
id,k,seeds,estimate,low,high,note
a,4,,14.9192269966,-inf,1e-17,
None,,5,1.0,nan,0.3,2.10
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    file = tmp_path / "table.csv"
    file.write_text(TABLE)
    return file


def test_a_table_is_copied_with_twelve_significant_digits_and_all_else_as_it_was(
    source: Path, tmp_path: Path
) -> None:
    publish(source, tmp_path / "copy.csv")
    assert (tmp_path / "copy.csv").read_text() == PUBLISHED


def test_numbers_that_processors_round_differently_are_published_equally(tmp_path: Path) -> None:
    for name, number in (("one", "14.919226996645488"), ("other", "14.919226996645483")):
        source = tmp_path / f"{name}.csv"
        source.write_text(f"estimate\n{number}\n")
        publish(source, tmp_path / f"{name}_copy.csv")
    one, other = (tmp_path / f"{name}_copy.csv" for name in ("one", "other"))
    assert one.read_bytes() == other.read_bytes()


def test_a_table_without_rows_keeps_its_columns(tmp_path: Path) -> None:
    source = tmp_path / "table.csv"
    pd.DataFrame(columns=["id", "estimate"]).to_csv(source, index=False)
    publish(source, tmp_path / "copy.csv")
    assert (tmp_path / "copy.csv").read_text() == "id,estimate\n"


def test_a_picture_is_copied_byte_by_byte(tmp_path: Path) -> None:
    source = tmp_path / "picture.png"
    source.write_bytes(b"\x89PNG\r\n1.00000000000000001")
    publish(source, tmp_path / "copy.png")
    assert (tmp_path / "copy.png").read_bytes() == source.read_bytes()
