"""Copies of tables and pictures in docs/, which are committed."""

import shutil
from pathlib import Path

from rspo.core.files import atomic_write
from rspo.core.tables import read_csv

# Significant digits of published tables. Different processors round the last two or three digits of
# a float differently, so a table with all of them would change wherever its page is made.
DIGITS = 12


def publish(source: Path, target: Path) -> None:
    """Copy a file into docs/, atomically; a table gets floats with `DIGITS` significant digits."""
    with atomic_write(target) as partial:
        if source.suffix == ".csv":
            table = read_csv(source).map(_rounded)
            table.to_csv(partial, index=False, lineterminator="\n")
        else:
            shutil.copyfile(source, partial)


def _rounded(field: str) -> str:
    """A float with `DIGITS` significant digits; any other text as it is."""
    try:
        number = float(field)
    except ValueError:
        return field
    if repr(number) != field:  # an integer, or a version such as 2.10
        return field
    return repr(float(f"{number:.{DIGITS}g}"))
