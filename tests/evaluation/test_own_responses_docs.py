"""The commands for own responses in README.md and docs/verification.md, run as they are written."""

import gzip
import re
import shlex
from pathlib import Path

import pytest

from rspo.cli import main
from tests.support import ROOT


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def section(file: str, heading: str) -> str:
    text = (ROOT / file).read_text()
    assert f"\n## {heading}\n" in text
    return text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def blocks(text: str) -> list[list[str]]:
    """The indented blocks of a Markdown text, as lines without the indent and spaces at the end."""
    found = re.findall(r"(?:^ {4}.*\n|^\n(?= {4}))+", text, flags=re.MULTILINE)
    return [[line[4:].rstrip() for line in block.strip("\n").splitlines()] for block in found]


EXAMPLE = section("docs/verification.md", "Your own responses")


def test_the_example_prints_what_the_page_says(capsys: pytest.CaptureFixture[str]) -> None:
    lines, *sessions = blocks(EXAMPLE)
    Path("responses.jsonl").write_text("".join(f"{line}\n" for line in lines))
    assert len(sessions) == 2
    for shown in sessions:
        printed = []
        for line in shown:
            if not line.startswith("$ "):
                continue
            words, target, _ = line[2:].partition(" > ")
            program, *arguments = shlex.split(words)
            assert program == "rspo"
            assert main(arguments) == 0
            output = capsys.readouterr().out
            printed += [line] if target else [line, *map(str.rstrip, output.splitlines())]
        assert printed == shown


@pytest.mark.promise("rspo verify responses.jsonl")
@pytest.mark.promise(
    "rspo verify others.jsonl.gz --problem-column question --answer-column gold "
    "--response-column output"
)
@pytest.mark.promise("rspo compare responses.verdicts.jsonl others.verdicts.jsonl")
def test_the_commands_of_the_readme_and_of_the_page_run(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """With a second file that has other keys."""
    (block,) = blocks(section("README.md", "Verify your own responses"))
    inline = re.findall(r"`(rspo [\w-]+\s[^`]*)`", EXAMPLE)
    texts = [*block, *(text for text in inline if "--k 4" not in text and " A B" not in text)]
    commands = [shlex.split(text, comments=True) for text in texts]
    assert [words[:2] for words in commands] == [
        ["rspo", name] for name in ("verify", "verify", "compare")
    ]
    text = "".join(f"{line}\n" for line in blocks(EXAMPLE)[0])
    Path("responses.jsonl").write_text(text)
    for ours, theirs in (("problem", "question"), ("answer", "gold"), ("response", "output")):
        text = text.replace(f'"{ours}":', f'"{theirs}":')
    Path("others.jsonl.gz").write_bytes(gzip.compress(text.encode()))
    for words in commands:
        assert main(words[1:]) == 0
    assert "A - B" in capsys.readouterr().out
    for line in EXAMPLE.splitlines():
        if key := re.match(r"\| `(\w+)` ", line):
            assert f'"{key[1]}": ' in Path("responses.verdicts.jsonl").read_text()
