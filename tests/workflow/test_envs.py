"""The locked versions, and the scripts that install them."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from importlib.metadata import requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from rspo.adapters import versions
from rspo.training.verl.interface import SUPPORTED_VERSION
from tests.support import ROOT

ENVS = ROOT / "envs"
LOCK = ENVS / "lock"
# The files of envs/lock/ and the extras of pyproject.toml that each environment contains.
ENVIRONMENTS = {
    "base": (["base", "torch"], ["paper", "test-light"]),
    "verl": (["verl", "torch"], ["verl", "cpu", "test"]),
    "gpu": (["gpu", "flash-attn"], ["verl", "gpu"]),
}


def locked_versions(environment: str) -> dict[str, str]:
    """Versions by package that the files select on this machine. The files must agree."""
    versions: dict[str, str] = {}
    for file in ENVIRONMENTS[environment][0]:
        for line in re.findall(r"^[^\s-].*", (LOCK / f"{file}.txt").read_text(), re.MULTILINE):
            pin = Requirement(line.removesuffix("\\"))
            if pin.marker is None or pin.marker.evaluate():
                (version,) = pin.specifier
                name = canonicalize_name(pin.name)
                assert versions.setdefault(name, version.version) == version.version
    return versions


def declared_requirements(extras: list[str]) -> list[Requirement]:
    """The requirements of the package with these extras, and with the extras that they include."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = [project["optional-dependencies"][extra] for extra in extras]
    found = []
    for line in map(Requirement, sum(lines, project["dependencies"])):
        found += declared_requirements(sorted(line.extras)) if line.name == "rspo" else [line]
    return found


def unsatisfied(requirements: Iterable[Requirement], versions: dict[str, str]) -> list[str]:
    """The requirements whose package is missing or has a version that they exclude."""
    return [
        str(line)
        for line in requirements
        if (name := canonicalize_name(line.name)) not in versions
        or not line.specifier.contains(versions[name], prereleases=True)
    ]


@pytest.mark.parametrize("environment", ENVIRONMENTS)
@pytest.mark.promise("pip install -e '.[paper]'")
@pytest.mark.promise("pip install -e '.[verl]'")
def test_the_lock_files_satisfy_the_declared_requirements(environment: str) -> None:
    declared = declared_requirements(ENVIRONMENTS[environment][1])
    assert {"numpy", "snakemake", "math-verify"} <= {line.name for line in declared}
    assert unsatisfied(declared, locked_versions(environment)) == []


@pytest.mark.promise("pip install '.[trl]'")
def test_the_extra_trl_allows_the_tested_versions() -> None:
    (line,) = [line for line in declared_requirements(["trl"]) if line.name == "trl"]
    assert list(line.specifier.filter(versions.TRL)) == list(versions.TRL)
    assert "0.29.1" not in line.specifier


def test_the_base_packages_understand_the_slurm_profile() -> None:
    """So that `snakemake --profile slurm` names what is missing (tests/slurm)."""
    needed = {"snakemake-executor-plugin-slurm", "snakemake-executor-plugin-slurm-jobstep"}
    assert needed <= locked_versions("base").keys()


def test_the_gpu_packages_have_the_versions_that_verl_requires() -> None:
    extras = ["", "vllm", "verl-core", "flash-attn-cu130torch211"]
    declared = [Requirement(line) for line in requires("verl") or []]
    required = [
        line
        for line in declared
        if canonicalize_name(line.name) != "verl"
        and (line.marker is None or any(line.marker.evaluate({"extra": e}) for e in extras))
    ]
    assert sum("==" in str(line.specifier) for line in required) >= 6
    assert unsatisfied(required, locked_versions("gpu")) == []


def test_cpu_and_gpu_packages_have_the_supported_verl() -> None:
    assert {locked_versions(name)["verl"] for name in ("verl", "gpu")} == {SUPPORTED_VERSION}


def test_base_packages_have_the_same_versions_with_verl() -> None:
    assert locked_versions("base").items() <= locked_versions("verl").items()


# --- setup ---------------------------------------------------------------------------------------


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The files that `make setup` reads, and an executable that only claims to be Python 3.12."""
    shutil.copytree(ENVS, tmp_path / "envs")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    make_python(tmp_path / "python3.12", "3.12.1")
    return tmp_path


def make_python(path: Path, version: str) -> None:
    path.write_text(
        f"""#!/bin/sh
