"""The journal of an unfinished table, from which a killed run resumes."""

import os
from pathlib import Path

import pytest

from rspo.core.errors import InputError
from rspo.evaluation.journal import in_chunks

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
