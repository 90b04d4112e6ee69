"""`rspo bundle`: the same archive each time, restored whole or refused in one line."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
import venv
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from rspo.cli import main
from tests.support import ROOT

Capture = pytest.CaptureFixture[str]
Contents = dict[str, bytes]
FILE = Path("results.zip")
METADATA, MANIFEST = "ro-crate-metadata.json", "manifest-sha256.txt"
CONFIG, EVIDENCE = "config/tiny.yaml", "docs/evidence/annealing.parquet"
PACKED = [CONFIG, EVIDENCE, MANIFEST, METADATA]


@pytest.fixture
def packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An archive of one page's evidence, in the current folder, which has nothing else."""
    source, here = tmp_path / "source", tmp_path / "here"
    for name in (CONFIG, EVIDENCE):
        (source / name).parent.mkdir(parents=True)
        shutil.copy(ROOT / name, source / name)
    here.mkdir()
    monkeypatch.chdir(source)
    assert main(["bundle", str(here / FILE)]) == 0
    monkeypatch.chdir(here)
    return here / FILE


def read(file: Path) -> Contents:
    with zipfile.ZipFile(file) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write(file: Path, contents: Contents, manifest: bool = True) -> None:
    """An archive, with a manifest that fits."""
    if manifest:
        sums = {n: hashlib.sha256(c).hexdigest() for n, c in contents.items() if n != MANIFEST}
        contents |= {MANIFEST: "".join(f"{s}  {n}\n" for n, s in sums.items()).encode()}
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in contents.items():
            archive.writestr(name, content)


def test_the_same_files_give_the_same_archive(packed: Path, tmp_path: Path) -> None:
    assert sorted(read(packed)) == PACKED
    with zipfile.ZipFile(packed) as archive:
        entries = archive.infolist()
    assert [entry.filename for entry in entries] == PACKED
    assert {entry.date_time for entry in entries} == {(1980, 1, 1, 0, 0, 0)}
    os.chdir(tmp_path / "source")
    os.utime(CONFIG, (0, 0))
    assert main(["bundle", "again.zip"]) == 0
    assert Path("again.zip").read_bytes() == packed.read_bytes()


