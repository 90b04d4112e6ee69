"""`rspo trace FILE`, in the project's folder: the provenance of a file, back to the data."""

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rspo.core.errors import InputError
from rspo.core.files import digest
from rspo.pipeline.provenance import UNCOMMITTED, inputs_of, provenance_path, read_provenance

_SHOWN = 12  # hex digits of a digest or commit that are printed

History = Mapping[Path, Mapping[str, Any]]  # the provenance of each file, which may be empty


def history(paths: list[Path]) -> dict[Path, dict[str, Any]]:
    """The provenance of the files and of everything that they were made from, breadth first."""
    notes: dict[Path, dict[str, Any]] = {}
    waiting = list(paths)
    while waiting:
        path = waiting.pop(0)
        if path not in notes:
            notes[path] = read_provenance(path)
            if not notes[path] and provenance_path(path).exists():
                raise InputError(f"{provenance_path(path)}: damaged; recreate {path}")
            waiting += inputs_of(path, notes[path])
    return notes


def faults(notes: History) -> list[str]:
    """Gaps and contradictions in a history, one sentence each. Reads every file."""
    result = []
    known = originals(notes)
    for path, note in notes.items():
        if not path.exists():
            here = " in this folder, or `rspo trace` was not started in that of the command"
            result.append(f"{path}: no longer exists{here * (path in known)}")
        elif not note and path not in known:
            result.append(f"{path}: has no provenance")
        elif note and digest(path) != note["digest"]:
            result.append(f"{path}: was changed after its provenance was written")
        for source, then in inputs_of(path, note).items():
            now = notes[source].get("digest", then)
            if not notes[source] and source.exists():
                now = digest(source)
            if now != then:
                versions = f"{then[:_SHOWN]}, now {now[:_SHOWN]}"
                result.append(
                    f"{path}: was made from another version of {source} ({versions}); recreate it"
                )
    return result


def sources(notes: History) -> dict[str, list[Path]]:
    """Each revision of a hub data set or generator, with the files made from it directly."""
    result: dict[str, list[Path]] = {}
    for path, note in notes.items():
        for source in note.get("notes", {}).get("sources", []):
            result.setdefault(source, []).append(path)
    return result


def content_of(note: Mapping[str, Any]) -> str:
    """Hash of a file's content; for a hub data set, the SHA-256 that the config expects."""
    return str(note["notes"].get("content_sha256") or note["digest"])


def originals(notes: History) -> dict[Path, str]:
    """The files of a history that a user made, with the digests that they had when last read."""
    return {
        Path(name): note["inputs"][name]
        for note in notes.values()
        for name in note.get("originals", ())
    }


def trace(path: Path, depth: int | None = None) -> Iterator[str]:
    """The history of a file, indented, to a depth of inputs; all are checked."""
    if not path.exists():
        raise InputError(f"{path}: no such file or folder")
    notes = history([path])
    if not notes[path]:
        raise InputError(f"{path}: has no provenance ({provenance_path(path)} is missing)")
    own, seen = originals(notes), set[Path]()
    shown = math.inf if depth is None else depth

    def lines(path: Path, indent: str = "", level: int = 0) -> Iterator[str]:
        """A file and its inputs; each file is expanded once."""
        note = notes[path]
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
        inputs = inputs_of(path, note)
        if not inputs:
            yield f"{indent}    settings: {json.dumps(note['settings'])}"
        for source in note["notes"].get("sources", []):
            yield f"{indent}    source: {source}, content {content_of(note)}"
        for item in inputs if level < shown else ():
            yield from lines(item, f"{indent}    ", level + 1)

    yield from lines(path)
    yield ""
    for source, holders in sources(notes).items():
        yield f"data: {source} in {', '.join(str(holder) for holder in holders)}"
    for file, then in own.items():
        yield f"data: {file}, content {then}"
    if broken := faults(notes):
        raise InputError("the history is broken:\n  " + "\n  ".join(broken))
