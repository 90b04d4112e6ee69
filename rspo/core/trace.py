"""`rspo trace FILE`: follow the provenance of a file back to the data.

Paths in provenance files are relative to the project's folder, so run it there.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text
from rich.tree import Tree

from rspo.core.errors import InputError
from rspo.core.files import digest
from rspo.core.provenance import UNCOMMITTED, inputs_of, provenance_path, read_provenance

_SHOWN = 12  # hex digits of a digest or commit that are printed
_WIDTH = 100_000  # columns, so that no line is wrapped


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
    def step(self) -> str:
        """The command that made it, without arguments, such as "rspo sample"."""
        return " ".join(self.provenance["command"][:2])

    @property
    def sources(self) -> list[str]:
        """Revisions of the hub data sets or generators that it was made from directly."""
        result: list[str] = self.provenance.get("notes", {}).get("sources", [])
        return result

    @property
    def originals(self) -> dict[Path, str]:
        """The inputs that a user made, with their digests; they need no provenance."""
        named = map(Path, self.provenance.get("originals", ()))
        return {path: self.inputs[path] for path in named}

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
            now = _digest_now(artifacts[name], then, contents)
            if now != then:
                versions = f"{then[:_SHOWN]}, now {now[:_SHOWN]}"
                result.append(
                    f"{path}: was made from another version of {name} ({versions}); recreate it"
                )
    return result


def _digest_now(artifact: Artifact, then: str, contents: bool) -> str:
    """Digest of an input: that of its provenance, or of its content if it has none."""
    if not artifact.provenance and contents and artifact.path.exists():
        return digest(artifact.path)
    result: str = artifact.provenance.get("digest", then)
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
    return {path: then for one in artifacts.values() for path, then in one.originals.items()}


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
    console = Console(width=_WIDTH, highlight=False, color_system=None)
    with console.capture() as capture:
        console.print(_tree(artifacts, path, originals(artifacts), set()))
    yield from capture.get().splitlines()
    yield ""
    for source, holders in sources(artifacts).items():
        yield f"data: {source} in {', '.join(str(holder) for holder in holders)}"
    for file, then in originals(artifacts).items():
        yield f"data: {file}, content {then}"
    if broken := faults(artifacts):
        raise InputError("the history is broken:\n  " + "\n  ".join(broken))


def _tree(
    artifacts: Mapping[Path, Artifact], path: Path, own: Mapping[Path, str], seen: set[Path]
) -> Tree:
    """A file and its inputs; each file is expanded once."""
    artifact = artifacts[path]
    if path in seen:
        return Tree(Text(f"{path} (see above)"))
    seen.add(path)
    original = path in own and not artifact.provenance
    lines = [f"{path}: your own file" if original else f"{path}{_origin(artifact)}"]
    if artifact.provenance and not artifact.inputs:
        lines.append(f"    settings: {json.dumps(artifact.provenance['settings'])}")
    lines += [f"    source: {source}, content {artifact.content}" for source in artifact.sources]
    tree = Tree(Text("\n".join(lines)))
    tree.children = [_tree(artifacts, item, own, seen) for item in artifact.inputs]
    return tree


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
