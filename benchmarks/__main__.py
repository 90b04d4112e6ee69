"""python -m benchmarks [name ...]: run all benchmarks, or those named.

A run of all benchmarks replaces `benchmarks/results.md`. A run of some only prints their table. The
exit status is 1 if a number is not within its limit.
"""

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
NO_BENCHMARKS = {"__main__", "smollm_mirror"}


def main(names: Sequence[str]) -> int:
    modules = {module.name for module in pkgutil.iter_modules(benchmarks.__path__)}
    known = sorted(modules - NO_BENCHMARKS)
    unknown = sorted(set(names) - set(known))
    if unknown:
        print(f"unknown benchmark {', '.join(unknown)}; allowed: {', '.join(known)}")
        return 2
    torch.set_num_threads(1)
    rows = {}
    for name in names or known:
        print(f"running {name}", file=sys.stderr)
        with patch.dict(os.environ):  # a benchmark may set variables, which must not affect others
            rows[name] = importlib.import_module(f"benchmarks.{name}").run()
    text = page(rows)
    print(text)
    if not names:
        RESULTS.write_text(text, encoding="utf-8")
    return 0 if all(row.holds for table in rows.values() for row in table) else 1


def page(rows: dict[str, list[Row]]) -> str:
    lines = [
        "# Benchmarks",
        "",
        "`python -m benchmarks`; processor time of one thread, unless a row says otherwise. "
        + machine(),
        "",
    ]
    for name, table in rows.items():
        lines += [f"## {name}", "", "| what | measured | bar | |", "|---|---|---|---|"]
        for row in table:
            verdict = "" if not row.bar else "holds" if row.holds else "**FAILS**"
            lines.append(f"| {row.what} | {row.measured} | {row.bar} | {verdict} |")
        lines.append("")
    return "\n".join(lines)


def machine() -> str:
    """The hardware and versions that the numbers depend on, without the name of the machine."""
    return (
        f"{processor()}, {os.cpu_count()} cores, {platform.system()}; "
        f"Python {platform.python_version()}, numpy {np.__version__}, torch {torch.__version__}."
    )


def processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists() and (name := re.search(r"model name\s*: (.*)", cpuinfo.read_text())):
        return name[1]
    return platform.processor() or platform.machine()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
