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

from rspo.slurm.probe import Task, judge, missing_to_compile, shared_files, slurm_commands


class Models(BaseHTTPRequestHandler):
    """Has one page, the list of models."""

    def do_GET(self) -> None:
        if self.path != "/v1/models":
            self.send_error(404)
            return
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"data": [{"id": "a"}, {"id": "b"}]}')


@pytest.fixture
def web_server() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Models) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_a_judge_that_does_not_work_is_reported(web_server: str) -> None:
    ((kind, line),) = judge(f"{web_server}/none", "my/judge")
    assert kind == "error"
    assert line.startswith(f"gets no list of models from xverify.url = {web_server}/none (HTTPSta")
    assert "404" in line
    ((_, line),) = judge(web_server, "my/judge")
    assert "serves a, b, not xverify.model = my/judge: " in line
    assert list(judge(web_server, "b")) == []


@pytest.mark.long
def test_the_packages_and_the_gpu_are_reported() -> None:
    task = Task("", "", ("torch", "vllm", "flash_attn", "verl"), gpu=True)
    words = [sys.executable, "-m", "rspo.slurm.probe", json.dumps(asdict(task))]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    answer = json.loads(done.stdout.splitlines()[-1])
    assert "verl 0.9.1" in answer["about"]
    lines = "\n".join(line for _, line in answer["findings"])
    assert "cannot import flash_attn (ModuleNotFoundError: No module named" in lines
    assert "has a GPU that jobs would not use: " in lines


def test_a_command_of_slurm_that_fails_without_a_word_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert all("No such file" in line for _, line in slurm_commands())
    for name in ("srun", "scontrol"):
        (tmp_path / name).write_text("#!/bin/sh\nexit 3\n")
        (tmp_path / name).chmod(0o755)
    (_, *_), lines = zip(*slurm_commands(), strict=True)
    assert all("(exit status 3): " in line for line in lines)


def test_a_lock_that_this_host_ignores_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("text")
    ((_, line),) = shared_files(file, "text")
    assert line.startswith(f"ignores a lock that another host holds in {tmp_path}")
    ((_, line),) = shared_files(file, "other")
    assert line.startswith(f"does not see the files in {tmp_path}")


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
