"""examples/pretrained.ipynb: its cells run, and what is stored in it names no machine."""

import json
import math
import re
from pathlib import Path

import pytest

from tests.support import ROOT, llama_model, notebook

FILE = ROOT / "examples" / "pretrained.ipynb"


def test_it_has_ten_cells_and_each_says_what_it_does() -> None:
    cells = json.loads(FILE.read_text())["cells"]
    assert [cell["cell_type"] for cell in cells] == ["markdown"] + ["code"] * 9
    for number, text in enumerate(notebook.cells_of(FILE), start=1):
        assert re.match(rf"# {number}\. [A-Z]", text)


def test_stored_outputs_are_texts_without_paths_and_errors() -> None:
    for cell in json.loads(FILE.read_text())["cells"]:
        for output in cell.get("outputs", []):
            assert output["output_type"] == "stream"
            assert output["name"] == "stdout"
            assert not re.search(r"(?<!\w)/\w+/|\\\\|Traceback", "".join(output["text"]))


@pytest.mark.ci
def test_it_runs_from_top_to_bottom_in_a_small_form(tmp_path: Path) -> None:
    """With a random model, whose responses are almost never right."""
    llama_model.write(tmp_path / "model")
    settings = {
        "FOLDER": tmp_path / "model",
        "STEPS": 2,
        "PROMPTS": 4,
        "N": 8,
        "HELD_OUT": 6,
    }
    found, printed = notebook.run(FILE, settings)
    assert len(printed) == 9
    # The problems have the answers that Python computes, and none is both held out and trained on.
    for text, answer in found["pairs"]:
        first, sign, second = text.split()
        assert int(answer) == int(first) + int(sign + second)
    assert not set(found["held_out"].questions) & set(found["training_set"].questions)
    # Pass@k of each problem, by counting the choices of k of the 16 responses.
    for k in (1, 4):
        each = []
        for row, (answer,) in enumerate(found["held_out"].answers):
            mine = found["responses"][row * 16 : (row + 1) * 16]
            wrong = sum(text.strip() != answer for text in mine)
            each.append(1 - math.comb(wrong, k) / math.comb(16, k))
        assert found["before"][k][0] == pytest.approx(sum(each) / len(each))
    assert "1 of 16 right, rspo_pass_at_k" in printed[5]
    table = printed[-1].splitlines()
    assert [line[:12].strip() for line in table[1:]] == ["before", "RSPO, k = 4", "GRPO"]
    assert all(line.count("±") == 2 for line in table[1:])
