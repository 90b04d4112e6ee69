"""The locks against what asks for them, and what is made from the locks."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, distribution, requires
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from rspo.core.errors import InputError
from rspo.training.verl.interface import SUPPORTED_VERSION, require_attention
from rspo.training.verl.verl_config import verl_config
from tests.support import ROOT, paper_scale
from tests.support.snakemake_project import make_project, snakemake

ENVS = ROOT / "envs"
LOCKS = {"cpu": ["cpu.lock", "cpu-verl.lock"], "gpu": ["gpu.lock", "gpu-compiled.lock"]}
EXTRAS = {"cpu": ["verl", "cpu", "test"], "gpu": ["verl", "gpu"]}
# What markers are evaluated with: the machine that gpu.lock is for.
GPU_MACHINE = {
    "python_version": "3.12",
    "python_full_version": "3.12.0",
    "sys_platform": "linux",
    "platform_system": "Linux",
    "platform_machine": "x86_64",
    "implementation_name": "cpython",
    "platform_python_implementation": "CPython",
}
# (who declares it, what): envs/README.md says why it is left out.
LEFT_OUT = {("mistral-common", "numpy")}


def versions(kind: str) -> dict[str, str]:
    lines = [line for lock in LOCKS[kind] for line in (ENVS / lock).read_text().splitlines()]
    pins = [Requirement(line) for line in lines if not line.startswith("#")]
    return {canonicalize_name(pin.name): str(next(iter(pin.specifier)).version) for pin in pins}


def unmet(requirements: list[str], locked: dict[str, str], extras: set[str]) -> Iterator[str]:
    """The requirements that apply on the GPU machine and that the lock does not satisfy."""
    for line in requirements:
        wanted = Requirement(line)
        applies = wanted.marker is None or any(
            wanted.marker.evaluate(GPU_MACHINE | {"extra": extra}) for extra in extras | {""}
        )
        version = locked.get(canonicalize_name(wanted.name))
        if applies and (
            version is None or not wanted.specifier.contains(version, prereleases=True)
        ):
            yield line


@pytest.mark.parametrize("kind", ["cpu", "gpu"])
def test_a_lock_has_what_the_project_asks_for(kind: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    lines = project["dependencies"] + [line for extra in EXTRAS[kind] for line in extras[extra]]
    assert list(unmet(lines, versions(kind), set())) == []


def test_the_gpu_lock_has_verls_own_pins() -> None:
    """As the installed verl declares them: PyTorch, vLLM, transformers, flash-attn."""
    declared = requires("verl") or []
    extras = {"vllm", "verl-core", "flash-attn-cu130torch211"}
    others = [line for line in declared if canonicalize_name(Requirement(line).name) != "verl"]
    exact = [line for line in others if "==" in line and any(extra in line for extra in extras)]
    assert len(exact) >= 6
    assert list(unmet(others, versions("gpu"), extras)) == []


def test_what_both_locks_share_finds_its_own_requirements_in_the_gpu_lock() -> None:
    """From what the distributions that are installed here declare, not from the resolver."""
    locked, checked = versions("gpu"), 0
    missing = set()
    for name, version in locked.items():
        try:
            here = distribution(name)
        except PackageNotFoundError:
            continue
        if here.version.partition("+")[0] != version:
            continue
        checked += 1
        for line in unmet(here.requires or [], locked, set()):
            missing.add((name, canonicalize_name(Requirement(line).name)))
    assert checked > 200
    assert missing == LEFT_OUT


def test_both_locks_have_the_verl_that_the_plugin_supports() -> None:
    assert {versions(kind)["verl"] for kind in LOCKS} == {SUPPORTED_VERSION}


@pytest.mark.parametrize("lock", [lock for locks in LOCKS.values() for lock in locks])
def test_a_lock_is_names_and_versions_and_no_address(lock: str) -> None:
    lines = [line for line in (ENVS / lock).read_text().splitlines() if not line.startswith("#")]
    assert lines
    pin = r"[a-z0-9-]+==[a-z0-9.]+(; sys_platform == \"linux\")?"
    assert [line for line in lines if not re.fullmatch(pin, line)] == []


def test_the_table_of_differences_is_that_of_the_locks() -> None:
    cpu, gpu = versions("cpu"), versions("gpu")
    del gpu["flash-attn"]  # gpu-compiled.lock
    expected = {
        (name, cpu.get(name, "-"), gpu.get(name, "-"))
        for name in cpu.keys() | gpu.keys()
        if cpu.get(name) != gpu.get(name)
    }
    lines = (ENVS / "differences.md").read_text().splitlines()
    rows = [tuple(cell.strip() for cell in line.split("|")[1:4]) for line in lines if "|" in line]
    assert rows[2:] == sorted(expected)


# --- setup ---------------------------------------------------------------------------------------


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of what `make setup-gpu` reads, with a Python that only says that it is 3.12."""
    shutil.copytree(ENVS, tmp_path / "envs")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    make_python(tmp_path / "python3.12", "3.12.1")
    return tmp_path


