"""What the provenance of a file says of the file, its inputs, and the machine that made it."""

import json
import subprocess
import sys
import time
from dataclasses import asdict
from importlib import metadata
from pathlib import Path

import pytest

import rspo
from rspo.core.files import digest, fingerprint
from rspo.core.slurm_job import Job
from rspo.pipeline import provenance, usage
from rspo.pipeline.provenance import (
    code_version,
    inputs_of,
    provenance_path,
    read_provenance,
    size_of,
    sizes_in,
    was_made_again,
    write_provenance,
)
from rspo.pipeline.task import Done

TWO_PROCESSORS = """processor	: 0
vendor_id	: AuthenticAMD
cpu family	: 26
model		: 2
model name	: AMD EPYC
stepping	: 1
flags		: fpu sse2 avx512f
bogomips	: 5192.19

processor	: 1
cpu family	: 25
flags		: fpu
"""


@pytest.fixture(autouse=True)
def _read_again() -> None:
    provenance._cpu_information.cache_clear()
    provenance._processor.cache_clear()


@pytest.fixture
def _two_processors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cpuinfo").write_text(TWO_PROCESSORS)
    monkeypatch.setattr(provenance, "CPU_INFORMATION", tmp_path / "cpuinfo")


@pytest.mark.usefixtures("_two_processors")
def test_processors_of_one_name_are_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ATEN_CPU_CAPABILITY", raising=False)
    file = tmp_path / "result.csv"
    file.write_text("1\n")
    write_provenance(file, {}, {}, Done())
    note = json.loads(provenance_path(file).read_text())
    assert note["processor"] == "AMD EPYC"
    assert note["cpu"] == {
        "vendor": "AuthenticAMD",
        "family": "26",
        "model": "2",
        "stepping": "1",
        "flags": "fpu sse2 avx512f",
    }


def test_a_system_that_says_nothing_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provenance, "CPU_INFORMATION", tmp_path / "missing")
    assert provenance._cpu() == {}
    assert provenance._processor()


def test_the_provenance_of_this_machine_has_its_family_model_and_flags() -> None:
    cpu = provenance._cpu()
    assert cpu["family"].isdigit()
    assert cpu["model"].isdigit()
    assert "sse2" in cpu["flags"].split()


def test_the_provenance_of_a_file_tells_how_it_was_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["/bin/rspo", "prepare", "train"])
    monkeypatch.setenv("SLURMD_NODENAME", "node7")
    job = Job("12", "node[7-8]", "gpu:8", 8)
    monkeypatch.setattr(provenance, "this_job", lambda: job)
    monkeypatch.setattr(usage, "_STARTED", time.time() - 1)  # seconds are rounded to hundredths
    file = tmp_path / "result.csv"
    file.write_text("1\n")
    source = tmp_path / "source.csv"
    own = tmp_path / "own.csv"
    settings = {"steps": 3}
    write_provenance(file, settings, {source: "0" * 64}, Done(originals={own: "1" * 64}))
    text = provenance_path(file).read_text()
    assert text.endswith("\n}\n")
    note = json.loads(text)
    assert provenance_path(file) == tmp_path / "result.csv.provenance.json"
    assert note["file"] == str(file)
    assert note["digest"] == digest(file)
    assert note["bytes"] == 2
    assert "files" not in note
    assert note["command"] == ["rspo", "prepare", "train"]
    assert note["settings"] == settings
    assert note["settings_hash"] == fingerprint(settings)
    assert note["inputs"] == {str(source): "0" * 64, str(own): "1" * 64}
    assert note["originals"] == [str(own)]
    assert note["rspo"] == rspo.__version__
    assert note["python"] == ".".join(map(str, sys.version_info[:3]))
    assert note["packages"]["torch"] == metadata.version("torch")
    assert set(note["packages"]) <= set(provenance._PACKAGES)
    assert note["host"] == "node7"
    assert note["slurm"] == asdict(job)
    assert note["written"].endswith("Z")
    assert note["notes"] == {}
    (process,) = note["processes"]
    for name in ("wall_seconds", "cpu_seconds"):
        assert note[name] == process[name] > 0
    assert read_provenance(file) == note


