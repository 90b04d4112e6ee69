"""python -m benchmarks [name ...]: run all benchmarks, or only those that are named.

A run of all benchmarks replaces `benchmarks/results.md`. A run of some of them only prints their
table. The exit status is 1 if a number is not within its limit.
"""

import argparse
import importlib
import os
import pkgutil
import platform
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import patch

import numpy as np
import torch

import benchmarks
from benchmarks import Row

RESULTS = Path(__file__).with_name("results.md")
NO_BENCHMARKS = {"__main__", "scoreboard", "smollm_mirror"}  # modules without a function `run`


def main(words: Sequence[str]) -> int:
    """Run benchmarks, and print their table.

    Args:
        words: the names of the benchmarks to run, or options.

    Returns: the exit status; 2 for an unknown name.
    """
    modules = {module.name for module in pkgutil.iter_modules(benchmarks.__path__)}
    known = sorted(modules - NO_BENCHMARKS)
    style = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        "python -m benchmarks", description=__doc__, formatter_class=style
    )
    parser.add_argument("name", nargs="*", help=f"default: all of {', '.join(known)}")
    names = parser.parse_args(words).name
    unknown = sorted(set(names) - set(known))
    if unknown:
        print(f"unknown benchmark {', '.join(unknown)}; allowed: {', '.join(known)}")
        return 2
    torch.set_num_threads(1)  # the times are those of one thread
    tables = {}
    for name in names or known:
        print(f"running {name}", file=sys.stderr)
        with patch.dict(os.environ):  # a benchmark may set variables, which must not affect others
            tables[name] = importlib.import_module(f"benchmarks.{name}").run()
    text = page(tables)
    print(text)
    if not names:
        RESULTS.write_text(text, encoding="utf-8")
    holds = all(row.holds for table in tables.values() for row in table)
    return 0 if holds else 1


def page(tables: dict[str, list[Row]]) -> str:
    """The text of `benchmarks/results.md`.

    Args:
        tables: the rows of each benchmark by its name.
    """
    lines = [
        "# Benchmarks",
        "",
        "`python -m benchmarks`; processor time of one thread, unless a row says otherwise. "
        + machine(),
        "",
    ]
    for name, table in tables.items():
        lines += [f"## {name}", ""]
        lines += lines_of(table)
        lines.append("")
    return "\n".join(lines)


def lines_of(table: list[Row]) -> list[str]:
    """A table in Markdown. It has columns for the limits if a row has a limit."""
    if not any(row.bar for row in table):
        lines = ["| what | number |", "|---|---|"]
        lines += [f"| {row.what} | {row.measured} |" for row in table]
        return lines
    lines = ["| what | measured | bar | |", "|---|---|---|---|"]
    for row in table:
        lines.append(f"| {row.what} | {row.measured} | {row.bar} | {verdict(row)} |")
    return lines


def verdict(row: Row) -> str:
    """Whether a number is within its limit, as the table says it."""
    if not row.bar:
        return ""
    return "holds" if row.holds else "**FAILS**"


def machine() -> str:
    """The hardware and versions that the numbers depend on, without the name of the machine."""
    return (
        f"{processor()}, {os.cpu_count()} cores, {platform.system()}; "
        f"Python {platform.python_version()}, numpy {np.__version__}, torch {torch.__version__}."
    )


def processor() -> str:
    """The name of the processor."""
    cpuinfo = Path("/proc/cpuinfo")  # Linux has it
    if cpuinfo.exists():
        name = re.search(r"model name\s*: (.*)", cpuinfo.read_text())
        if name:
            return name[1]
    return platform.processor() or platform.machine()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
