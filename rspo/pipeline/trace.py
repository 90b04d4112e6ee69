"""`rspo trace FILE`: the provenance of a file, of its inputs, and so on, back to the data.

Provenance names the files of the user relative to the folder in which the command ran, so
`rspo trace` must run in the same folder.
"""

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rspo.core.errors import InputError
from rspo.core.files import digest
from rspo.pipeline.provenance import UNCOMMITTED, inputs_of, provenance_path, read_provenance
from rspo.pipeline.state import Reason, State, content_state

_SHOWN_DIGITS = 12  # hexadecimal digits of a digest or commit

# The provenance of files, of their inputs, and so on; empty for a file that has none.
History = Mapping[Path, Mapping[str, Any]]


def history(paths: list[Path]) -> dict[Path, dict[str, Any]]:
    """The provenance of files, of their inputs, and so on, breadth first.

    Raises: InputError for provenance that cannot be read.
    """
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
    """A sentence for each gap or contradiction in a history. This reads every file."""
    own_files = originals(notes)
    sentences = []
    for path, note in notes.items():
        state = content_state(path, deep=True)
        is_own = path in own_files and not note
        if state.reason is Reason.REMOVED and is_own:
            sentences.append(
                f"{state} in this folder, or `rspo trace` was not started in that of the command"
            )
        elif not state.is_current and not is_own:
            sentences.append(str(state))
        for source, digest_then in inputs_of(path, note).items():
            # A removed file without provenance counts as unchanged here, because the outer loop
            # reports it.
            digest_now = notes[source].get("digest", digest_then)
            if not notes[source] and source.exists():
                digest_now = digest(source)
            if digest_now != digest_then:
                versions = f"{digest_then[:_SHOWN_DIGITS]}, now {digest_now[:_SHOWN_DIGITS]}"
                other = State(path, Reason.OTHER_VERSION, f"{source} ({versions})")
                sentences.append(f"{other}; recreate it")
    return sentences


def sources(notes: History) -> dict[str, list[Path]]:
    """The sources of the data, each with the files that were made directly from it.

    A source is a revision of a data set on the hub, or of the generator of problems.
    """
    holders: dict[str, list[Path]] = {}
    for path, note in notes.items():
        for source in note.get("notes", {}).get("sources", []):
            holders.setdefault(source, []).append(path)
    return holders


def content_of(note: Mapping[str, Any]) -> str:
    """The hash of a file's content; for a hub data set, the SHA-256 that the config expects."""
    return str(note["notes"].get("content_sha256") or note["digest"])


def originals(notes: History) -> dict[Path, str]:
    """The files that the user made, with the digests that they had when a task last read them."""
    return {
        Path(name): note["inputs"][name]
        for note in notes.values()
        for name in note.get("originals", ())
    }


def trace(path: Path, depth: int | None = None) -> Iterator[str]:
    """The lines that `rspo trace` prints.

    Args:
        depth: levels of inputs to show; None shows all. All levels are checked in any case.

    Raises: InputError if the file does not exist or has no provenance, and, after the last line, if
        the history has gaps or contradictions.
    """
    if not path.exists():
        raise InputError(f"{path}: no such file or folder")
    notes = history([path])
    if not notes[path]:
        raise InputError(f"{path}: has no provenance ({provenance_path(path)} is missing)")
    yield from _tree(path, notes, math.inf if depth is None else depth)
    yield ""
    for source, holders in sources(notes).items():
        yield f"data: {source} in {', '.join(str(holder) for holder in holders)}"
    for file, digest_then in originals(notes).items():
        yield f"data: {file}, content {digest_then}"
    # Last, so that the user sees the history that has the faults.
    broken = faults(notes)
    if broken:
        raise InputError("the history is broken:\n  " + "\n  ".join(broken))


def _tree(path: Path, notes: History, depth: float) -> Iterator[str]:
    """Yield a line for a file and, indented, the lines of its inputs, down to a depth.

    A file that is an input several times is expanded once.
    """
    own_files = originals(notes)
    expanded: set[Path] = set()

    def lines(path: Path, indent: str, level: int) -> Iterator[str]:
        if path in expanded:
            yield f"{indent}{path} (see above)"
            return
        # At the last level that is shown, inputs are not printed, so the file does not count as
        # expanded: if it appears again at a level before, its inputs are printed there.
        if level < depth:
            expanded.add(path)
        note = notes[path]
        if not note:
            yield f"{indent}{path}: {'your own file' if path in own_files else 'no provenance'}"
            return
        yield f"{indent}{path}: {_how_made(note)}"
        inputs = inputs_of(path, note)
        if not inputs:  # the history begins here, so the settings alone decide the file
            yield f"{indent}    settings: {json.dumps(note['settings'])}"
        for source in note["notes"].get("sources", []):
            yield f"{indent}    source: {source}, content {content_of(note)}"
        if level < depth:
            for item in inputs:
                yield from lines(item, f"{indent}    ", level + 1)

    yield from lines(path, "", 0)


def _how_made(note: Mapping[str, Any]) -> str:
    """Words for how a file was made: command, settings, code, time and machine.

    A base policy may be a copy of one that comes with the project, or of an earlier run's.
    """
    command = " ".join(note["command"][:2])
    text = f"{command}, settings {note['settings_hash']}, {_when(note)}"
    copied = note["notes"].get("copied")
    if copied:
        text += f", a copy of {copied['from']}, which was made with {_when(copied)}"
    return text


def _when(note: Mapping[str, Any]) -> str:
    """Words for the code, the time and the machine with which a file was made."""
    commit = note["git_commit"][:_SHOWN_DIGITS] or "unknown"
    if note["git_commit"].endswith(UNCOMMITTED):
        commit += UNCOMMITTED
    return f"commit {commit}, {note['written']} on {note['host']}"
