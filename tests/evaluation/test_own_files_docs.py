"""docs/own_files.md: its table of layouts, its commands and its scorer, as they are written."""

import asyncio
import json
import re
import shlex
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from rspo.cli import main
from rspo.formats.layouts import LAYOUTS, PLAIN
from rspo.formats.source import Reading, open_source
from tests.support import ROOT, response_files
from tests.support.response_files import CORRECT, PROBLEMS, WITH_ANSWERS, WITH_VERDICTS, write_lines

PAGE = (ROOT / "docs/own_files.md").read_text()


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return Path()


CODE = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)


def rows_of(name: str) -> list[list[str]]:
    """The cells of a table between two comments, without its head."""
    table = PAGE.partition(f"<!-- {name} -->\n")[2].partition("<!-- end -->")[0]
    _, _, *lines = table.strip().splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_the_table_has_every_layout_with_its_columns(folder: Path) -> None:
    rows = rows_of("layouts")
    names = [row[0].strip("`") for row in rows]
    assert names == [name for name, layout in LAYOUTS.items() if layout is not PLAIN]
    writers = {name: write for write, name in WITH_VERDICTS + WITH_ANSWERS}
    for row in rows:
        name, title, *columns = row
        layout = LAYOUTS[name.strip("`")]
        assert title == layout.title
        source = open_source(writers[layout.name](folder)[0], Reading())
        read = []
        for column in ("response", "answer", "correct"):
            path = source.columns.get(column)
            read.append(f"`{path}`" if path else "")
        if layout.name == "evalplus":  # its older files have no programs
            read[0] = f"`{layout.response[0]}`"
        assert columns == read, layout.name


def write_other_files() -> None:
    """The files that the table of commands names."""
    batch = []
    answers = []
    messages = []
    for place, (problem, answer, texts) in enumerate(PROBLEMS):
        choices = [{"message": {"role": "assistant", "content": text}} for text in texts]
        batch.append({"custom_id": f"q{place}", "response": {"body": {"choices": choices}}})
        answers.append({"id": f"q{place}", "answer": answer})
        chats = [[*response_files.chat(problem), choice["message"]] for choice in choices]
        messages.append({"problem": problem, "gold_answer": answer, "messages": chats})
    write_lines(Path("batch.jsonl"), batch)
    write_lines(Path("gold.jsonl"), answers)
    Path("matharena.json").write_text(json.dumps(messages))
    results = []
    predictions = {}
    for row in response_files.plain_rows():
        completion = [{"role": "assistant", "content": row["response"]}]
        prompt = response_files.chat(row["problem"])
        results.append({"prompt": prompt, "completion": completion, "answer": row["answer"]})
        origin = [{"role": "HUMAN", "prompt": row["problem"]}]
        prediction = {"origin_prompt": origin, "prediction": row["response"], "gold": row["answer"]}
        predictions[str(len(predictions))] = prediction
    write_lines(Path("results.jsonl"), results)
    Path("opencompass.json").write_text(json.dumps(predictions))
    lines = [f"{place},{ok}" for place, verdicts in enumerate(CORRECT) for ok in verdicts]
    Path("mine.csv").write_text("\n".join(["task,ok", *lines]))


def test_the_commands_for_other_tools_find_every_response(
    capsys: pytest.CaptureFixture[str],
) -> None:
    write_other_files()
    commands = [row[1].strip("`") for row in rows_of("columns")]
    assert len(commands) == 5
    for command in commands:
        program, *words = shlex.split(command)
        assert program == "rspo"
        assert main(words) == 0, command
        output = capsys.readouterr().out
        assert "6 responses to 2 problems, 3 each\n" in output
        assert "accuracy: 50.0% of the responses are correct" in output


def test_the_lines_of_python_print_pass_at_2(capsys: pytest.CaptureFixture[str]) -> None:
    write_other_files()
    exec(CODE[0], {})
    # One of three responses is right to the first problem, two of three to the second.
    assert float(capsys.readouterr().out) == pytest.approx((2 / 3 + 1) / 2)


def test_two_runs_are_compared_as_the_page_says(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("base", "trained"):
        Path(name).mkdir()
        (path,) = response_files.lm_eval(Path(name))
        path.rename(Path(name, "samples_minerva_math.jsonl"))
    section = PAGE.partition("\n## Two runs compared")[2].partition("\n## ")[0]
    commands = re.findall(r"^ {4}(rspo .*)", section, flags=re.MULTILINE)
    assert len(commands) == 3
    for command in commands:
        assert main(shlex.split(command)[1:]) == 0
    output = capsys.readouterr().out
    assert Path("curves.png").is_file()
    for line in re.findall(r"^\| `(\w+)", section, flags=re.MULTILINE):
        assert f"\n{line}" in output


def test_the_commands_for_policies_have_options_that_exist() -> None:
    section = PAGE.partition("\n## Policies of this project")[2].partition("\n## ")[0]
    commands = re.findall(r"^ {4}rspo (.*)", section, flags=re.MULTILINE)
    assert len(commands) == 3
    for command in commands:  # no config is here, which is the first thing that fails
        assert main(shlex.split(command)) == 2


def test_the_scorer_of_inspect_ai_gives_the_verdicts_of_the_rules(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without inspect_ai, its scorer module is a stand-in that has the names that the page uses."""
    if "inspect_ai" not in sys.modules:
        stand_in = ModuleType("inspect_ai.scorer")
        names: dict[str, Any] = {
            "CORRECT": "C",
            "INCORRECT": "I",
            "Score": SimpleNamespace,
            "accuracy": lambda: "accuracy",
            "stderr": lambda: "stderr",
            "scorer": lambda metrics: lambda function: function,
        }
        for name, value in names.items():
            setattr(stand_in, name, value)
        monkeypatch.setitem(sys.modules, "inspect_ai", ModuleType("inspect_ai"))
        monkeypatch.setitem(sys.modules, "inspect_ai.scorer", stand_in)
    _, code = CODE
    namespace: dict[str, Any] = {}
    exec(code, namespace)
    score = namespace["rules"]()
    for (_, answer, texts), verdicts in zip(PROBLEMS, CORRECT, strict=True):
        for text, right in zip(texts, verdicts, strict=True):
            state = SimpleNamespace(output=SimpleNamespace(completion=text or ""))
            result = asyncio.run(score(state, [answer, "never"]))
            assert result.value == ("C" if right else "I")
            assert (result.explanation == "correct") == right
