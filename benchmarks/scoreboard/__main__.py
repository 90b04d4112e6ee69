"""python -m benchmarks.scoreboard [project ...]: run the sources, and write the page.

Installs the versions of projects.yaml from the package index into a temporary folder, without their
dependencies, and imports the other sources from the folder SOURCES, which has a checkout of each
repository by its name, such as SOURCES/slime; without SOURCES, they keep their results. The results
of the named projects, or of all, replace those in docs/scoreboard.json. A source that cannot run is
an error, and keeps the result that it had; the others are still written.

Each call also runs in a copy of its source with a planted fault, which the check should find.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from benchmarks.scoreboard import page, plant

ROOT = Path(__file__).resolve().parents[2]
PROJECTS = Path(__file__).with_name("projects.yaml")
LIMIT = 120  # processor seconds for one source
LONGEST = 900  # seconds for one source, on a busy machine
DOWNLOAD = 300  # seconds for the installation of one package
Source = dict[str, Any]


class Failure(Exception):
    """A source that could not be installed, found or run."""


def sources() -> Iterator[tuple[Source, str]]:
    """The entries of projects.yaml with each version, or with the commit."""
    for entry in yaml.safe_load(PROJECTS.read_text(encoding="utf-8")):
        if "package" in entry:
            for version in entry["versions"]:
                yield entry, version
        else:
            yield entry, entry["commit"]


def folder_of(entry: Source, version: str, checkouts: Path | None, scratch: Path) -> Path:
    """The folder from which Python imports a source.

    Raises: Failure if it cannot be installed, or is not at the commit.
    """
    if "package" in entry:
        target = scratch / f"{entry['package']}-{version}"
        words = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target"]
        words += [str(target), f"{entry['package']}=={version}"]
        try:
            done = subprocess.run(
                words, capture_output=True, text=True, timeout=DOWNLOAD, check=False
            )
        except subprocess.TimeoutExpired:
            raise Failure(
                f"pip did not install {entry['package']}=={version} in {DOWNLOAD} seconds; is the "
                "package index reachable?"
            ) from None
        if done.returncode:
            raise Failure(reason(done))
        return target
    assert checkouts is not None  # `main` leaves checkouts out without it
    checkout = checkouts / entry["checkout"].partition("/")[2]
    found = subprocess.run(
        ["git", "-C", str(checkout), "rev-parse", "HEAD"], capture_output=True, text=True
    )
    if not found.stdout.startswith(entry["commit"]):
        raise Failure(f"{checkout} must be at commit {entry['commit']}: {found.stdout.strip()}")
    return checkout / entry["path"]


def reason(done: "subprocess.CompletedProcess[str]") -> str:
    """The last line that a failed process wrote, or its exit code if it wrote none."""
    written = done.stderr.strip().splitlines()
    return written[-1] if written else f"exit code {done.returncode}"


def run(entry: Source, folder: Path) -> list[dict[str, Any]]:
    """What the calls of a source maximize.

    Raises: Failure with the end of what the child wrote, after `LIMIT` processor seconds, or after
        `LONGEST` seconds.
    """
    folder = folder.resolve()
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)])}
    words = [sys.executable, "-m", "benchmarks.scoreboard.child"]
    try:
        done = subprocess.run(
            words,
            input=json.dumps({**entry, "folder": str(folder), "limit": LIMIT}),
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=LONGEST,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Failure(f"no result after {LONGEST} seconds; the machine may be busy") from None
    if done.returncode == -signal.SIGXCPU:
        raise Failure(f"no result after {LIMIT} processor seconds")
    if done.returncode:
        raise Failure(reason(done))
    results: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return results


def run_faults(entry: Source, folder: Path, scratch: Path) -> list[dict[str, Any]]:
    """What the calls of a source maximize, each in a copy of the source with its fault.

    Raises: Failure as `run`, or if the source has no place for a fault.
    """
    found = []
    for call in entry["calls"]:
        copy = scratch / "with_fault"
        fault = {"module": entry["module"]} | call["fault"]
        try:
            words = plant.plant(folder, copy, fault)
            without_correction = {key: call[key] for key in call if key != "correction"}
            (result,) = run(entry | {"calls": [without_correction]}, copy)
        except plant.NotPlanted as error:
            raise Failure(f"fault in {call['call']}: {error}") from None
        finally:
            shutil.rmtree(copy, ignore_errors=True)
        found.append({"fault": words, "with_fault": result["by_k"]})
    return found


def rows(
    entry: Source, version: str, results: list[dict[str, Any]], faults: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """The rows of the result file for one source."""
    found = []
    for call, result, fault in zip(entry["calls"], results, faults, strict=True):
        row = {
            "project": entry["project"],
            "source": entry.get("package") or entry["checkout"],
            "from": "package" if "package" in entry else "checkout",
            "version": version,
            "call": call["call"],
            "meant": call["meant"],
            "stubs": entry["stubs"],
            **result,
        }
        if "correction" in call:
            row["correction"] = call["correction"]["words"]
        found.append(row | fault)
    return found


def main() -> int:
    parser = argparse.ArgumentParser("python -m benchmarks.scoreboard", description=__doc__)
    parser.add_argument("project", nargs="*")
    chosen = parser.parse_args().project
    checkouts = Path(os.environ["SOURCES"]) if os.environ.get("SOURCES") else None
    all_sources = list(sources())
    unknown = set(chosen) - {entry["project"] for entry, _ in all_sources}
    if unknown:
        parser.error(f"unknown project {', '.join(sorted(unknown))}")
    # The rows of each source, first those of an earlier run.
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for entry, version in all_sources:
        found[entry["project"], version] = []
    for row in page.results():
        if (row["project"], row["version"]) in found:
            found[row["project"], row["version"]].append(row)
    failed = 0
    with tempfile.TemporaryDirectory() as scratch:
        for entry, version in all_sources:
            name = f"{entry['project']} {version}"
            if chosen and entry["project"] not in chosen:
                continue
            if checkouts is None and "checkout" in entry:
                print(f"left out {name}: SOURCES is not set", file=sys.stderr, flush=True)
                continue
            print(f"running {name}", file=sys.stderr, flush=True)
            try:
                folder = folder_of(entry, version, checkouts, Path(scratch))
                results = run(entry, folder)
                faults = run_faults(entry, folder, Path(scratch))
                found[entry["project"], version] = rows(entry, version, results, faults)
            except Failure as failure:
                failed += 1
                print(f"FAILED {name}: {failure}", file=sys.stderr, flush=True)
            # After each source, so that a run that is stopped keeps what it found.
            page.write([row for of_source in found.values() for row in of_source])
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
