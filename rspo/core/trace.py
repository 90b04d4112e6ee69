"""`rspo trace`: from any file back to the data it comes from, by the notes beside the files.

rspo trace reports/fig_main.pdf

Paths in the notes are relative to the folder that has config/, so that is where to run it.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rspo.core.errors import InputError
from rspo.core.files import digest
from rspo.core.provenance import UNCOMMITTED, provenance_path

_KEYS = (
    *("digest", "command", "settings", "settings_hash", "inputs"),
    *("git_commit", "written", "host", "packages", "notes"),
)
_SHOWN = 12  # hex digits of a digest or commit; the notes have all


@dataclass(frozen=True)
class Made:
    """One file or folder of a history.

    note: who made it; empty where nobody says.
    """

    path: Path
    note: Mapping[str, Any]

    @property
    def inputs(self) -> list[Path]:
        return [Path(name) for name in self.note.get("inputs", ())]

    @property
    def step(self) -> str:
        """Which command made it, without its arguments: "rspo sample"."""
        return " ".join(self.note["command"][:2])

    @property
    def sources(self) -> list[str]:
        """Revisions of data that it was made from directly: of hub data sets, or generators."""
        found: list[str] = self.note.get("notes", {}).get("sources", [])
        return found

    @property
    def content(self) -> str:
        """What its data say: of a hub data set, the SHA-256 that the config knows it by."""
        found: str = self.note["notes"].get("content_sha256") or self.note["digest"]
        return found


def read_note(path: Path) -> dict[str, Any] | None:
    """The provenance note beside a file or folder; None if there is none.

    Raises: InputError for a note that is damaged or of another version.
    """
    place = provenance_path(path)
    try:
        note = json.loads(place.read_text())
    except FileNotFoundError:
        return None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{place}: not a provenance note ({error})") from None
    missing = [key for key in _KEYS if not isinstance(note, dict) or key not in note]
    if missing or not isinstance(note["inputs"], dict):
        lacks = f"lacks {', '.join(missing)}" if missing else "has inputs without their digests"
        raise InputError(f"{place}: {lacks}; remake {path}")
    return note


def history(paths: list[Path]) -> dict[Path, Made]:
    """The files, and all that they were made from, each once, what was made last in front.

    Raises: InputError for a damaged note.
    """
    found: dict[Path, Made] = {}
    waiting = list(paths)
    while waiting:
        path = waiting.pop(0)
        if path not in found:
            found[path] = Made(path, read_note(path) or {})
            waiting += found[path].inputs
    return found


def faults(found: Mapping[Path, Made], contents: bool = True) -> list[str]:
    """Where a history breaks off or contradicts itself, a sentence each; none in a sound one.

    Args:
        contents: also read every file and hold it against its note; at the paper's scale those
            are hundreds of gigabytes of weights.
    """
    return [
        fault for made in found.values() for fault in (*_own(made, contents), *_links(found, made))
    ]


def _own(made: Made, contents: bool) -> Iterator[str]:
    if not made.path.exists():
        yield f"{made.path}: is no longer there"
    elif not made.note:
        yield f"{made.path}: has no provenance note; nothing says who made it"
    elif contents and digest(made.path) != made.note["digest"]:
        yield f"{made.path}: was changed after its provenance note was written"


def _links(found: Mapping[Path, Made], made: Made) -> Iterator[str]:
    for name, then in made.note.get("inputs", {}).items():
        now = found[Path(name)].note.get("digest", then)
        if now != then:
            yield (
                f"{made.path}: was made from another {name} ({then[:_SHOWN]} then, "
                f"{now[:_SHOWN]} now); remake it"
            )


def sources(found: Mapping[Path, Made]) -> dict[str, list[Path]]:
    """Each revision of data of a history, with the files that hold its problems."""
    result: dict[str, list[Path]] = {}
    for made in found.values():
        for source in made.sources:
            result.setdefault(source, []).append(made.path)
    return result


def trace(path: Path) -> Iterator[str]:
    """The history of a file as lines of a tree; at its leaves stand data and settings.

    Raises: InputError for a file that is not there or has no note, and, after the last line, for a
        history that breaks off or contradicts itself.
    """
    if not path.exists():
        raise InputError(f"{path}: no such file or folder")
    found = history([path])
    if not found[path].note:
        raise InputError(f"{path}: has no provenance note ({provenance_path(path)} is missing)")
    yield from _tree(found, path, "", "", set())
    yield ""
    for source, holders in sources(found).items():
        yield f"data: {source} in {', '.join(str(holder) for holder in holders)}"
    broken = faults(found)
    if broken:
        raise InputError("the history is broken:\n  " + "\n  ".join(broken))


def _tree(
    found: Mapping[Path, Made], path: Path, first: str, rest: str, seen: set[Path]
) -> Iterator[str]:
    """Lines of a file and of its inputs, which are told only where they come for the first time.

    Args:
        first, rest: what stands in front of the first line, and of the others.
    """
    made = found[path]
    if path in seen:
        yield f"{first}{path} (see above)"
        return
    seen.add(path)
    yield f"{first}{path}{_maker(made)}"
    if made.note and not made.inputs:
        yield f"{rest}    settings: {json.dumps(made.note['settings'])}"
    for source in made.sources:
        yield f"{rest}    source: {source}, content {made.content}"
    for number, item in enumerate(made.inputs, start=1):
        last = number == len(made.inputs)
        yield from _tree(
            found,
            item,
            rest + ("└── " if last else "├── "),
            rest + ("    " if last else "│   "),
            seen,
        )


def _maker(made: Made) -> str:
    if not made.note:
        return ": no provenance note"
    note = made.note
    commit = note["git_commit"][:_SHOWN] or "unknown"
    if note["git_commit"].endswith(UNCOMMITTED):
        commit += UNCOMMITTED
    return (
        f": {made.step}, settings {note['settings_hash']}, commit {commit}, "
        f"{note['written']} on {note['host']}"
    )
