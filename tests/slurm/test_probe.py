"""What the probe of `rspo doctor` reports on this machine, which has no GPU."""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import asdict
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from rspo.slurm.probe import Answer, Task, _ask_judge, missing_to_compile


class NoPage(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_error(404)


@pytest.fixture
def web_server() -> Iterator[str]:
    """Address of a server that has no page."""
    with HTTPServer(("127.0.0.1", 0), NoPage) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_a_server_that_is_no_judge_is_named_with_its_status(web_server: str) -> None:
    answer = Answer("ok", "n7", {})
    _ask_judge(answer, web_server)
    assert "404" in answer.no_judge
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


@pytest.mark.parametrize(
    ("path", "include", "compiler", "missing"),
    [
        ("bin", "include", "gcc", ""),
        ("", "other", "gcc", "a C compiler and /other/Python.h"),
    ],
)
def test_what_triton_compiles_with_must_be_on_the_node(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    path: str,
    include: str,
    compiler: str,
    missing: str,
) -> None:
    for file in (tmp_path / "bin" / compiler, tmp_path / "include" / "Python.h"):
        file.parent.mkdir()
        file.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path / path) if path else "")
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr("sysconfig.get_paths", lambda: {"include": str(tmp_path / include)})
    assert missing_to_compile().replace(str(tmp_path), "") == missing
