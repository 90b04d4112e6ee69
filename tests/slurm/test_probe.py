"""What the probe of `rspo doctor` reports on this machine, which has no GPU."""

import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from rspo.slurm.probe import Answer, Task, _ask_judge, missing_to_compile


def test_a_server_that_is_no_judge_is_named_with_the_reason() -> None:
    answer = Answer("ok", "n7", {})
    _ask_judge(answer, "http://127.0.0.1:1")
    assert answer.no_judge.startswith("ConnectError: ")
    assert "\n" not in answer.no_judge


@pytest.mark.long
def test_the_packages_and_the_gpu_are_reported(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("text")
    task = Task(str(file), "other", ("torch", "vllm", "flash_attn", "verl"), gpu=True)
    words = [sys.executable, "-m", "rspo.slurm.probe", json.dumps(asdict(task))]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    answer = Answer(**json.loads(done.stdout.splitlines()[-1]))
    assert answer.file == "unseen"
    assert list(answer.versions) == ["torch", "vllm", "verl"]
    assert answer.versions["verl"] == "0.9.1"
    reason = "ModuleNotFoundError: No module named 'flash_attn'"
    assert answer.packages == {"flash_attn": reason}
    assert (answer.gpu, bool(answer.no_gpu)) == ("", True)


def test_what_triton_compiles_with_must_be_on_the_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr("sysconfig.get_paths", lambda: {"include": "/other"})
    assert missing_to_compile() == "a C compiler and /other/Python.h"
    (tmp_path / "gcc").touch(mode=0o755)
    (tmp_path / "Python.h").touch()
    monkeypatch.setattr("sysconfig.get_paths", lambda: {"include": str(tmp_path)})
    assert missing_to_compile() == ""
