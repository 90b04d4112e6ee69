"""`rspo trace FILE`: follow the provenance of a file back to the data.

Paths in provenance files are relative to the project's folder, so run it there.
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
_SHOWN = 12  # hex digits of a digest or commit that are printed


@dataclass(frozen=True)
class Artifact:
    """A file or folder of a history, with its provenance, which is empty if it has none."""

    path: Path
    provenance: Mapping[str, Any]

    @property
    def inputs(self) -> list[Path]:
        return [Path(name) for name in self.provenance.get("inputs", ())]

    @property
    def step(self) -> str:
        """The command that made it, without arguments, such as "rspo sample"."""
        return " ".join(self.provenance["command"][:2])

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


def read_provenance(path: Path) -> dict[str, Any] | None:
    """The provenance of a file or folder; None if it has none.

    Raises: InputError if it is damaged or of another version.
    """
    file = provenance_path(path)
    try:
        provenance = json.loads(file.read_text())
    except FileNotFoundError:
        return None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{file}: not a provenance file ({error})") from None
    missing = [key for key in _KEYS if not isinstance(provenance, dict) or key not in provenance]
    if missing or not isinstance(provenance["inputs"], dict):
        lacks = f"lacks {', '.join(missing)}" if missing else "has inputs without digests"
        raise InputError(f"{file}: {lacks}; recreate {path}")
    return provenance


def history(paths: list[Path]) -> dict[Path, Artifact]:
    """The files and everything that they were made from, each once, breadth first.

    Raises: InputError for a damaged provenance file.
    """
    artifacts: dict[Path, Artifact] = {}
    waiting = list(paths)
    while waiting:
        path = waiting.pop(0)
        if path not in artifacts:
            artifacts[path] = Artifact(path, read_provenance(path) or {})
            waiting += artifacts[path].inputs
    return artifacts


def faults(artifacts: Mapping[Path, Artifact], contents: bool = True) -> list[str]:
    """Gaps and contradictions in a history, one sentence each.

    Args:
        contents: also read every file and compare it with its recorded digest; at the paper's scale
            that is hundreds of gigabytes.
    """
    return [
        fault
        for artifact in artifacts.values()
        for fault in (*_own(artifact, contents), *_links(artifacts, artifact))
    ]


def _own(artifact: Artifact, contents: bool) -> Iterator[str]:
    if not artifact.path.exists():
        yield f"{artifact.path}: no longer exists"
    elif not artifact.provenance:
        yield f"{artifact.path}: has no provenance"
    elif contents and digest(artifact.path) != artifact.provenance["digest"]:
        yield f"{artifact.path}: was changed after its provenance was written"


def _links(artifacts: Mapping[Path, Artifact], artifact: Artifact) -> Iterator[str]:
    for name, then in artifact.provenance.get("inputs", {}).items():
        now = artifacts[Path(name)].provenance.get("digest", then)
        if now != then:
            yield (
                f"{artifact.path}: was made from another version of {name} ({then[:_SHOWN]}, now "
                f"{now[:_SHOWN]}); recreate it"
            )


def sources(artifacts: Mapping[Path, Artifact]) -> dict[str, list[Path]]:
    """Each data revision of a history, with the files made from it directly."""
    result: dict[str, list[Path]] = {}
    for artifact in artifacts.values():
        for source in artifact.sources:
            result.setdefault(source, []).append(artifact.path)
    return result


def trace(path: Path) -> Iterator[str]:
    """The history of a file as lines of a tree, with data and settings at its leaves.

    Raises: InputError for a file that does not exist or has no provenance; after the last line,
        for a history with gaps or contradictions.
    """
    if not path.exists():
        raise InputError(f"{path}: no such file or folder")
    artifacts = history([path])
    if not artifacts[path].provenance:
        raise InputError(f"{path}: has no provenance ({provenance_path(path)} is missing)")
    yield from _tree(artifacts, path, "", "", set())
    yield ""
    for source, holders in sources(artifacts).items():
        yield f"data: {source} in {', '.join(str(holder) for holder in holders)}"
    broken = faults(artifacts)
    if broken:
        raise InputError("the history is broken:\n  " + "\n  ".join(broken))


def _tree(
    artifacts: Mapping[Path, Artifact], path: Path, first: str, rest: str, seen: set[Path]
) -> Iterator[str]:
    """Lines of a file and of its inputs; each file is expanded once.

    Args:
        first, rest: prefixes of the first line and of the others.
    """
    artifact = artifacts[path]
    if path in seen:
        yield f"{first}{path} (see above)"
        return
    seen.add(path)
    yield f"{first}{path}{_origin(artifact)}"
    if artifact.provenance and not artifact.inputs:
        yield f"{rest}    settings: {json.dumps(artifact.provenance['settings'])}"
    for source in artifact.sources:
        yield f"{rest}    source: {source}, content {artifact.content}"
    for number, item in enumerate(artifact.inputs, start=1):
        last = number == len(artifact.inputs)
        yield from _tree(
            artifacts,
            item,
            rest + ("└── " if last else "├── "),
            rest + ("    " if last else "│   "),
            seen,
        )


def _origin(artifact: Artifact) -> str:
    if not artifact.provenance:
        return ": no provenance"
    provenance = artifact.provenance
    commit = provenance["git_commit"][:_SHOWN] or "unknown"
    if provenance["git_commit"].endswith(UNCOMMITTED):
        commit += UNCOMMITTED
    return (
        f": {artifact.step}, settings {provenance['settings_hash']}, commit {commit}, "
        f"{provenance['written']} on {provenance['host']}"
    )