def make_python(path: Path, version: str) -> None:
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_text(
        f"""#!/bin/sh
case "$*" in
*sys.version_info*) echo {version} ;;
*flash_attn*) exit 1 ;;
esac
[ "$2" != venv ] || {{ mkdir -p "$3/bin" && cp "$0" "$3/bin/python"; }}
"""
    )
    path.chmod(0o755)


def setup(checkout: Path, step: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", "envs/setup.sh", step],
        cwd=checkout,
        env=os.environ | {"PYTHON": str(checkout / "python3.12")} | variables,
        capture_output=True,
        text=True,
    )


def test_the_gpu_environment_wants_python_3_12(checkout: Path) -> None:
    make_python(checkout / "python3.11", "3.11.9")
    done = setup(checkout, "gpu", PYTHON=str(checkout / "python3.11"), FLASH_ATTN="none")
    assert done.returncode == 1
    assert "envs/gpu.lock is for Python 3.12, but" in done.stderr
    assert "is Python 3.11.9" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"CUDA_HOME": "/none"}, "with the nvcc of CUDA 13, but /none/bin/nvcc is not found"),
        ({"FLASH_ATTN": "/none/flash.whl"}, "there is no file /none/flash.whl"),
        ({"FLASH_ATTN": "yes"}, "FLASH_ATTN is 'yes'; allowed: build, none, a file that ends in"),
    ],
)
def test_what_flash_attn_lacks_is_said_before_anything_is_made_or_removed(
    checkout: Path, variables: dict[str, str], message: str
) -> None:
    assert setup(checkout, "base").returncode == 0
    before = (checkout / ".venv" / ".rspo-base").read_bytes()
    done = setup(checkout, "gpu", **variables)
    assert done.returncode == 1
    assert message in done.stderr
    assert (checkout / ".venv" / ".rspo-base").read_bytes() == before
    assert not (checkout / ".venv" / ".rspo-busy").exists()


def test_make_setup_keeps_an_environment_for_gpus(checkout: Path) -> None:
    assert setup(checkout, "gpu", FLASH_ATTN="none").returncode == 0
    assert not (checkout / ".venv" / ".rspo-base").exists()
    assert setup(checkout, "base").stdout == ""  # nothing to do
    with (checkout / "pyproject.toml").open("a") as project:
        project.write("# changed")
    assert "packages of envs/gpu.lock" in setup(checkout, "base").stdout
    assert "has no tools for tests" in setup(checkout, "verl").stderr
    (checkout / ".venv" / ".rspo-busy").touch()
    again = setup(checkout, "base").stdout
    assert "An earlier setup was interrupted" in again
    assert "packages of envs/gpu.lock" in again


