"""Published results as one archive that others can cite and restore: `rspo bundle`.

    ro-crate-metadata.json      what the archive is, as RO-Crate 1.1 (w3id.org/ro/crate/1.1)
    manifest-sha256.txt         checksums of all other files, as `sha256sum -c` reads them
    config/SCALE.yaml           the configs of the evidence
    docs/evidence/PAGE.parquet  what each page rests on, with the provenance of its files

Restored in another clone, `snakemake docs` makes every page, table and figure from it, without
training. The same files give the same archive, byte for byte.
"""

import json
import re
import zipfile
from hashlib import sha256
from pathlib import Path
from typing import Any

import rspo
from rspo.analysis.evidence import FOLDER, Evidence
from rspo.core.errors import InputError
from rspo.core.files import atomic_write
from rspo.core.provenance import WRITTEN, code_version

METADATA, MANIFEST = "ro-crate-metadata.json", "manifest-sha256.txt"
# What an archive may write: no code, and nothing outside these folders.
ALLOWED = re.compile(r"(config/\w[\w-]*\.yaml|docs/evidence/\w[\w-]*\.parquet)")
CRATE = "https://w3id.org/ro/crate/1.1"
LICENSE = "https://spdx.org/licenses/Apache-2.0"
PAPER = "https://arxiv.org/abs/2508.01174"
SOFTWARE = "#rspo"


def run(file: Path | None, restore: bool, force: bool) -> None:
    """Pack the evidence of this folder, or restore that of an archive into it.

    force: replace an archive, or files that differ from those of the archive.

    Raises: InputError without evidence, for files that would be replaced, and for an archive that
        is damaged, of another version, or has other files than configs and evidence.
    """
    file = file or Path(f"rspo-{rspo.__version__}-results.zip")
    if not restore:
        if file.suffix != ".zip" or (file.exists() and not force):
            raise InputError(f"{file}: expected a new .zip file; --force replaces an old one")
        with atomic_write(file) as partial:
            _pack(partial)
        WRITTEN.append(file)
        return
    files = _checked(file)
    for name, content in files.items():
        path = Path(name)
        if path.exists() and path.read_bytes() != content and not force:
            raise InputError(f"{name} differs from that of {file}; --force replaces it")
    # Equal files are written too: their new times make Snakemake remake the pages.
    for name, content in files.items():
        with atomic_write(Path(name)) as partial:
            partial.write_bytes(content)
    print(f"restored {len(files)} files of {file}; `snakemake docs` makes the pages")


def _pack(file: Path) -> None:
    pages = [Evidence.read(path) for path in sorted(FOLDER.glob("*.parquet"))]
    if not pages:
        raise InputError(f"{FOLDER}: no evidence; `rspo evidence add PAGE` makes it")
    paths = {Path("config", f"{page.scale}.yaml") for page in pages} | {p.path for p in pages}
    files = {path.as_posix(): path.read_bytes() for path in sorted(paths)}
    files[METADATA] = json.dumps(_metadata(pages, [*files, MANIFEST]), indent=1).encode()
    checksums = {name: sha256(content).hexdigest() for name, content in files.items()}
    files[MANIFEST] = "".join(f"{one}  {name}\n" for name, one in checksums.items()).encode()
    with zipfile.ZipFile(file, "w") as archive:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name)  # of 1980
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, files[name])


def _checked(file: Path) -> dict[str, bytes]:
    """The files of an archive; raises InputError for one that may not be restored."""
    try:
        with zipfile.ZipFile(file) as archive:
            names = archive.namelist()
            files = {name: archive.read(name) for name in names}
        lines = files.pop(MANIFEST).decode().splitlines()
        checksums = dict(line.split("  ", 1)[::-1] for line in lines)
        graph = {entity["@id"]: entity for entity in json.loads(files[METADATA])["@graph"]}
        version = graph[SOFTWARE]["version"].split()[0]
    except Exception as error:  # anything may be in a file
        raise InputError(f"{file}: damaged, or no archive of `rspo bundle` ({error})") from None
    if version != rspo.__version__:
        raise InputError(f"{file}: was made by rspo {version}, this is {rspo.__version__}")
    if files.keys() != checksums.keys() or len(names) > len(files) + 1:
        raise InputError(f"{file}: its files are not those of {MANIFEST}")
    for name, content in files.items():
        if checksums[name] != sha256(content).hexdigest():
            raise InputError(f"{file}: the checksum of {name} is not that of {MANIFEST}")
    del files[METADATA]
    for name in files:
        inside = Path(name).resolve().is_relative_to(Path.cwd().resolve())  # no link leads out
        if not ALLOWED.fullmatch(name) or not inside:
            raise InputError(f"{file}: {name!r} is no config and no evidence of this folder")
    return files


def _metadata(pages: list[Evidence], names: list[str]) -> dict[str, Any]:
    """The RO-Crate: the files, how each page's evidence was made, and what to cite."""
    actions = [_action(page) for page in pages]
    kinds = dict.fromkeys(names, "text/plain")
    kinds |= {page.path.as_posix(): "application/vnd.apache.parquet" for page in pages}
    files = [_entity(name, "File", encodingFormat=kind) for name, kind in kinds.items()]
    root = _entity(
        "./",
        "Dataset",
        name="Evidence of a reproduction of RSPO",
        description="Numbers of correct responses, training logs and settings. In a clone of rspo "
        f"{rspo.__version__}, `rspo bundle FILE --restore` and `snakemake docs` make the pages.",
        datePublished=max(action["endTime"] for action in actions)[:10],
        license={"@id": LICENSE},
        author={"@id": "#authors"},
        citation={"@id": PAPER},
        hasPart=[{"@id": name} for name in names],
        mentions=[{"@id": action["@id"]} for action in actions],
    )
    graph = [
        _entity(METADATA, "CreativeWork", about={"@id": "./"}, conformsTo={"@id": CRATE}),
        _entity(SOFTWARE, "SoftwareApplication", name="rspo", version=code_version()),
        _entity("#authors", "Organization", name="The contributors of rspo"),
        _entity(LICENSE, "CreativeWork", name="Apache License 2.0"),
        _entity(PAPER, "ScholarlyArticle", name="RSPO: Risk-Seeking Policy Optimization"),
    ]
    return {"@context": f"{CRATE}/context", "@graph": [*graph, root, *files, *actions]}


def _action(page: Evidence) -> dict[str, Any]:
    """With what, when and from which commits the evidence of a page was made."""
    notes = page.provenance
    commits = sorted({note["git_commit"] for note in notes})
    return _entity(
        f"#{page.path.stem}",
        "CreateAction",
        name=f"Training and evaluation of {len(page.policies)} policies",
        description=f"With {dict(page.overrides)}, by commits {', '.join(commits)}",
        instrument={"@id": SOFTWARE},
        object={"@id": f"config/{page.scale}.yaml"},
        result={"@id": page.path.as_posix()},
        endTime=max(note["written"] for note in notes),
    )


def _entity(name: str, kind: str, /, **properties: Any) -> dict[str, Any]:
    return {"@id": name, "@type": kind, **properties}
