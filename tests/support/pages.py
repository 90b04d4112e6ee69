"""Follow a page of the documentation as a reader would: write its files, run its commands.

A fenced block belongs to the last file that the paragraph before it names in backticks:

- `yaml`: keys to add to a file in config/.
- `python`, `json`, `jinja`, with a file: its content. Python without a file is a program to run.
- `text`: what the program before it prints.
- `toml`: part of a file of another project, which only has to be valid here.
- `console`: commands after `$ `, each followed by what it prints. `...` stands for any text; if
  nothing follows, the output is not compared. A command must succeed.
"""

import os
import re
import shlex
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

import yaml

from rspo.config.merge import merge
from tests.support import ROOT
from tests.support.snakemake_project import PROGRAMS, snakemake

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"`([\w./-]+\.(?:py|smk|yaml|jsonl|csv|md\.jinja))`")


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its text, and the file that the text before it names."""

    language: str
    text: str
    file: str | None


def blocks(page: Path) -> list[Block]:
    text, found, end = page.read_text(), [], 0
    for match in _BLOCK.finditer(text):
        paragraph = text[end : match.start()].strip().split("\n\n")[-1]
        files = _FILE.findall(paragraph)
        found.append(Block(match[1], match[2], files[-1] if files else None))
        end = match.end()
    return found


def code_of(page: Path, section: str, language: str = "python") -> str:
    """The first fenced block of a section of a page."""
    text = page.read_text().partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    return next(match[2] for match in _BLOCK.finditer(text) if match[1] == language)


def follow(page: Path, project: Path) -> None:
    """Do what a page says in a project. Raises: AssertionError for what differs from the page."""
    printed = ""
    for block in blocks(page):
        if block.language == "yaml":
            assert block.file is not None
            _add_keys(project / block.file, block.text)
        elif block.language == "console":
            _run_commands(project, block.text)
        elif block.language == "toml":
            tomllib.loads(block.text)
        elif block.language == "text":
            assert printed == block.text
        elif block.file is not None:
            assert not (project / block.file).exists()
            (project / block.file).write_text(block.text)
        else:
            assert block.language == "python"
            printed = _output(project, [sys.executable, "-c", block.text])


def _add_keys(file: Path, text: str) -> None:
    values = merge(yaml.safe_load(file.read_text()), yaml.safe_load(text))
    file.write_text(yaml.safe_dump(values, sort_keys=False))


def _run_commands(project: Path, text: str) -> None:
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, expected = part.partition("\n")
        words = shlex.split(command)
        output = _output(project, words if "=" not in words[0] else ["env", *words])
        pattern = ".*".join(re.escape(text) for text in expected.split("..."))
        assert not expected or re.fullmatch(pattern, output, re.DOTALL), (
            f"{command} printed\n{output}\nThe page says\n{expected}"
        )


def _output(project: Path, words: list[str]) -> str:
    """Standard output of a command that succeeds."""
    if words[0] == "snakemake":
        done = snakemake(project, *words[1:])
    else:
        paths = {"PATH": f"{PROGRAMS}:{os.environ['PATH']}", "PYTHONPATH": f"{project}:{ROOT}"}
        environment = os.environ | paths | {"COLUMNS": "200"}
        done = subprocess.run(words, cwd=project, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{shlex.join(words)}:\n{done.stdout}{done.stderr}"
    return done.stdout
