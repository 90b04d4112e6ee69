"""A copy of the project in a fresh folder, and Snakemake in it."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.support import ROOT, copy_config, tiny_world

PROGRAMS = Path(sys.executable).parent  # `snakemake` and `rspo` of the environment under test


def setting(values: Mapping[str, Any]) -> str:
    """A word after `--config` that overrides keys, such as `set=training.steps=3`."""
    return "set=" + shlex.join(f"{key}={json.dumps(value)}" for key, value in values.items())


SMALL_WORLD = [setting(tiny_world.OVERRIDES)]


def make_project(folder: Path) -> Path:
    """Copy the Snakefile and all that it reads; returns the folder."""
    copy_config(folder)
    for name in ("workflow", "profiles", "envs"):
        shutil.copytree(ROOT / name, folder / name)
    shutil.copy(ROOT / "Snakefile", folder)
    return folder


def with_judge(upstream: Path, pinned: str, url: str | None) -> list[str]:
    """Arguments for the small world with a judge at a URL or, for None, a server per job."""
    xverify = {
        "prompt": {"repository": str(upstream), "commit": pinned},
        "model": "test/judge",
        "url": url,
        "start_seconds": 1,
        "concurrent_requests": 8,
        "request_seconds": 10,
        "retry_seconds": 0,
    }
    return ["--config", *SMALL_WORLD, setting({"verifier": "xverify", "xverify": xverify})]


def snakemake(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `snakemake ARGUMENTS` in a project."""
    server = _server()
    assert server.stdin is not None
    assert server.stdout is not None
    with TemporaryDirectory() as logs:
        output, errors = Path(logs, "output"), Path(logs, "errors")
        request = {
            "arguments": arguments,
            "folder": str(folder),
            "environment": os.environ | {"PATH": f"{PROGRAMS}:{os.environ['PATH']}"},
            "output": str(output),
            "errors": str(errors),
        }
        try:
            server.stdin.write(json.dumps(request) + "\n")
            server.stdin.flush()
            status = int(server.stdout.readline())
        except BaseException:  # above all a test's time limit: the answer would come later
            server.kill()
            raise
        return subprocess.CompletedProcess(
            arguments, status, output.read_text(), errors.read_text()
        )


def _server() -> "subprocess.Popen[str]":
    """The process of `tests.support.snakemake_server`, started if necessary."""
    global _running
    if _running is None or _running.poll() is not None:
        _running = subprocess.Popen(
            [sys.executable, "-m", "tests.support.snakemake_server"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
    return _running


_running: "subprocess.Popen[str] | None" = None


def jobs(done: subprocess.CompletedProcess[str]) -> dict[str, int]:
    """Number of jobs of each rule that a dry run lists."""
    assert done.returncode == 0, done.stderr
    counts = re.findall(r"^(\w+) +(\d+)$", done.stdout + done.stderr, flags=re.MULTILINE)
    return {rule: int(count) for rule, count in counts}
