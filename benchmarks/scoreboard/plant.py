"""A fault in a copy of a source: one operator or number is another one, such as `*` for `-`."""

import ast
import shutil
from pathlib import Path
from typing import Any

# Operators by their text.
OPERATORS: dict[str, type[ast.operator]] = {
    "+": ast.Add,
    "-": ast.Sub,
    "*": ast.Mult,
    "/": ast.Div,
    "**": ast.Pow,
}
Fault = dict[str, Any]


class NotPlanted(Exception):
    """A source that has no such function, or not this operator or number in it."""


def plant(source: Path, copy: Path, fault: Fault) -> str:
    """Copy a source with a fault, and return the fault in words.

    Args:
        source: the folder from which Python imports the source.
        copy: the folder of the copy, which must not exist.
        fault: `module`; `function` (`Class.method` for a method); `text`, an operator or a number,
            and what it `becomes`; and `number`: which one of these texts in the function, from 1.
            With `assigned`, only those in the statements that assign to this name are counted.

    Raises: NotPlanted if the source has no such place.
    """
    shutil.copytree(source, copy, ignore=shutil.ignore_patterns(".git"))
    file = copy / (fault["module"].replace(".", "/") + ".py")
    if not file.is_file():
        raise NotPlanted(f"no module {fault['module']}")
    file.write_text(with_fault(file.read_text(encoding="utf-8"), fault), encoding="utf-8")
    function = fault["function"].rpartition(".")[2]
    return f"`{fault['becomes']}` for `{fault['text']}` in `{function}`"


def with_fault(code: str, fault: Fault) -> str:
    """The code of a module with the fault; see `plant`."""
    text = fault["text"]
    function = function_of(ast.parse(code), fault["function"])
    places = places_of(code, function, text, fault.get("assigned"))
    if len(places) < fault["number"]:
        raise NotPlanted(f"{fault['function']} has {text} {len(places)} times")
    begin = places[fault["number"] - 1]
    end = begin + len(text)
    assert code[begin:end] == text
    return code[:begin] + fault["becomes"] + code[end:]


def function_of(module: ast.Module, name: str) -> ast.AST:
    """A function or method of a module, by its name, such as `Class.method`.

    Raises: NotPlanted if the module does not have it.
    """
    found: Any = module
    for part in name.split("."):
        names = {getattr(node, "name", None): node for node in found.body}
        if part not in names:
            raise NotPlanted(f"no {name}")
        found = names[part]
    node: ast.AST = found
    return node


def places_of(code: str, function: ast.AST, text: str, assigned: str | None) -> list[int]:
    """Positions in the code of an operator or a number in a function, from first to last."""
    statements = [function]
    if assigned is not None:
        statements = [node for node in ast.walk(function) if assigns(node, assigned)]
    places = []
    for statement in statements:
        for node in ast.walk(statement):
            if isinstance(node, ast.BinOp) and isinstance(node.op, OPERATORS.get(text, ())):
                places.append(code.index(text, end_of(code, node.left)))
            elif isinstance(node, ast.Constant) and ast.get_source_segment(code, node) == text:
                places.append(end_of(code, node) - len(text))
    return sorted(places)


def end_of(code: str, node: ast.expr) -> int:
    """The position in the code after an expression."""
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    lines = code.split("\n")
    before = lines[: node.end_lineno - 1]
    last = lines[node.end_lineno - 1].encode()[: node.end_col_offset]  # `ast` counts bytes
    return sum(len(line) + 1 for line in before) + len(last.decode())


def assigns(node: ast.AST, name: str) -> bool:
    """Whether a statement assigns to a variable of this name, and to no other."""
    if not isinstance(node, ast.Assign):
        return False
    return [getattr(target, "id", None) for target in node.targets] == [name]
