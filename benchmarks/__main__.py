"""python -m benchmarks [name ...]: run all benchmarks, or those named.

Running all of them replaces `benchmarks/results.md`; naming some only prints their table. Exits
with 1 if a number is not what its bar asks for.
"""

import importlib
import os
import pkgutil
import platform
import sys
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import patch

import numpy as np
import torch

import benchmarks
from benchmarks import Row

RESULTS = Path(__file__).with_name("results.md")


def main(names: Sequence[str]) -> int:
    known = [m.name for m in pkgutil.iter_modules(benchmarks.__path__) if m.name != "__main__"]
    if unknown := sorted(set(names) - set(known)):
        print(f"unknown benchmark {', '.join(unknown)}; allowed: {', '.join(known)}")
        return 2
    torch.set_num_threads(1)
    rows = {}
    for name in names or known:
        print(f"running {name}", file=sys.stderr)
        with patch.dict(os.environ):  # what one sets is not there for the next
            rows[name] = importlib.import_module(f"benchmarks.{name}").run()
    text = page(rows)
    print(text)
    if not names:
        RESULTS.write_text(text, encoding="utf-8")
    return 0 if all(row.holds for of_one in rows.values() for row in of_one) else 1


def page(rows: dict[str, list[Row]]) -> str:
    lines = [
        "# Benchmarks",
        "",
        "`python -m benchmarks`; processor time of one thread, unless a row says otherwise. "
        + machine(),
        "",
    ]
    for name, of_one in rows.items():
        lines += [f"## {name}", "", "| what | measured | bar | |", "|---|---|---|---|"]
        for row in of_one:
            verdict = "" if not row.bar else "holds" if row.holds else "**FAILS**"
            lines.append(f"| {row.what} | {row.measured} | {row.bar} | {verdict} |")
        lines.append("")
    return "\n".join(lines)


def machine() -> str:
    """The hardware and the versions that numbers depend on, and no name of the machine."""
    return (
        f"{processor()}, {os.cpu_count()} cores, {platform.system()}; "
        f"Python {platform.python_version()}, numpy {np.__version__}, torch {torch.__version__}."
    )


def processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
