"""No code of the package stands twice: a change of one copy would leave the other behind."""

import ast
from collections import defaultdict

from tests.support import ROOT


def statements_of(function: ast.FunctionDef) -> list[ast.stmt]:
    """The statements of a function without its docstring."""
    return function.body[1:] if ast.get_docstring(function) is not None else function.body


def test_no_two_functions_have_the_same_statements() -> None:
    """A function of one statement may be equal to another by chance."""
    places: defaultdict[tuple[str, ...], list[str]] = defaultdict(list)
    for file in sorted((ROOT / "rspo").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.FunctionDef) and len(statements_of(node)) > 1:
                code = tuple(ast.dump(statement) for statement in statements_of(node))
                places[code].append(f"{file.relative_to(ROOT)}: {node.name}")
    copies = [functions for functions in places.values() if len(functions) > 1]
    assert len(places) > 500  # the package was found
    assert copies == []
