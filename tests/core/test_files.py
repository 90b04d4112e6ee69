"""Atomic writes, tables, digests, provenance and locks."""

import errno
import fcntl
import gzip
import hashlib
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rspo.core import locks
from rspo.core.errors import InputError
from rspo.core.files import (
    atomic_write,
    digest,
    fingerprint,
    numbered_json_lines,
    read_json_lines,
    write_json_lines,
)
from rspo.core.locks import exclusive_lock
from rspo.core.tables import SCORES, read_table, write_table

ROW = {
    "benchmark": "linear",
    "problem_id": "a/1",
    "sample_index": 0,
    "correct": True,
    "verifier": "exact",
    "verdict": "correct",
    "reward": 1.0,
}

ROW_OF_ONE = {name: [value] for name, value in ROW.items()}


def test_a_write_that_fails_leaves_the_old_file_and_a_new_folder_replaces_all_of_the_old(
    tmp_path: Path,
) -> None:
    path = tmp_path / "policy"

    def write(name: str, error: type[BaseException] | None = None) -> None:
        with atomic_write(path) as partial:
            partial.mkdir()
            (partial / name).touch()
            if error is not None:
                raise error

    write("stale")
    for error in (RuntimeError, KeyboardInterrupt):
        with pytest.raises(error):
            write("half", error)
        assert [item.name for item in path.iterdir()] == ["stale"]
    write("fresh")
    with pytest.raises(IsADirectoryError, match="policy"):
        write_json_lines(path, [])
    assert [item.name for item in path.iterdir()] == ["fresh"]
    assert [item.name for item in tmp_path.iterdir()] == ["policy"]


def test_the_next_write_removes_what_a_killed_process_left(tmp_path: Path) -> None:
    code = (
        "import os, pathlib, signal; from rspo.core.files import atomic_write\n"
        f"with atomic_write(pathlib.Path({str(tmp_path / 'table.parquet')!r})) as partial:\n"
        "    partial.write_text('half'); os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", code], check=False)
    assert not (tmp_path / "table.parquet").exists()
    assert len(list(tmp_path.iterdir())) == 1
    write_table(tmp_path / "table.parquet", SCORES, [ROW])
    assert [item.name for item in tmp_path.iterdir()] == ["table.parquet"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_is_an_error_and_leaves_no_file(tmp_path: Path) -> None:
    path = tmp_path / "table.json"

    def fill() -> None:
        with atomic_write(path) as partial:
            partial.symlink_to("/dev/full")
            partial.write_text("x" * 100_000)

    with pytest.raises(OSError, match="No space left") as caught:
        fill()
    assert caught.value.errno == errno.ENOSPC
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_is_full_while_a_folder_is_copied_is_the_error_of_that_folder(
    tmp_path: Path,
) -> None:
    """`shutil.copytree` collects errors as text."""

    def fill(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "source")

    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "weights").touch()
    with (
        pytest.raises(OSError, match="No space left") as caught,
        atomic_write(tmp_path / "policy") as partial,
    ):
        shutil.copytree(tmp_path / "source", partial, copy_function=fill)
    assert (caught.value.errno, caught.value.filename) == (errno.ENOSPC, str(tmp_path / "policy"))
    assert [path.name for path in tmp_path.iterdir()] == ["source"]


def test_a_lock_on_a_full_disk_is_an_error_that_names_it_and_is_not_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(locks.os, "write", full)
        with pytest.raises(OSError, match="No space left") as caught, exclusive_lock(tmp_path):
            pass
    assert caught.value.filename == str(tmp_path / locks.LOCK)
    assert not locks.is_locked(tmp_path / locks.LOCK)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (None, "no such file"),
        (b"PAR1", "damaged, or another table"),
        (pa.table(ROW_OF_ONE).slice(1), "has no rows"),
        (pa.table(ROW_OF_ONE).drop_columns(["reward"]), "reward.* does not exist"),
        (pa.table(ROW_OF_ONE | {"reward": ["much"]}), "string: 'much'"),
    ],
)
def test_the_error_for_a_bad_table_names_the_file_and_the_reason(
    tmp_path: Path, table: pa.Table | bytes | None, message: str
) -> None:
    path = tmp_path / "scores.parquet"
    if isinstance(table, bytes):
        path.write_bytes(table)
    elif table is not None:
        pq.write_table(table, path)
    with pytest.raises(InputError, match=message) as caught:
        read_table(path, SCORES)
    assert str(path) in str(caught.value)


