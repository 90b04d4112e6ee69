"""What a node must have: each lack is named with what to do (rspo/slurm/prerequisites.py)."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rspo.cli import main
from rspo.config.experiment import Experiment
from rspo.slurm import prerequisites
from rspo.slurm.node_checks import needs_of
from rspo.slurm.prerequisites import Needs, Prerequisite
from tests.support import ROOT, paper_scale
from tests.support.judge_server import Handler, serving

OPEN = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {}  Release Build  (dvs-builder)"
CLOSED = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  {}  Sun May 12 03:11:09 UTC 2024"


@pytest.fixture
def driver_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "version"
    monkeypatch.setattr(prerequisites, "_DRIVER", file)
    return file


@pytest.mark.parametrize(
    ("text", "found", "fault"),
    [
        (OPEN.format("580.65.06"), "580.65.06", ""),
        (CLOSED.format("590.1.02"), "590.1.02", ""),
        (CLOSED.format("535.183.01"), "535.183.01", "CUDA 13 needs 580 or newer: "),
        (OPEN.format("579.99"), "579.99", "CUDA 13 needs 580 or newer: "),
        ("NVRM version: none", "NVRM version: none", "names no version"),
        (None, "none", "choose a partition whose nodes have NVIDIA's driver"),
    ],
)
def test_the_driver_must_be_of_cuda_13(
    driver_file: Path, text: str | None, found: str, fault: str
) -> None:
    if text is not None:
        driver_file.write_text(f"{text}\nGCC version:  gcc version 12.2.0\n")
    result = prerequisites.driver()
    assert result.found == found
    assert fault in result.fault
    assert bool(fault) == bool(result.fault)


@pytest.mark.parametrize(("cuda", "accepted"), [(13000, True), (13010, True), (12080, False)])
def test_an_older_driver_does_with_the_library_of_cuda_compat(
    driver_file: Path, tmp_path: Path, cuda: int, accepted: bool
) -> None:
    """The library is looked up as programs do, by LD_LIBRARY_PATH at the start of the process."""
    driver_file.write_text(CLOSED.format("550.54.15"))
    source = tmp_path / "cuda.c"
    source.write_text(f"int cuDriverGetVersion(int *version) {{ *version = {cuda}; return 0; }}\n")
    library = tmp_path / "libcuda.so.1"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source], check=True)
    program = f"""from pathlib import Path
from rspo.slurm import prerequisites
prerequisites._DRIVER = Path({str(driver_file)!r})
print(prerequisites.driver())"""
    environment = os.environ | {"LD_LIBRARY_PATH": str(tmp_path), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert ("CUDA 13 needs 580" not in done.stdout) == accepted
    assert (f"550.54.15, with CUDA 13.{cuda % 1000 // 10} of" in done.stdout) == accepted


@pytest.mark.parametrize(
    ("compiler", "script", "fault"),
    [
        ("gcc", "grep -q '#include <stdlib.h>'", ""),
        ("clang", "true", ""),
        ("mycc", "true", ""),
        ("gcc", "echo 'stdlib.h: No such file' >&2; exit 1", r"(stdlib.h: No such file): load"),
        ("", "", "Triton finds neither CC, gcc nor clang: load one in the precommand"),
    ],
)
def test_a_c_compiler_must_compile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compiler: str, script: str, fault: str
) -> None:
    monkeypatch.delenv("CC", raising=False)
    for program in ("sh", "grep"):
        (tmp_path / program).symlink_to(f"/bin/{program}")
    monkeypatch.setenv("PATH", str(tmp_path))
    if compiler:
        (tmp_path / compiler).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / compiler).chmod(0o755)
    if compiler == "mycc":
        monkeypatch.setenv("CC", str(tmp_path / compiler))
    result = prerequisites.compiler()
    assert result.found == (str(tmp_path / compiler) if compiler else "none")
    assert fault in result.fault
    assert bool(fault) == bool(result.fault)


def test_the_headers_of_this_python_must_exist(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sysconfig.get_paths", lambda: {"include": str(tmp_path)})
    assert f"{tmp_path}/Python.h does not exist on the node" in prerequisites.headers().fault
    (tmp_path / "Python.h").touch()
    assert prerequisites.headers() == Prerequisite("Python.h", f"{tmp_path}/Python.h")


@pytest.mark.parametrize(
    ("function", "folder", "cells", "least"),
    [
        ("temporary_space", "/tmp", 1, 5e9),
        ("shared_memory", "/dev/shm", 1, 4e9),
        ("temporary_space", "/tmp", 2, 10e9),
        ("shared_memory", "/dev/shm", 2, 8e9),
    ],
)
def test_space_below_the_least_of_all_cells_of_a_node_is_a_fault(
    monkeypatch: pytest.MonkeyPatch, function: str, folder: str, cells: int, least: float
) -> None:
    def result() -> Prerequisite:
        found = getattr(prerequisites, function)(cells)
        return found if isinstance(found, Prerequisite) else next(found)

    free = {folder: least}
    monkeypatch.setattr("tempfile.gettempdir", lambda: "/tmp")
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=free[path]))
    assert result() == Prerequisite(f"space in {folder}", f"{least / 1e9:.1f} GB free")
    free[folder] = least - 1
    assert f"need {least / 1e9:g} GB: " in result().fault


def test_another_folder_for_temporary_files_has_the_caches_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ray's folder stays in /tmp."""
    free = {"/tmp": 3e9, "/own": 2e9}
    monkeypatch.setattr("tempfile.gettempdir", lambda: "/own")
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=free[path]))
    assert [one.fault for one in prerequisites.temporary_space(1)] == ["", ""]
    free |= {"/tmp": 3e9 - 1}
    of_ray, of_caches = prerequisites.temporary_space(1)
    assert "need 3 GB: delete old files there, or ask for nodes with more" in of_ray.fault
    assert of_caches.fault == ""
    free |= {"/tmp": 3e9, "/own": 2e9 - 1}
    of_ray, of_caches = prerequisites.temporary_space(1)
    assert of_ray.fault == ""
    assert "need 2 GB: delete old files there, or set TMPDIR" in of_caches.fault


