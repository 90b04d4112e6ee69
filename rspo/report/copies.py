"""Copies of tables and pictures in docs/, which are committed."""

import csv
import shutil
from pathlib import Path

from rspo.core.files import atomic_write

# Significant digits of published tables. Different processors round the last two or three digits of
# a float differently, so a table with all of them would change wherever its page is made.
DIGITS = 12


def publish(source: Path, target: Path) -> None:
    """Copy a file into docs/, atomically; a table gets floats with `DIGITS` significant digits."""
    with atomic_write(target) as partial:
        if source.suffix == ".csv":
            _publish_table(source, partial)
        else:
            shutil.copyfile(source, partial)


def _publish_table(source: Path, target: Path) -> None:
    with source.open(newline="") as read, target.open("w", newline="") as written:
        writer = csv.writer(written, lineterminator="\n")
        for row in csv.reader(read):
            writer.writerow([_rounded(field) for field in row])


def _rounded(field: str) -> str:
    """A float with `DIGITS` significant digits; any other text as it is."""
    try:
        number = float(field)
    except ValueError:
        return field
    if repr(number) != field:  # an integer, or a version such as 2.10
        return field
    rounded = float(f"{number:.{DIGITS}g}")
    return repr(rounded)
