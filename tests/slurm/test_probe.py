"""What the probe of `rspo doctor` reports on this machine, which has no GPU; half a minute."""

import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from rspo.slurm.probe import Answer, Task


@pytest.mark.long
def test_the_packages_and_the_gpu_are_reported(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("text")
    task = Task(str(file), "other", ("torch", "vllm", "flash_attn", "verl"), gpu=True)
    words = [sys.executable, "-m", "rspo.slurm.probe", json.dumps(asdict(task))]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    answer = Answer(**json.loads(done.stdout.splitlines()[-1]))
    assert answer.file == "old"
    assert list(answer.versions) == ["torch", "vllm", "verl"]
    assert answer.versions["verl"] == "0.9.1"
    reason = "ModuleNotFoundError: No module named 'flash_attn'"
    assert answer.packages == {"flash_attn": reason}
    assert (answer.gpu, bool(answer.no_gpu)) == ("", True)