@pytest.mark.parametrize(
    ("folder", "fault"),
    [
        ("/scratch/me", "it is on lustre, which nodes share"),
        ("/home/me/tmp", "it is on nfs4, which nodes share"),
        ("/home/me/local/tmp", ""),
        ("/own", ""),
    ],
)
def test_the_folder_for_temporary_files_is_on_a_disk_of_the_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str, fault: str
) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(
        "/dev/sda1 / ext4 rw 0 0\nserver:/home /home nfs4 rw 0 0\n"
        "10.0.0.1@o2ib:/lustre /scratch lustre rw 0 0\n/dev/sdb1 /home/me/local xfs rw 0 0\n"
    )
    monkeypatch.setattr(prerequisites, "_MOUNTS", mounts)
    monkeypatch.setattr("tempfile.gettempdir", lambda: folder)
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=1e12))
    of_ray, of_caches = prerequisites.temporary_space(1)
    assert of_ray.fault == ""
    assert of_caches.fault.startswith(fault)
    assert bool(of_caches.fault) == bool(fault)


def test_imports_from_a_slow_disk_are_to_be_checked_again(
    packages: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (packages / "slow_package.py").write_text("import time\ntime.sleep(600)\n")
    monkeypatch.setattr(prerequisites, "IMPORT_SECONDS", 2)
    (result,) = prerequisites.imports(("slow_package",))
    assert result.fault.endswith("check again, because the second time is faster")


def test_commands_of_slurm_are_tried_as_a_job_has_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a job's environment, without the variables that Snakemake's plugin removes."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("SLURM_CONF", "/slurm.conf")
    monkeypatch.setenv("SLURM_JOB_ID", "12")
    for name in ("srun", "scontrol"):
        script = tmp_path / name
        script.write_text(f'#!/bin/sh\necho "{name} of $SLURM_JOB_ID, $SLURM_CONF"\n')
        script.chmod(0o755)
    assert list(prerequisites.slurm_commands()) == [
        Prerequisite("srun --version", "srun of 12,"),
        Prerequisite("scontrol ping", "scontrol of 12,"),
    ]
    (tmp_path / "srun").write_text("#!/bin/sh\nexit 3\n")
    (tmp_path / "scontrol").unlink()
    srun, scontrol = prerequisites.slurm_commands()
    assert srun.fault.startswith("exit status 3: no job could start its step; install SLURM's")
    assert "No such file" in scontrol.fault
    assert "no job could requeue itself" in scontrol.fault


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of packages that another process can import."""
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{ROOT}")
    return tmp_path


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("raise ImportError('libcudart.so.13: cannot open')", "ImportError: libcudart.so.13: "),
        ("import os; os.kill(os.getpid(), 11)", "exit status -11"),  # as a broken extension
        ("import time; time.sleep(60)", "not done after 3 seconds, from a slow disk perhaps"),
    ],
)
def test_the_first_package_that_cannot_be_imported_is_named(
    packages: Path, monkeypatch: pytest.MonkeyPatch, text: str, reason: str
) -> None:
    monkeypatch.setattr(prerequisites, "IMPORT_SECONDS", 3)
    (packages / "first_package.py").write_text("__version__ = '1.2'\nprint('a line of its own')\n")
    (packages / "broken_package.py").write_text(f"{text}\n")
    names = ("first_package", "broken_package", "last_package")
    first, broken = prerequisites.imports(names)
    assert first == Prerequisite("import first_package", "1.2")
    assert broken.name == "import broken_package"
    assert reason in broken.fault


class Models(Handler):
    """Serves two models."""

    def do_GET(self) -> None:
        known = self.path == "/v1/models"
        self.send(200 if known else 404, '{"data": [{"id": "a"}, {"id": "b"}]}')


def test_the_judge_of_the_config_must_answer_and_serve_its_model() -> None:
    with serving(Models) as url:
        assert prerequisites.judge_server(url, "b").fault == ""
        other = prerequisites.judge_server(url, "my/judge")
        assert other.found == "serves a, b"
        assert other.fault.startswith("xverify.model = my/judge: start the server with --served-")
        assert "404" in prerequisites.judge_server(f"{url}/none", "b").fault
    gone = prerequisites.judge_server(url, "b")
    assert gone.found == "no answer"
    assert "set xverify.url to its address" in gone.fault
    assert prerequisites.judge_server("http://[", "b").found == "no answer"


ALL = ("train", "sample", "score")


@pytest.mark.parametrize(
    ("rules", "changes", "gpus", "imported", "cells"),
    [
        (ALL, {}, True, "torch vllm verl", 2),  # of 1.5B, on 4 of the 8 GPUs of a cell of 7B
        (ALL, {"models": {"qwen2.5-math-1.5b": {"gpus": 8}}}, True, "torch vllm verl", 1),
        (["sample"], {}, True, "torch vllm", 1),
        (["score"], {}, True, "torch vllm", 1),
        ([], {}, False, "", 1),
        (ALL, {"verl": {"device": "cpu", "ranks": 1}}, False, "torch vllm verl", 1),
        (["train"], {"verifier": "rules", "engine": "local"}, False, "", 1),
    ],
)
def test_needs_are_those_of_the_rules(
    tmp_path: Path,
    rules: list[str],
    changes: dict[str, Any],
    gpus: bool,
    imported: str,
    cells: int,
) -> None:
    needs = needs_of(paper_scale.load(tmp_path, **changes), rules)
    assert needs == Needs(gpus=gpus, packages=tuple(imported.split()), cells=cells)


def test_a_node_of_the_profile_may_have_more_cells_than_the_largest_one(tmp_path: Path) -> None:
    experiment = paper_scale.load(tmp_path)
    assert needs_of(experiment, ["train"], gpus=16).cells == 4


def test_a_shared_judge_is_needed_where_responses_are_verified(tmp_path: Path) -> None:
    experiment = paper_scale.load(tmp_path, xverify={"url": "http://judge:8000"})
    assert needs_of(experiment, ["sample"]).judge == ""
    needs = needs_of(experiment, ["score"])
    assert needs == Needs(judge="http://judge:8000", judge_model="IAAR-Shanghai/xVerify-0.5B-I")


@contextmanager
def only(*results: Prerequisite) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prerequisites, "check", lambda needs: results)
        yield


def test_the_table_of_this_machine_has_a_line_for_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`rspo doctor --node`, and its status."""
    assert isinstance(paper_scale.load(tmp_path), Experiment)
    monkeypatch.chdir(tmp_path)
    good = Prerequisite("Python.h", "/include/Python.h")
    with only(good):
        assert main(["doctor", "--node", "--scale", "paper"]) == 0
    assert capsys.readouterr().out == "ok       Python.h  /include/Python.h\n"
    with only(good, Prerequisite("driver", "535.1", "update it")):
        assert main(["doctor", "--node", "--scale", "paper"]) == 2
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "error    driver    535.1: update it"


def test_the_program_prints_what_the_functions_find(packages: Path) -> None:
    needs = {"packages": ["json"], "lock": str(packages / "none")}
    words = [sys.executable, "-m", "rspo.slurm.prerequisites", json.dumps(needs)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    (line,) = done.stdout.splitlines()
    assert line.startswith(prerequisites.MARK)
    answer = [Prerequisite(**one) for one in json.loads(line.removeprefix(prerequisites.MARK))]
    names = ["this folder and its locks", "srun --version", "scontrol ping", "import json"]
    assert [one.name for one in answer] == names
    assert answer[0].fault
    assert answer[-1] == Prerequisite("import json", "2.0.9")