def test_a_table_of_another_program_needs_only_the_columns(tmp_path: Path) -> None:
    """pandas writes 64-bit integers and large strings; the values are the same."""
    path = tmp_path / "scores.parquet"
    table = pa.table(ROW_OF_ONE | {"more": [1]})
    assert table.schema.field("sample_index").type == pa.int64()
    pq.write_table(table, path)
    assert read_table(path, SCORES) == [ROW]


def test_the_error_for_bad_json_lines_names_the_line(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    write_json_lines(path, [{"a": 1}, {"a": 2}])
    assert read_json_lines(path) == [{"a": 1}, {"a": 2}]
    path.write_text('{"a": 1}\n{"a": \n')
    with pytest.raises(InputError, match=r"a.jsonl, line 2: not JSON"):
        read_json_lines(path)
    path.write_text("[1]\n")
    with pytest.raises(InputError, match=r"line 1: expected a JSON object"):
        read_json_lines(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"a": 1}\n\n{"a": \n', "a.jsonl, line 3: not JSON (Expecting value)"),
        (b'{"a": 1}\n"a"\n', 'a.jsonl, line 2: expected a JSON object, got "a"'),
        (b'{"a": 1}\n{"b": 1, "b": 2}\n', "line 2: not JSON (the key 'b' is duplicated)"),
        (b'{"a": 1}\n{"a": "\xe9"}\n', "a.jsonl, line 2: not UTF-8 ('utf-8' codec can't decode"),
        (gzip.compress(b'{"a": 1}\n', mtime=0)[:-8], "a.jsonl: not a complete gzip file ("),
        (b"[" * 100_000, "a.jsonl, line 1: not JSON ("),
        (b'{"a": ' + b"1" * 5000 + b"}", "a.jsonl, line 1: not JSON (Exceeds the limit"),
    ],
)
def test_a_bad_line_is_named_with_the_reason(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        read_json_lines(path)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_lines_keep_their_numbers_and_may_be_compressed(
    tmp_path: Path, pack: Callable[[bytes], bytes]
) -> None:
    """Empty lines count; a mark of the byte order, which some editors write, does not."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(pack('\ufeff{"a": "é"}\n\n  \n{"a": 2}'.encode()))
    assert list(numbered_json_lines(path)) == [(1, {"a": "é"}), (4, {"a": 2})]


def test_only_a_file_can_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"^{tmp_path}: not a file$"):
        read_json_lines(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="pipe: a pipe can be read only once, "):
        read_json_lines(tmp_path / "pipe")
    with pytest.raises(InputError, match=r"no\.jsonl: no such file$"):
        read_json_lines(tmp_path / "no.jsonl")


def test_fingerprints_depend_on_every_value_but_not_on_the_order() -> None:
    assert fingerprint({"a": 1, "b": [1, 2]}) == fingerprint({"b": [1, 2], "a": 1})
    assert fingerprint({"a": 1}) != fingerprint({"a": 2})
    assert fingerprint({"a": 1.0}) != fingerprint({"a": 1})
    assert fingerprint({"a": (1, 2)}) == fingerprint({"a": [1, 2]})


def test_fingerprints_and_digests_stay_as_they_are(tmp_path: Path) -> None:
    """With others, every finished result would be outdated."""
    assert fingerprint({"b": [1, None], "a": "é"}) == "8920de394141"
    (tmp_path / "a").write_bytes(b"1")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "c").write_bytes(b"2")
    first, second = (hashlib.sha256(content).hexdigest() for content in (b"1", b"2"))
    assert digest(tmp_path / "a") == first
    lines = f"{first}  a\n{second}  b/c\n"
    assert digest(tmp_path) == hashlib.sha256(lines.encode()).hexdigest()


def test_a_digest_depends_on_names_and_contents_without_hidden_files(tmp_path: Path) -> None:
    weights, config = tmp_path / "part" / "weights", tmp_path / "config"
    weights.parent.mkdir()
    weights.write_bytes(b"1")
    config.write_bytes(b"2")
    before = digest(tmp_path)
    (tmp_path / ".snakemake_timestamp").touch()
    (tmp_path / ".cache").mkdir()
    (tmp_path / ".cache" / "download").write_bytes(b"3")
    assert digest(tmp_path) == before
    weights.write_bytes(b"2")
    assert digest(tmp_path) != before
    weights.write_bytes(b"1")
    assert digest(tmp_path) == before
    config.rename(tmp_path / "configuration")
    assert digest(tmp_path) != before


@contextmanager
def locked_by_another_process(folder: Path, seconds: float) -> Iterator[str]:
    """Lock a folder in another process; yields its name in error messages."""
    code = (
        "import pathlib, time; from rspo.core.locks import exclusive_lock, this_process\n"
        f"with exclusive_lock(pathlib.Path({str(folder)!r})):\n"
        f"    print(this_process(), flush=True); time.sleep({seconds})"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
    finally:
        process.kill()
        process.communicate()


def test_a_locked_folder_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    with locked_by_another_process(tmp_path, 600) as name:
        began = time.monotonic()
        with pytest.raises(InputError) as caught, exclusive_lock(tmp_path):
            pass
        assert time.monotonic() - began < locks.SECONDS_FOR_A_LOST_NODE
    assert str(caught.value) == f"{tmp_path}: {name} is running here; wait for it or end it"
    with exclusive_lock(tmp_path):
        assert (tmp_path / locks.LOCK).read_text() == locks.this_process()


def test_a_look_at_a_lock_does_not_stop_a_job_that_starts(tmp_path: Path) -> None:
    """As that of `rspo status`."""
    (tmp_path / locks.LOCK).touch()
    with (tmp_path / locks.LOCK).open() as look:
        fcntl.flock(look, fcntl.LOCK_SH)
        end_of_look = threading.Timer(0.2, fcntl.flock, (look, fcntl.LOCK_UN))
        end_of_look.start()
        with exclusive_lock(tmp_path):
            assert locks.is_locked(tmp_path / locks.LOCK)
        end_of_look.join()


def test_a_file_system_without_locks_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr("fcntl.flock", refuse)
    words = r"\.lock: this file system does not support locks \(Function not implemented\); mount"
    with pytest.raises(InputError, match=words), exclusive_lock(tmp_path):
        pass
    assert locks.is_locked(tmp_path / locks.LOCK)  # it may be; `rspo status` still answers


def test_a_lock_ends_with_its_block(tmp_path: Path) -> None:
    lock = tmp_path / "new" / "my.lock"
    assert not locks.is_locked(lock)
    with exclusive_lock(lock.parent, lock.name):
        assert locks.is_locked(lock)
        assert lock.read_text() == locks.this_process()
    assert not locks.is_locked(lock)
    assert lock.is_file()


@pytest.mark.parametrize("seconds", [0.5, 60])
def test_a_slurm_job_waits_for_processes_on_a_lost_node(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    seconds: float,
) -> None:
    """They may run for minutes after SLURM has given up the node."""
    monkeypatch.setattr(locks, "SECONDS_FOR_A_CHECK", 0.1)
    monkeypatch.setattr(locks, "SECONDS_FOR_A_LOST_NODE", 3)
    monkeypatch.setattr(locks, "_SECONDS_BETWEEN_TRIES", 0.1)
    with locked_by_another_process(tmp_path, seconds) as name:
        monkeypatch.setenv("SLURM_JOB_ID", "7")
        refused = pytest.raises(InputError, match="is running here; wait for it or end it")
        with refused if seconds > 3 else nullcontext(), exclusive_lock(tmp_path):
            assert (tmp_path / locks.LOCK).read_text().startswith("SLURM job 7, process ")
    line = f"rspo: {tmp_path}: {name} is running here; waiting up to 3 s\n"
    assert capsys.readouterr().err == line


def test_a_folder_in_which_no_file_can_be_made_is_named_not_its_lock() -> None:
    """Users know no lock files. /proc refuses new files to every user."""
    with pytest.raises(OSError, match="/proc/self") as caught, exclusive_lock(Path("/proc/self")):
        raise AssertionError("locked")
    assert caught.value.filename == "/proc/self"