def test_another_machine_is_named(tmp_path: Path) -> None:
    """gpu_machine.py run as it would be on a Mac, by a Python that is told so."""
    code = (
        "import platform, runpy\n"
        "platform.system, platform.machine = lambda: 'Darwin', lambda: 'arm64'\n"
        "runpy.run_path('envs/gpu_machine.py', run_name='__main__')"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1
    assert "Linux on x86_64 (this is Darwin on arm64)" in done.stderr
    assert done.stderr.startswith("error: envs/gpu.lock is for ")


def test_training_without_flash_attn_is_one_clear_error(tmp_path: Path) -> None:
    """It is in none of the environments that tests run in; verl's own error comes from a worker."""
    model = "qwen2.5-math-1.5b--rspo-pass--k4--n32--s0"
    config = verl_config(paper_scale.load(tmp_path), model).actor_rollout_ref.model
    with pytest.raises(InputError, match=r"flash-attn is not installed: `make setup-gpu`"):
        require_attention(config.override_config.attn_implementation)
    require_attention("sdpa")


# --- conda and Apptainer -------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["cpu", "gpu"])
def test_a_conda_file_is_python_and_pip_and_names_the_locks_by_content(kind: str) -> None:
    text = (ENVS / f"conda-{kind}.yaml").read_text()
    assert yaml.safe_load(text)["dependencies"] == ["python=3.12", "pip"]
    for lock in LOCKS[kind]:
        assert f"# {lock}: {sha256((ENVS / lock).read_bytes()).hexdigest()}\n" in text


@pytest.mark.parametrize(("kind", "steps"), [("cpu", ["base", "verl"]), ("gpu", ["gpu"])])
def test_what_conda_made_gets_the_same_steps_as_venv(kind: str, steps: list[str]) -> None:
    text = (ENVS / f"conda-{kind}.post-deploy.sh").read_text()
    assert re.findall(r"^sh envs/install\.sh (\S+) python$", text, re.MULTILINE) == steps


def test_the_recipe_of_the_image_installs_the_gpu_lock_from_files_that_are_there() -> None:
    head, *parts = re.split(r"^%", (ENVS / "rspo.def").read_text(), flags=re.MULTILINE)
    sections = {part.split("\n", 1)[0].strip(): part.split("\n", 1)[1] for part in parts}
    assert sections.keys() == {"files", "post", "environment", "test", "runscript"}
    copied = [line.split() for line in sections["files"].splitlines() if line.strip()]
    assert all((ROOT / source).exists() for source, _ in copied)
    assert "sh /opt/rspo/envs/install.sh gpu /opt/rspo/.venv/bin/python" in sections["post"]
    cuda = re.search(r"^From: nvidia/cuda:([\d.]+)-devel-", head, re.MULTILINE)
    assert cuda
    assert cuda.group(1) == versions("gpu")["cuda-toolkit"]


# In place of programs that cannot make anything here. `conda` says that it is there; `apptainer`
# notes what it is given, and runs the command of the job without the image.
STUBS = {
    "conda": """
case "$*" in
"info --json") echo '{"conda_prefix": "/none", "platform": "linux-64"}' ;;
--version) echo conda 24.9.2 ;;
"config --get"*) echo '{"get": {"channel_priority": "strict"}}' ;;
esac
""",
    "apptainer": """
[ "$1" != --version ] || { echo apptainer version 1.4.0 && exit; }
echo "$*" >>apptainer.log
for last; do :; done
exec bash -c "$last"
""",
}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project on a machine that has the two programs."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name, lines in STUBS.items():
        (programs / name).write_text(f"#!/bin/sh{lines}")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    return make_project(tmp_path / "project")


@pytest.mark.parametrize(("scale", "kind"), [("tiny", "cpu"), ("paper", "gpu")])
def test_one_key_selects_the_conda_file_that_the_scale_needs(
    project: Path, scale: str, kind: str
) -> None:
    planned = snakemake(project, "-n", "data", "--sdm", "conda", "--config", f"scale={scale}")
    assert planned.returncode == 0, planned.stderr
    made = re.findall(r"Conda environment (\S+) will be created", planned.stdout + planned.stderr)
    assert made == [f"envs/conda-{kind}.yaml"]


def test_one_key_runs_every_command_in_the_image(project: Path) -> None:
    target = "results/tiny/problems/train.parquet"
    (project / "envs" / "rspo.sif").touch()
    done = snakemake(project, target, "--sdm", "apptainer", "--apptainer-args=--nv")
    assert done.returncode == 0, done.stderr
    assert (project / target).is_file()
    (line,) = (project / "apptainer.log").read_text().splitlines()[:1]
    assert re.search(r"exec --home \S+ --nv .*envs/rspo\.sif bash -c .*rspo prepare train", line)


def test_without_the_key_nothing_asks_for_conda_or_an_image(project: Path) -> None:
    planned = snakemake(project, "-n", "data")
    assert planned.returncode == 0, planned.stderr
    assert not re.search(r"conda|\.sif", planned.stdout + planned.stderr, re.IGNORECASE)
    assert not (project / "apptainer.log").exists()
