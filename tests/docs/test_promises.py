"""Each command and each bold statement of README.md is marked on a test that fails when it breaks.

The marker quotes it: `@pytest.mark.promise("snakemake all")`. Other sentences may be marked too.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import ROOT

README = (ROOT / "README.md").read_text()
PROGRAMS = "make|pip|rspo|snakemake"
MOST = 40  # with more, nobody reads them
MARKER = "pytest.mark.promise"


def one_line(text: str) -> str:
    return " ".join(text.split())


def commands() -> list[str]:
    """The commands of README's blocks and of its text; without the names of programs alone."""
    blocks = re.findall(rf"^ {{4}}((?:{PROGRAMS}) .*)", README, flags=re.MULTILINE)
    in_text = re.findall(rf"(?<!`)`((?:{PROGRAMS})\s[^`]*)`", README)
    without_comments = [re.sub(r"\s+#.*", "", command) for command in blocks]
    return [one_line(command) for command in without_comments + in_text]


def bold_sentences() -> list[str]:
    """The sentences in bold; not the labels of lists, which end with a colon."""
    bold = map(one_line, re.findall(r"\*\*(.+?)\*\*", README, flags=re.DOTALL))
    statements = [text for text in bold if not text.endswith(":")]
    return [sentence for text in statements for sentence in re.split(r"(?<=\.) (?=[A-Z])", text)]


def markers(file: Path) -> Iterator[tuple[str, str]]:
    """The texts of a file's markers, each with the name of what it marks."""
    for node in ast.walk(ast.parse(file.read_text())):
        for decorator in getattr(node, "decorator_list", []):
            if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == MARKER:
                (argument,) = decorator.args
                yield ast.literal_eval(argument), node.name  # type: ignore[attr-defined]


def promises() -> list[tuple[str, str]]:
    return [pair for file in sorted(ROOT.glob("tests/**/test_*.py")) for pair in markers(file)]


def test_each_promise_is_marked_on_a_test_and_is_in_the_readme() -> None:
    found = promises()
    assert [name for _, name in found if not name.startswith("test_")] == []
    assert [text for text, _ in found if text not in one_line(README)] == []
    assert len(found) <= MOST


def test_no_command_is_without_a_promise() -> None:
    promised = {text for text, _ in promises()}
    assert len(commands()) > 20
    assert [command for command in commands() if command not in promised] == []


def test_no_bold_statement_is_without_a_promise() -> None:
    """A marker may quote only how a long sentence begins."""
    beginnings = tuple(text for text, _ in promises())
    assert len(bold_sentences()) >= 2
    assert [text for text in bold_sentences() if not text.startswith(beginnings)] == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("    make demo     # create .venv\n", ["make demo"]),
        ("Run `snakemake\nall --touch`, or `rspo`.\n", ["snakemake all --touch"]),
        ("    from rspo import x\n`docs/make.md`\n", []),
    ],
)
def test_what_counts_as_a_command(
    text: str, found: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(globals(), "README", text)
    assert commands() == found


def test_what_counts_as_a_bold_statement(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "**It is 3.6 ±\n0.9. At k = 2 it is not.** *no* **Use it:** more"
    monkeypatch.setitem(globals(), "README", text)
    assert bold_sentences() == ["It is 3.6 ± 0.9.", "At k = 2 it is not."]