def test_the_manifest_is_that_of_sha256sum_and_the_crate_names_every_file(packed: Path) -> None:
    with zipfile.ZipFile(packed) as archive:
        archive.extractall()
    done = subprocess.run(["sha256sum", "-c", MANIFEST], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(": OK") == 3
    graph = {entity["@id"]: entity for entity in json.loads(Path(METADATA).read_text())["@graph"]}
    parts = [part["@id"] for part in graph["./"]["hasPart"]]
    assert sorted(parts) == [CONFIG, EVIDENCE, MANIFEST]
    assert graph["#annealing"]["result"] == {"@id": EVIDENCE}
    assert graph["./"]["datePublished"] == graph["#annealing"]["endTime"][:10]


def test_restored_files_are_the_packed_ones(packed: Path, capsys: Capture) -> None:
    assert main(["bundle", str(packed), "--restore"]) == 0
    for name in (CONFIG, EVIDENCE):
        assert Path(name).read_bytes() == (ROOT / name).read_bytes()
    assert "restored 2 files" in capsys.readouterr().out
    os.utime(EVIDENCE, (0, 0))
    assert main(["bundle", str(packed), "--restore"]) == 0  # equal files are no conflict
    assert Path(EVIDENCE).stat().st_mtime > 0  # Snakemake makes the page
    Path(CONFIG).write_text("seeds: 7\n")
    assert main(["bundle", str(packed), "--restore"]) == 2
    assert f"{CONFIG} differs from that of {packed}; --force" in capsys.readouterr().err
    assert Path(CONFIG).read_text() == "seeds: 7\n"
    assert main(["bundle", str(packed), "--restore", "--force"]) == 0
    assert Path(CONFIG).read_bytes() == (ROOT / CONFIG).read_bytes()


def other_content(contents: Contents) -> Contents:
    return contents | {CONFIG: contents[CONFIG] + b"\n"}


def other_version(contents: Contents) -> Contents:
    crate = json.loads(contents[METADATA])
    next(e for e in crate["@graph"] if e["@id"] == "#rspo")["version"] = "0.1.0 abc"
    return contents | {METADATA: json.dumps(crate).encode()}


def without(name: str) -> Callable[[Contents], Contents]:
    return lambda contents: {n: c for n, c in contents.items() if n != name}


def with_file(name: str) -> Callable[[Contents], Contents]:
    return lambda contents: contents | {name: b"x"}


@pytest.mark.parametrize(
    ("change", "fits", "message"),
    [
        (other_content, False, f"the checksum of {CONFIG} is not that of {MANIFEST}"),
        (without(EVIDENCE), False, f"its files are not those of {MANIFEST}"),
        (with_file("config/more.yaml"), False, f"its files are not those of {MANIFEST}"),
        (other_version, True, "was made by rspo 0.1.0, this is "),
        (with_file("../outside.yaml"), True, "'../outside.yaml' is no config and no evidence"),
        (with_file("/tmp/outside.yaml"), True, "'/tmp/outside.yaml' is no config"),
        (with_file("config/own.py"), True, "'config/own.py' is no config and no evidence"),
        (without(METADATA), True, "damaged, or no archive of `rspo bundle`"),
        (without(MANIFEST), False, "damaged, or no archive of `rspo bundle`"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line_and_writes_nothing(
    packed: Path,
    capsys: Capture,
    change: Callable[[Contents], Contents],
    fits: bool,
    message: str,
) -> None:
    write(FILE, change(read(packed)), manifest=fits)
    before = sorted(packed.parent.parent.rglob("*"))
    assert main(["bundle", str(FILE), "--restore", "--force"]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert sorted(packed.parent.parent.rglob("*")) == before


def test_a_link_that_leaves_the_folder_is_refused(packed: Path, capsys: Capture) -> None:
    outside = packed.parent.parent / "outside"
    outside.mkdir()
    Path("config").symlink_to(outside)
    assert main(["bundle", str(packed), "--restore"]) == 2
    assert f"{CONFIG!r} is no config and no evidence of this folder" in capsys.readouterr().err
    assert not list(outside.iterdir())


def test_no_archive_and_no_evidence_are_errors_of_one_line(packed: Path, capsys: Capture) -> None:
    Path("text.zip").write_text("text")
    broken = packed.read_bytes().replace(b"seeds", b"sedes", 1)
    Path("broken.zip").write_bytes(broken)
    for words, message in (
        (["text.zip", "--restore"], "no archive of `rspo bundle`"),
        (["broken.zip", "--restore"], "damaged"),
        (["none.zip", "--restore"], "No such file"),
        (["new.zip"], "docs/evidence: no evidence; `rspo evidence add PAGE` makes it"),
        ([str(packed)], "expected a new .zip file; --force replaces an old one"),
        (["config/tiny.yaml", "--force"], "config/tiny.yaml: expected a new .zip file"),
    ):
        assert main(["bundle", *words]) == 2
        error = capsys.readouterr().err
        assert message in error
        assert error.count("\n") == 1
    assert not Path("new.zip").exists()


# --- Others' programs, and every page ----------------------------------------------------------

# The validator reads the context of RO-Crate from the web; the package rocrate has a copy.
VALIDATE = """
import sysconfig
from pathlib import Path

import requests
from rocrate_validator.cli.main import cli

context = Path(sysconfig.get_path("purelib"), "rocrate/data/ro-crate.jsonld").read_bytes()


def send(adapter, request, **_):
    assert request.url == "https://w3id.org/ro/crate/1.1/context"
    response = requests.Response()
    response.status_code, response._content, response.url = 200, context, request.url
    response.headers["Content-Type"] = "application/ld+json"
    response.request = request
    return response


requests.adapters.HTTPAdapter.send = send
cli()
"""


@pytest.mark.long
def test_the_archive_is_a_valid_ro_crate(packed: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv" / "bin" / "python"
    for words in (["roc-validator==0.13.0"], ["--no-deps", "rocrate==0.14.0"]):
        subprocess.run([python, "-m", "pip", "install", "--quiet", *words], check=True)
    options = ["-y", "validate", "--no-paging", "--no-cache", "--profile-identifier"]
    command = [python, "-c", VALIDATE, *options, "ro-crate-1.1"]
    done = subprocess.run([*command, packed], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "is a valid ro-crate-1.1" in done.stdout
    write(FILE, read(packed) | {METADATA: b'{"@context": [], "@graph": []}'})
    done = subprocess.run([*command, FILE], capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout


@pytest.mark.long
def test_every_table_and_figure_of_a_clean_clone_is_made_from_the_archive(tmp_path: Path) -> None:
    """The page says with which code it was made, so it may differ; tables and figures may not."""
    clone, archive = tmp_path / "clone", tmp_path / "results.zip"
    environment = os.environ | {"PYTHONPATH": str(clone)}

    def run(*words: str, cwd: Path = clone) -> None:
        done = subprocess.run(
            [sys.executable, "-m", *words], cwd=cwd, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr[-3000:]

    subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
    run("rspo", "bundle", str(archive), cwd=clone)
    pages = {path.stem for path in (clone / "docs/evidence").glob("*.parquet")}
    made = [clone / "docs/results.md", *(clone / "docs/results").iterdir()]
    made += [p for p in (clone / "docs/studies").iterdir() if p.stem.split("_methods")[0] in pages]
    for path in (*made, *(clone / "docs/evidence").iterdir(), clone / CONFIG):
        path.unlink()
    start = time.monotonic()
    run("rspo", "bundle", str(archive), "--restore")
    run("snakemake", "docs", "--cores", "2")
    print(f"restored and drawn in {time.monotonic() - start:.0f} seconds")
    changed = subprocess.run(
        ["git", "diff", "--name-only"], cwd=clone, capture_output=True, text=True, check=True
    ).stdout.split()
    assert [path for path in changed if not path.endswith(".md")] == []
    assert all(path.exists() for path in made)