case "$*" in
*sys.version_info*) echo {version} ;;
esac
[ "$2" != venv ] || {{ mkdir -p "$3/bin" && cp "$0" "$3/bin/python"; }}
"""
    )
    path.chmod(0o755)


def setup(checkout: Path, packages: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", "envs/setup.sh", packages],
        cwd=checkout,
        env=os.environ | {"PYTHON": str(checkout / "python3.12")} | variables,
        capture_output=True,
        text=True,
    )


def test_another_version_of_python_is_an_error(checkout: Path) -> None:
    make_python(checkout / "python3.10", "3.10.9")
    done = setup(checkout, "base", PYTHON=str(checkout / "python3.10"))
    assert done.returncode == 1
    assert "requires Python 3.11 or 3.12, but" in done.stderr
    assert "is Python 3.10.9" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (checkout / ".venv").exists()


def test_another_operating_system_is_an_error(checkout: Path) -> None:
    (checkout / "uname").write_text("#!/bin/sh\necho Darwin arm64\n")
    (checkout / "uname").chmod(0o755)
    done = setup(checkout, "base", PATH=f"{checkout}:{os.environ['PATH']}")
    assert done.returncode == 1
    assert done.stderr == "error: rspo supports Linux only; this is Darwin arm64\n"


@pytest.mark.parametrize(
    ("target", "following"),
    [
        ("setup", "make quick"),
        ("setup-verl", "source .venv/bin/activate"),
        ("setup-gpu", "make gpu-check"),
    ],
)
def test_make_setup_ends_with_the_next_command(target: str, following: str) -> None:
    words = ["make", "--no-print-directory", "--dry-run", target]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == f'echo "Next: {following}"'


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"CXX": "/none/g++"}, "requires a C++ compiler, but /none/g++ was not found. Load one"),
        ({"FLASH_ATTN": "none", "WHEELS": "/none/wheels"}, "WHEELS: no such folder: /none/wheels"),
        ({"FLASH_ATTN": "/none/flash.whl"}, "no such file: /none/flash.whl"),
        ({"FLASH_ATTN": "yes"}, "FLASH_ATTN is 'yes'; allowed: build, none, a file name ending in"),
    ],
)
def test_what_gpu_packages_need_is_checked_before_venv_changes(
    checkout: Path, variables: dict[str, str], message: str
) -> None:
    assert setup(checkout, "base").returncode == 0
    before = (checkout / ".venv" / ".rspo").read_bytes()
    done = setup(checkout, "gpu", **variables)
    assert done.returncode == 1
    assert message in done.stderr
    assert (checkout / ".venv" / ".rspo").read_bytes() == before


@pytest.mark.promise("make setup-gpu")
def test_make_setup_keeps_the_gpu_packages(checkout: Path) -> None:
    assert setup(checkout, "gpu", FLASH_ATTN="none").returncode == 0
    assert setup(checkout, "base").stdout == ""  # up to date
    with (checkout / "envs" / "lock" / "gpu.txt").open("a") as lock:
        lock.write("# changed")
    assert "envs/lock/gpu.txt" in setup(checkout, "base").stdout
    assert "do not fit the test tools" in setup(checkout, "verl").stderr


def test_without_a_network_what_to_do_comes_before_what_pip_says(checkout: Path) -> None:
    python = checkout / "python3.12"
    retry = "echo 'WARNING: Retrying' >&2; echo 'ERROR: no uv' >&2; exit 1"
    python.write_text(python.read_text() + f'case "$*" in *"pip install"*) {retry} ;; esac\n')
    done = setup(checkout, "base")
    assert done.returncode == 1
    first, *others = done.stderr.splitlines()
    assert first.startswith("error: pip cannot download uv. Without a network, ")
    assert others == ["WARNING: Retrying", "ERROR: no uv"]
    assert not (checkout / ".venv" / ".rspo").exists()


@pytest.mark.parametrize("packages", ["base", "verl", "gpu"])
def test_a_long_installation_begins_with_its_size_and_time(checkout: Path, packages: str) -> None:
    done = setup(checkout, packages, FLASH_ATTN="none")
    assert done.returncode == 0
    (line,) = [row for row in done.stdout.splitlines() if f"envs/lock/{packages}.txt" in row]
    assert re.search(r": (\d+ MB|several GB).*, .* minutes with a fast network\. ", line)


def test_an_interrupted_setup_starts_again(checkout: Path) -> None:
    assert setup(checkout, "verl").returncode == 0
    (checkout / ".venv" / ".rspo").unlink()
    (checkout / ".venv" / "partial").touch()
    assert "An earlier setup was interrupted" in setup(checkout, "verl").stdout
    assert not (checkout / ".venv" / "partial").exists()


# --- the compiler of flash-attn ------------------------------------------------------------------

# A kernel for the types of flash-attn, with a header of CCCL, which compares the versions of the
# compiler and the other headers.
KERNEL = """#include <cuda_bf16.h>
#include <cuda/std/limits>
__global__ void twice(__nv_bfloat16* values) { values[threadIdx.x] += values[threadIdx.x]; }
extern "C" int run() { twice<<<1, 8>>>(nullptr); return cudaDeviceSynchronize(); }
"""
COMPILER = {f"nvidia-cuda-{name}" for name in ("cccl", "crt", "nvcc", "runtime")} | {"nvidia-nvvm"}
NVCC = '"$CUDA_HOME/bin/nvcc" -shared -Xcompiler -fPIC -gencode arch=compute_90,code=sm_90 "$@"'


def locked_packages(environment: str, names: set[str]) -> str:
    """The lines of a lock file for some packages, with their hashes."""
    text = (LOCK / f"{environment}.txt").read_text()
    entries = re.findall(r"^\S.*(?:\n +--hash.*)*", text, re.MULTILINE)
    kept = [entry for entry in entries if entry.split("==")[0] in names]
    assert len(kept) == len(names)
    return "\n".join(kept) + "\n"


@pytest.mark.ci
def test_the_locked_compiler_compiles_and_links_a_kernel(tmp_path: Path) -> None:
    """200 MB of packages, without a GPU. As they lie, CCCL and the linker refuse it."""
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    python = tmp_path / "venv" / "bin" / "python"
    (tmp_path / "lock.txt").write_text(locked_packages("gpu", COMPILER))
    words = ["-m", "pip", "install", "-q", "--no-deps", "--require-hashes", "-r"]
    subprocess.run([python, *words, tmp_path / "lock.txt"], check=True)
    (tmp_path / "kernel.cu").write_text(KERNEL)
    script = f'set -eu; python={python}; . {ENVS}/nvcc.sh; {NVCC} -L"$CUDA_HOME/lib" -lcudart'
    output = tmp_path / "kernel.so"
    done = subprocess.run(
        ["sh", "-c", script, "sh", tmp_path / "kernel.cu", "-o", output],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert b"libcudart.so.13" in output.read_bytes()  # what the program loads is the locked library


def test_an_environment_without_the_compiler_is_an_error(tmp_path: Path) -> None:
    script = f"set -eu; python={sys.executable}; . {ENVS}/nvcc.sh"
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True)
    assert done.returncode == 1
    assert "/nvidia/cu13 has no nvcc, which the packages of envs/lock/gpu.txt have" in done.stderr


# --- without a network ---------------------------------------------------------------------------


def require_network_namespaces() -> None:
    """Skip where this user may not make a namespace without a network; fail in CI."""
    if subprocess.run(["unshare", "--net", "true"], capture_output=True).returncode:
        stop = pytest.fail if os.environ.get("CI") else pytest.skip
        stop("unshare --net does not work here: installation without a network cannot be tested")


@pytest.mark.ci
def test_a_folder_of_wheels_is_enough_without_a_network(tmp_path: Path) -> None:
    """The base packages, from `envs/wheels.sh` to `make setup` in a namespace without a route."""
    require_network_namespaces()
    checkout = tmp_path / "checkout"
    archive = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    for name in archive.stdout.splitlines():
        if (ROOT / name).is_file():
            (checkout / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, checkout / name)
    wheels = tmp_path / "wheels"
    words = ["sh", "envs/wheels.sh", "base", str(wheels)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert f"make setup WHEELS={wheels}" in done.stdout

    own = ("PIP_", "UV_")  # neither the package indexes of this machine nor its caches
    environment = {k: v for k, v in os.environ.items() if not k.startswith(own)}
    environment |= {"PIP_CONFIG_FILE": "/dev/null", "UV_CACHE_DIR": str(tmp_path / "cache")}
    environment |= {"PYTHON": sys._base_executable, "HOME": str(tmp_path)}  # type: ignore[attr-defined]
    words = ["unshare", "--net", "make", "setup", f"WHEELS={wheels}"]
    done = subprocess.run(words, cwd=checkout, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    python = checkout / ".venv" / "bin" / "python"
    shown = subprocess.run(
        [python, "-m", "pip", "list", "--format=freeze"], capture_output=True, text=True
    )
    installed = dict(line.split("==") for line in shown.stdout.splitlines() if "==" in line)
    locked = locked_versions("base")
    assert "snakemake" in installed
    assert {n: v for n, v in installed.items() if locked.get(n, v) != v and n != "torch"} == {}