def test_the_provenance_of_a_folder_has_the_size_of_each_file(tmp_path: Path) -> None:
    folder = tmp_path / "policy"
    (folder / "part").mkdir(parents=True)
    (folder / "weights").write_text("123")
    (folder / "part" / "config").write_text("4")
    (folder / ".hidden").write_text("56")
    sizes = {"part/config": 1, "weights": 3}
    assert sizes_in(folder) == sizes
    assert size_of(folder) == 4
    assert size_of(folder / "weights") == 3
    write_provenance(folder, {}, {}, Done())
    note = read_provenance(folder)
    assert (note["bytes"], note["files"], note["slurm"]) == (4, sizes, None)


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "[]",
        "{}",
        '{"file": "a", "settings": {}, "digest": "0", "bytes": 1}',
        '{"file": "a", "settings": {}, "digest": "0", "bytes": 1, "inputs": []}',
    ],
)
def test_damaged_provenance_counts_as_none(tmp_path: Path, text: str | None) -> None:
    file = tmp_path / "result.csv"
    if text is not None:
        provenance_path(file).write_text(text)
    assert read_provenance(file) == {}
    assert inputs_of(file, {}) == {}
    assert not was_made_again(file, "0")


def test_an_input_was_made_again_if_its_digest_is_another(tmp_path: Path) -> None:
    """Its provenance tells, although the file itself is gone."""
    file = tmp_path / "result.csv"
    file.write_text("1\n")
    then = digest(file)
    write_provenance(file, {}, {}, Done())
    assert not was_made_again(file, then)
    file.unlink()
    assert not was_made_again(file, then)
    assert was_made_again(file, "0" * 64)


def test_inputs_move_with_a_result_and_originals_stay(tmp_path: Path) -> None:
    note = {
        "file": "results/tiny/tables/cost.csv",
        "inputs": {"results/tiny/cells/a": "1", "/data/own.csv": "2", "own.txt": "3"},
        "originals": ["/data/own.csv", "own.txt"],
    }
    moved = tmp_path / "trial" / "tables" / "cost.csv"
    assert inputs_of(moved, note) == {
        tmp_path / "trial" / "cells" / "a": "1",
        Path("/data/own.csv"): "2",
        Path("own.txt"): "3",
    }
    del note["originals"]  # as earlier versions of this package wrote it
    assert inputs_of(Path("results/tiny/tables/cost.csv"), note)[Path("own.txt")] == "3"


@pytest.mark.parametrize(
    ("answer", "begin"),
    [
        ("a" * 40, f"{rspo.__version__} {'a' * 40}"),
        ("a" * 40 + "+changes", f"{rspo.__version__} {'a' * 40}+changes "),
        ("", f"{rspo.__version__} "),
    ],
)
def test_code_that_is_not_committed_has_a_digest(
    monkeypatch: pytest.MonkeyPatch, answer: str, begin: str
) -> None:
    def git(command: list[str], **_: object) -> "subprocess.CompletedProcess[str]":
        assert command[0] == "git"
        return subprocess.CompletedProcess(command, 0, stdout=f"{answer}\n")

    monkeypatch.setattr(subprocess, "run", git)
    provenance._git_commit.cache_clear()
    code_version.cache_clear()
    try:
        version = code_version()
    finally:
        provenance._git_commit.cache_clear()
        code_version.cache_clear()
    digest_of_code = version.removeprefix(begin)
    assert len(digest_of_code) == (0 if answer == "a" * 40 else 12)
    assert version.startswith(begin)


def test_without_git_the_commit_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    provenance._git_commit.cache_clear()
    try:
        assert provenance._git_commit() == ""
    finally:
        provenance._git_commit.cache_clear()


@pytest.mark.usefixtures("_two_processors")
def test_the_instructions_that_pytorch_was_told_to_use_are_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ATEN_CPU_CAPABILITY", "avx2")
    assert provenance._processor() == "AMD EPYC (avx2)"
