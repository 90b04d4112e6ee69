"""Runs the cells of a notebook in this process, without Jupyter."""

import io
import json
from collections.abc import Mapping
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any


def run(file: Path, settings: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Run the cells from top to bottom.

    Args:
        settings: variables that replace those of the first cell of code.

    Returns: the variables at the end; and what each cell of code printed.
    """
    namespace: dict[str, Any] = {"__name__": "__main__"}
    printed = []
    for cell in cells_of(file):
        output = io.StringIO()
        with redirect_stdout(output):
            exec(compile(cell, str(file), "exec"), namespace)
        if not printed:
            namespace.update(settings)
        printed.append(output.getvalue())
    return namespace, printed


def cells_of(file: Path) -> list[str]:
    """The text of each cell of code."""
    cells = json.loads(file.read_text())["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
