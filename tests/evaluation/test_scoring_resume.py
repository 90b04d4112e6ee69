"""A killed scoring run resumes and writes the same file."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rspo.cli import main
from rspo.config.steps import lock_of
from rspo.core.errors import InputError
from rspo.core.locks import exclusive_lock
from rspo.evaluation.journal import in_chunks
from rspo.evaluation.score import ROWS_OF_A_CHUNK
from tests.support import ROOT

ROWS = 10_000


def command(responses: Path, output: Path) -> list[str]:
    return [sys.executable, "-m", "rspo.cli", "verify", str(responses), f"--output={output}"]


@pytest.fixture(scope="module")
def responses(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """10,000 responses, of which every fifth needs a worker."""
    path = tmp_path_factory.mktemp("responses") / "responses.jsonl"
    rows = (
        {
            "problem": f"{row % 100}",
            "answer": f"\\frac{{{row % 100}}}{{7}}",
            "response": f"so \\boxed{{{row % 100} / 7}}" if row % 5 == 0 else "no idea",
        }
        for row in range(ROWS)
    )
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_a_killed_run_writes_the_same_file_and_repeats_at_most_one_chunk(
    responses: Path, tmp_path: Path
) -> None:
    uninterrupted = tmp_path / "uninterrupted.jsonl"
    subprocess.run(command(responses, uninterrupted), cwd=ROOT, check=True)
    output, kept = tmp_path / "scores.jsonl", tmp_path / ".scores.journal"
    process = subprocess.Popen(command(responses, output), cwd=ROOT)

    def chunks_done() -> list[str]:
        """One line per chunk, after the first line."""
        return kept.read_text().splitlines()[1:] if kept.exists() else []

    end = time.monotonic() + 300
    while len(chunks_done()) < 3 and time.monotonic() < end:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    before = chunks_done()
    assert 3 <= len(before) < ROWS // ROWS_OF_A_CHUNK
    assert not output.exists()

    process = subprocess.Popen(command(responses, output), cwd=ROOT)
    while len(chunks_done()) <= len(before) and process.poll() is None:
        time.sleep(0.02)
    assert chunks_done()[: len(before)] == before
    assert process.wait() == 0
    assert output.read_bytes() == uninterrupted.read_bytes()
    assert not kept.exists()


CHUNKS = [range(500), range(500, 1000), range(1000, 1200)]


def run(path: Path, origin: str, fail_at: int | None = None) -> list[range]:
    """Make 1,200 rows, and return the chunks made in this call."""
    made = []

    def work(chunk: range) -> list[str]:
        if len(made) == fail_at:
            raise RuntimeError("power failure")
        made.append(chunk)
        return [str(row) for row in chunk]

    try:
        assert in_chunks(path, origin, CHUNKS, work) == [str(row) for row in range(1200)]
    except RuntimeError:
        assert fail_at is not None
    return made


@pytest.mark.parametrize(
    ("origin", "cut", "made"),
    [("a", 0, CHUNKS[2:]), ("a", 5, CHUNKS[1:]), ("b", 0, CHUNKS), ("a", 10**4, CHUNKS)],
    ids=["same rows", "truncated line", "other rows", "truncated first line"],
)
def test_a_resumed_run_makes_only_the_missing_chunks(
    tmp_path: Path, origin: str, cut: int, made: list[range]
) -> None:
    path = tmp_path / "journal"
    run(path, "a", fail_at=2)
    os.truncate(path, max(1, path.stat().st_size - cut))
    assert run(path, origin) == made
    assert run(path, origin) == []  # the journal of a complete table has every row


def test_a_failure_before_the_first_chunk_leaves_nothing(tmp_path: Path) -> None:
    def fail(chunk: int) -> list[int]:
        raise InputError("no verifier")

    with pytest.raises(InputError):
        in_chunks(tmp_path / ".journal", "origin", [1], fail)
    assert list(tmp_path.iterdir()) == []


def test_two_processes_cannot_verify_the_same_file(
    responses: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "scores.jsonl"
    lock = lock_of(output)
    with exclusive_lock(lock.parent, lock.name):
        assert main(["verify", str(responses), f"--output={output}"]) == 2
    assert re.search(r"process \d+ on \S+ is running here", capsys.readouterr().err)
    assert not output.exists()
