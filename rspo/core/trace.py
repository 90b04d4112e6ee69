"""`rspo trace FILE`: follow the provenance of a file back to the data.

Paths in provenance files are relative to the project's folder, so run it there.
"""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rspo.core.errors import InputError
from rspo.core.files import digest
from rspo.core.provenance import UNCOMMITTED, inputs_of, provenance_path, read_provenance

_SHOWN = 12  # hex digits of a digest or commit that are printed


@dataclass(frozen=True)
class Artifact:
    """A file or folder of a history, with its provenance, which is empty if it has none."""

    path: Path
    provenance: Mapping[str, Any]

    @property
    def inputs(self) -> dict[Path, str]:
        """What it was made from, with the digests of that time."""
        return inputs_of(self.path, self.provenance) if self.provenance else {}

    @property
    def sources(self) -> list[str]:
        """Revisions of the hub data sets or generators that it was made from directly."""
        result: list[str] = self.provenance.get("notes", {}).get("sources", [])
        return result

    @property
    def content(self) -> str:
        """Hash of its content; for a hub data set, the SHA-256 that the config expects."""
        result: str = self.provenance["notes"].get("content_sha256") or self.provenance["digest"]
        return result


def history(paths: list[Path]) -> dict[Path, Artifact]:
    """The files and everything that they were made from, each once, breadth first.

    Raises: InputError for a damaged provenance file.
    """
    artifacts: dict[Path, Artifact] = {}
    waiting = list(paths)
    while waiting:
        path = waiting.pop(0)
        if path not in artifacts:
            artifacts[path] = Artifact(path, read_provenance(path))
            if not artifacts[path].provenance and provenance_path(path).exists():
                raise InputError(f"{provenance_path(path)}: damaged; recreate {path}")
            waiting += artifacts[path].inputs
    return artifacts


def faults(artifacts: Mapping[Path, Artifact], contents: bool = True) -> list[str]:
    """Gaps and contradictions in a history, one sentence each.

    Args:
        contents: also read every file and compare it with its recorded digest; at the paper's scale
            that is hundreds of gigabytes.
    """
    result = []
    known = originals(artifacts)
    for path, artifact in artifacts.items():
        if not path.exists():
            result.append(f"{path}: no longer exists")
        elif not artifact.provenance and path not in known:
            result.append(f"{path}: has no provenance")
        elif artifact.provenance and contents and digest(path) != artifact.provenance["digest"]:
            result.append(f"{path}: was changed after its provenance was written")
        for name, then in artifact.inputs.items():
            now = artifacts[name].provenance.get("digest", then)
            if not artifacts[name].provenance and contents and name.exists():
                now = digest(name)
            if now != then:
                versions = f"{then[:_SHOWN]}, now {now[:_SHOWN]}"
                result.append(
                    f"{path}: was made from another version of {name} ({versions}); recreate it"
                )
    return result


def sources(artifacts: Mapping[Path, Artifact]) -> dict[str, list[Path]]:
    """Each data revision of a history, with the files made from it directly."""
    result: dict[str, list[Path]] = {}
    for artifact in artifacts.values():
        for source in artifact.sources:
            result.setdefault(source, []).append(artifact.path)
    return result


def originals(artifacts: Mapping[Path, Artifact]) -> dict[Path, str]:
    """The files of a history that a user made, with the digests that they had when they were read.

    If several results were made from different contents of a file, this is the last one.
    """
    return {
        Path(name): one.inputs[Path(name)]
        for one in artifacts.values()
        for name in one.provenance.get("originals", ())
    }


def trace(path: Path, depth: int | None = None) -> Iterator[str]:
    """The history of a file as indented lines, each input below what was made from it.

    Args:
        depth: how many levels of inputs to show, by default all; all are checked.

    Raises: InputError for a file that does not exist or has no provenance; after the last line,
        for a history with gaps or contradictions.
    """
    if not path.exists():
        raise InputError(f"{path}: no such file or folder")
    artifacts = history([path])
    if not artifacts[path].provenance:
        raise InputError(f"{path}: has no provenance ({provenance_path(path)} is missing)")
    own, seen = originals(artifacts), set[Path]()
    shown = math.inf if depth is None else depth

    def lines(path: Path, indent: str = "", level: int = 0) -> Iterator[str]:
        """A file and its inputs; each file is expanded once."""
        artifact, note = artifacts[path], artifacts[path].provenance
        if path in seen:
            yield f"{indent}{path} (see above)"
            return
        if level < shown:
            seen.add(path)
        if not note:
            yield f"{indent}{path}: {'your own file' if path in own else 'no provenance'}"
            return
        commit = note["git_commit"][:_SHOWN] or "unknown"
        if note["git_commit"].endswith(UNCOMMITTED):
            commit += UNCOMMITTED
        yield (
            f"{indent}{path}: {' '.join(note['command'][:2])}, settings {note['settings_hash']}, "
            f"commit {commit}, {note['written']} on {note['host']}"
        )
        if not artifact.inputs:
            yield f"{indent}    settings: {json.dumps(note['settings'])}"
        for source in artifact.sources:
            yield f"{indent}    source: {source}, content {artifact.content}"
        for item in artifact.inputs if level < shown else ():
            yield from lines(item, f"{indent}    ", level + 1)

    yield from lines(path)
    yield ""
    for source, holders in sources(artifacts).items():
        yield f"data: {source} in {', '.join(str(holder) for holder in holders)}"
    for file, then in own.items():
        yield f"data: {file}, content {then}"
    if broken := faults(artifacts):
        raise InputError("the history is broken:\n  " + "\n  ".join(broken))
