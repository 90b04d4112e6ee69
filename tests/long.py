"""Tests that take too long for CI: stages, and their last results in tests/long_results.md.

    make test-long                                 # all stages
    make test-long ARGS="soak mutants-statistics"  # some of them

A stage runs on a clean commit and writes its row. If the code that a stage covers has changed
since, other than in comments, docstrings and imports, tests/test_long_results.py warns, and fails
in CI.
"""

import ast
import hashlib
import os
import subprocess
import sys
from datetime import date
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from tests.mutants import GROUPS
from tests.support import ROOT

RESULTS = ROOT / "tests" / "long_results.md"
IMPORTS = (ast.Import, ast.ImportFrom)
HEAD = """# Last results of the long tests

Written by `make test-long` (tests/long.py).

| stage | result | date | commit | code |
|---|---|---|---|---|
"""


class Stage(NamedTuple):
    """covers: patterns of files. Other changes leave the result valid, so name few."""

    command: str
    covers: list[str]


# The fast tests cover rspo/rewards/xverify/download.py.
VERL = [
    "rspo/training/verl/*.py",
    "rspo/rewards/xverify/judge.py",
    "rspo/rewards/xverify/server.py",
    "rspo/policies/vllm_sampler.py",
]
LONG = "pytest -q -n 0 -m 'long and not slurm'"
STAGES = {
    f"mutants-{name}": Stage(f"python -m tests.mutants {name}", group.modules)
    for name, group in GROUPS.items()
} | {
    "verl-trainer": Stage(f"{LONG} tests/training", VERL),
    "verl-workflow": Stage(f"{LONG} tests/workflow tests/slurm", VERL),
    "verl-others": Stage(
        f"{LONG} --ignore=tests/training --ignore=tests/workflow --ignore=tests/slurm "
        "--ignore=tests/snakemake",
        VERL,
    ),
    "kills": Stage(
        f"{LONG} tests/snakemake",
        [
            "rspo/pipeline/run.py",
            "rspo/pipeline/state.py",
            "rspo/snakemake/*.py",
            "rspo/training/train.py",
            "workflow/rules/*.smk",
        ],
    ),
    "soak": Stage(
        "SOAK_SEEDS=10 pytest -q -n 3 --dist worksteal -m 'slurm and release'",
        ["snakemake_executor_plugin_slurm_patient/*.py", "rspo/slurm/*.py", "workflow/rules/*.smk"],
    ),
}


def main() -> None:
    passed = [run(name) for name in sys.argv[1:] or STAGES]
    sys.exit(0 if all(passed) else 1)


def run(name: str) -> bool:
    """Run a stage and write its row; whether it passed."""
    stage, commit, summary = STAGES[name], clean_commit(), ""
    print(f"{name}: {stage.command}", flush=True)
    environment = os.environ | {"CI": "true"}  # a test that cannot run fails
    with subprocess.Popen(
        stage.command, shell=True, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        for line in process.stdout or ():
            print(line, end="", flush=True)
            summary = line.strip() or summary
    if clean_commit() != commit:
        sys.exit(f"{name}: the commit has changed meanwhile, so this result is not kept")
    result = "failed" if process.returncode else "passed"
    row = [name, f"{result}: {summary}", str(date.today()), commit, digest(stage.covers)]
    table = [f"| {' | '.join(cells)} |\n" for cells in (rows() | {name: row}).values()]
    RESULTS.write_text(HEAD + "".join(table))
    return not process.returncode


def clean_commit() -> str:
    """The commit of the checkout. Exits if a file other than the results differs from it."""
    changed = git("status", "--porcelain", "--", ".", f":!{RESULTS.relative_to(ROOT)}")
    if changed:
        sys.exit(f"commit these files first, or remove them:\n{changed}")
    return git("rev-parse", "--short", "HEAD")


def git(*arguments: str) -> str:
    return subprocess.check_output(["git", *arguments], cwd=ROOT, text=True).strip()


def rows() -> dict[str, list[str]]:
    """The cells of each stage's row."""
    lines = RESULTS.read_text().splitlines() if RESULTS.exists() else []
    cells = [line.strip("| ").split(" | ") for line in lines if line.startswith("| ")]
    return {row[0]: row for row in cells if row[0] in STAGES}


def outdated() -> dict[str, str]:
    """The stages whose last result does not hold for this code, with the reason."""
    reasons = {}
    for name, (_, result, _, commit, code) in rows().items():
        if not result.startswith("passed"):
            reasons[name] = f"failed at {commit}"
        elif code != digest(STAGES[name].covers):
            reasons[name] = "its code has changed"
    return reasons


def digest(patterns: list[str], root: Path = ROOT) -> str:
    """A hash of the code in some files."""
    files = sorted(file for pattern in patterns for file in root.glob(pattern))
    codes = [(str(file.relative_to(root)), code_of(file)) for file in files]
    return hashlib.sha256(repr(codes).encode()).hexdigest()[:12]


def code_of(file: Path) -> Any:
    """The lines of a file without comments, or the syntax tree of a Python file.

    The tree has no docstrings and no imports: the fast tests import every module, so they notice
    one that was moved.
    """
    if file.suffix == ".py":
        return plain(ast.parse(file.read_text()))
    lines = file.read_text().splitlines()
    return [line for line in lines if line.strip() and not line.lstrip().startswith("#")]


def plain(node: Any) -> Any:
    """A syntax tree as tuples, the same in every version of Python: `ast.dump` is not."""
    if isinstance(node, list):
        return [plain(one) for one in node if not isinstance(one, IMPORTS)]
    if isinstance(node, ast.JoinedStr):  # some versions split its texts, or add empty ones
        groups = groupby(node.values, lambda one: isinstance(one, ast.Constant))
        parts = ["".join(x.value for x in xs) if text else plain([*xs]) for text, xs in groups]
        return [part for part in parts if part]
    if not isinstance(node, ast.AST):
        return node
    fields = {name: value for name, value in ast.iter_fields(node) if value not in (None, [])}
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    if isinstance(node, documented) and ast.get_docstring(node, clean=False) is not None:
        fields["body"] = node.body[1:]
    return type(node).__name__, {name: plain(value) for name, value in fields.items()}


if __name__ == "__main__":
    main()
