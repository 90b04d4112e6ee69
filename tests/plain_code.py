"""Finds packed statements: `python -m tests.plain_code [FILE ...]`, part of `make check`.

Ruff has no rules for these. Each is shorter than the plain statements, and slower to read.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.support import ROOT

FOLDERS = ("rspo", "snakemake_executor_plugin_slurm_patient", "snakemake_logger_plugin_rspo")
DISPLAYS = (ast.List, ast.Tuple, ast.Set)
LOAD = ast.Load()  # a set is never assigned to
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def faults(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The line of each packed statement, and what to write instead."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Tuple):
            names = {name.id for name in ast.walk(node.value) if isinstance(name, ast.Name)}
            targets = {name.id for name in ast.walk(node.targets[0]) if isinstance(name, ast.Name)}
            if isinstance(node.targets[0], ast.Tuple) and not names & targets:  # no exchange
                yield node.lineno, "assigns several values: write a statement for each"
        is_display = isinstance(node, DISPLAYS) and isinstance(getattr(node, "ctx", LOAD), ast.Load)
        if is_display and any(isinstance(item, ast.Starred) for item in node.elts):
            yield node.lineno, "has a star in a display: name the parts and add them"
        inner = list(ast.iter_child_nodes(node))
        if isinstance(node, ast.IfExp) and any(isinstance(part, ast.IfExp) for part in inner):
            yield node.lineno, "has a conditional expression in another: write `if` statements"
        if isinstance(node, COMPREHENSIONS):
            parts = [part for loop in node.generators for part in loop.ifs]
            if any(isinstance(one, ast.NamedExpr) for part in parts for one in ast.walk(part)):
                yield node.lineno, "names a value in a comprehension's condition: write a loop"


def files_of_package() -> Iterator[Path]:
    for folder in FOLDERS:
        yield from sorted((ROOT / folder).rglob("*.py"))


def main() -> None:
    files = [Path(name) for name in sys.argv[1:]]
    if not files:
        files = list(files_of_package())
    count = 0
    for file in files:
        for line, text in faults(ast.parse(file.read_text())):
            print(f"{file}:{line}: {text}")
            count += 1
    sys.exit(f"{count} packed statements" if count else 0)


if __name__ == "__main__":
    main()
