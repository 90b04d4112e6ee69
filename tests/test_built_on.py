"""The packages that this project is built on: its code calls each of them.

What they compute is tested where it is used; here a package that no code calls any more is found.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import ROOT

# Where the real work of each is called.
USED_IN = {
    "snakemake": "slurm",
    "torch": "training",
    "vllm": "policies",
    "transformers": "policies",
    "verl": "training/verl",
    "pandas": "analysis",
    "seaborn": "figures",
    "rspo.rewards.xverify": "rewards",  # the judge model; no package of PyPI has it
}


def at_run_time(tree: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a module without those below `if TYPE_CHECKING`."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        yield node
        yield from at_run_time(node)


def imported_names(tree: ast.AST, package: str) -> set[str]:
    """The names that a module gives to a package and to what it imports from it."""
    names: set[str] = set()
    for node in at_run_time(tree):
        if isinstance(node, ast.Import):
            of_package = [one for one in node.names if within(one.name, package)]
            names |= {one.asname or one.name.partition(".")[0] for one in of_package}
        if isinstance(node, ast.ImportFrom) and within(node.module or "", package):
            names |= {one.asname or one.name for one in node.names}
    return names


def within(module: str, package: str) -> bool:
    return f"{module}.".startswith(f"{package}.")


def calls(file: Path, package: str) -> list[str]:
    """The calls in a file of a package's functions and classes, and the classes it derives from."""
    tree = ast.parse(file.read_text())
    names = imported_names(tree, package)
    used = [node.func for node in at_run_time(tree) if isinstance(node, ast.Call)]
    used += [
        base for node in at_run_time(tree) if isinstance(node, ast.ClassDef) for base in node.bases
    ]
    texts = [ast.unparse(one) for one in used]
    return [text for text in texts if text.partition(".")[0] in names]


@pytest.mark.parametrize(("package", "folder"), USED_IN.items())
def test_the_code_calls_each_package(package: str, folder: str) -> None:
    files = sorted((ROOT / "rspo" / folder).rglob("*.py"))
    assert [call for file in files for call in calls(file, package)], package


def test_a_package_that_is_only_imported_is_not_called(tmp_path: Path) -> None:
    file = tmp_path / "one.py"
    lines = "import seaborn as sns", "if TYPE_CHECKING:\n    import pandas", "print(sns)"
    file.write_text("\n".join(lines))
    assert calls(file, "seaborn") == []
    file.write_text("\n".join([*lines, "sns.heatmap(values)", "pandas.concat(frames)"]))
    assert calls(file, "seaborn") == ["sns.heatmap"]
    assert calls(file, "pandas") == []
