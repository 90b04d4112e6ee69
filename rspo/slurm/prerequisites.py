"""What jobs need on a node, and whether this machine has it.

    python -m rspo.slurm.prerequisites NEEDS

NEEDS is a `Needs` as JSON. `rspo doctor` runs this program on a node of each partition, in the
environment of a job. It prints one line: `MARK`, and a list of `Prerequisite` as JSON.
"""

import ctypes
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from rspo.core.locks import is_locked

MARK = "rspo node: "  # before the JSON, because scripts of the cluster may print lines too
SECONDS = 20  # the timeout of a command of SLURM, of the compiler and of a request to the judge
# The timeout of all imports together. From a slow network disk, they have taken four minutes.
IMPORT_SECONDS = 300

# The packages of envs/lock/gpu.txt are built with CUDA 13.0, which needs this branch of the driver:
# https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html
LEAST_DRIVER = 580
LEAST_CUDA = 13000  # as CUDA counts: 13.0 is 13000
_DRIVER = Path("/proc/driver/nvidia/version")
_HOW_TO_UPDATE = (
    "ask for an update, choose other nodes, or put NVIDIA's cuda-compat-13-0 first in "
    "LD_LIBRARY_PATH by the precommand (envs/README.md)"
)
# Free bytes for each training. Ray's folder is in /tmp whatever TMPDIR is, because the paths of its
# sockets have to be short (rspo/training/verl/ray_cluster.py). It has logs and what verl and
# PyTorch write meanwhile: about 1 GB.
_RAY_FOLDER = "/tmp"
LEAST_RAY = 3e9
# In the folder for temporary files: the caches of kernels that vLLM, Triton and PyTorch compile.
LEAST_CACHES = 2e9
# Types of file systems that nodes share.
_SHARED_TYPES = ("nfs", "lustre", "gpfs", "beegfs", "ceph", "cifs", "smb", "panfs", "weka", "fuse.")
# A step of the paper has 2,048 responses of at most 4,096 tokens: 0.7 GB in ten columns of 8 bytes,
# which verl keeps several times. Ray keeps them in shared memory, and otherwise on the disk.
LEAST_SHARED = 4e9
_SHARED = Path("/dev/shm")
_MOUNTS = Path("/proc/mounts")
# Of SLURM's variables, the command of a job keeps these (snakemake_executor_plugin_slurm_jobstep
# 0.6). SLURM_CONF, the path of the configuration, is not among them.
_KEPT = {
    "SLURM_JOB_ID",
    "SLURM_JOBID",
    "SLURM_ARRAY_JOB_ID",
    "SLURM_ARRAY_TASK_ID",
    "SLURM_CLUSTER_NAME",
    "SLURM_SUBMIT_DIR",
    "SLURM_SUBMIT_HOST",
}
_SLURM = ("SLURM_", "SRUN_", "SBATCH_")  # how the names of SLURM's variables begin
# Imports packages one after the other, and prints the name and the version of each.
_IMPORT = """import importlib, sys
from rspo.core.environment import set_environment
set_environment()
for name in sys.argv[1:]:
    module = importlib.import_module(name)
    print("imported", name, getattr(module, "__version__", "of unknown version"), flush=True)"""


@dataclass(frozen=True)
class Needs:
    """What the jobs on a node need.

    gpus: whether they run models on GPUs.
    packages: which packages they import, in this order.
    judge: the address of the judge's server in the config; empty if there is none.
    judge_model: the model that this server must serve.
    lock: a file that another host holds locked; empty if there is none.
    cells: how many cells may train there at the same time.
    """

    gpus: bool = False
    packages: tuple[str, ...] = ()
    judge: str = ""
    judge_model: str = ""
    lock: str = ""
    cells: int = 1


@dataclass(frozen=True)
class Prerequisite:
    """Something that jobs need on a node.

    found: what the node has, such as a version.
    fault: why this is not enough, and what to do; empty if it is.
    """

    name: str
    found: str
    fault: str = ""


def check(needs: Needs) -> Iterator[Prerequisite]:
    """Look for everything that jobs need on this machine."""
    if needs.lock:
        yield shared_folder(Path(needs.lock))
    yield from slurm_commands()
    if needs.gpus:
        yield driver()
        yield compiler()
        yield headers()
        yield from temporary_space(needs.cells)
        yield shared_memory(needs.cells)
    yield from imports(needs.packages)
    if needs.judge:
        yield judge_server(needs.judge, needs.judge_model)


def shared_folder(lock: Path) -> Prerequisite:
    """Whether this machine sees a lock that another one holds."""
    name = "this folder and its locks"
    if is_locked(lock):
        return Prerequisite(name, "seen")
    return Prerequisite(
        name,
        "not seen",
        "the node does not see this folder, or ignores a lock that another host holds in it: two "
        "jobs could train one cell; use a file system that all nodes share, mounted with flock "
        "(Lustre: -o flock; NFS: version 4)",
    )


def slurm_commands() -> Iterator[Prerequisite]:
    """Whether the commands of SLURM work in a job, which does not inherit SLURM_CONF."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if name in _KEPT or not name.startswith(_SLURM)
    }
    consequences = {
        "srun --version": "no job could start its step",
        "scontrol ping": "no job could requeue itself",
    }
    for command, consequence in consequences.items():
        output, reason = _run(command.split(), environment)
        fault = ""
        if reason:
            fault = (
                f"{reason}: {consequence}; install SLURM's commands on the node, so that they find "
                "their configuration without SLURM_CONF, which jobs do not inherit"
            )
        yield Prerequisite(command, output or "no answer", fault)


def driver() -> Prerequisite:
    """Whether NVIDIA's driver runs programs that are built with CUDA 13."""
    name = "NVIDIA driver"
    try:
        text = _DRIVER.read_text()
    except OSError:
        fault = f"there is no {_DRIVER}: choose a partition whose nodes have NVIDIA's driver"
        return Prerequisite(name, "none", fault)
    # Such as "NVIDIA UNIX x86_64 Kernel Module  535.183.01", and in newer drivers "NVIDIA UNIX Open
    # Kernel Module for x86_64  580.65.06".
    match = re.search(r"Module\s+(?:for\s+\S+\s+)?((\d+)\.[\d.]+)", text)
    if match is None:
        line = " ".join(text.splitlines()[:1])
        return Prerequisite(name, line, f"{_DRIVER} names no version; {_HOW_TO_UPDATE}")
    version = match[1]
    if int(match[2]) >= LEAST_DRIVER:
        return Prerequisite(name, version)
    cuda = _cuda_of_library()
    if cuda >= LEAST_CUDA:
        return Prerequisite(name, f"{version}, with CUDA {_cuda_name(cuda)} of cuda-compat")
    return Prerequisite(name, version, f"CUDA 13 needs {LEAST_DRIVER} or newer: {_HOW_TO_UPDATE}")


def _cuda_of_library() -> int:
    """The version of CUDA of the driver's library that programs load; 0 if there is none.

    The library is NVIDIA's driver, or cuda-compat if LD_LIBRARY_PATH has its folder.
    """
    version = ctypes.c_int()
    try:
        # The function needs no GPU, and returns 0 for success.
        failed = ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(version))
    except (OSError, AttributeError):
        return 0
    return 0 if failed else version.value


def _cuda_name(version: int) -> str:
    """13000 as 13.0."""
    return f"{version // 1000}.{version % 1000 // 10}"


def compiler() -> Prerequisite:
    """Whether there is a C compiler. Triton compiles a C program for each kernel."""
    name = "C compiler"
    # The same order as Triton's (triton/runtime/build.py).
    command = os.environ.get("CC") or shutil.which("gcc") or shutil.which("clang")
    fix = "load one in the precommand, such as `module load gcc`, or ask for gcc on the nodes"
    if not command:
        return Prerequisite(name, "none", f"Triton finds neither CC, gcc nor clang: {fix}")
    words = [command, "-x", "c", "-fsyntax-only", "-"]
    _, reason = _run(words, dict(os.environ), "#include <stdlib.h>\n")
    fault = f"it cannot compile a program that includes stdlib.h ({reason}): {fix}"
    return Prerequisite(name, command, fault if reason else "")


def headers() -> Prerequisite:
    """Whether Python's header files exist, which Triton's C programs include."""
    file = Path(sysconfig.get_paths()["include"], "Python.h")
    fault = (
        f"{file} does not exist on the node: install Python's headers there (python3-dev), or make "
        ".venv with a Python that has them, in a folder that all nodes share (make setup-gpu "
        "PYTHON=...)"
    )
    exists = file.is_file()
    return Prerequisite("Python.h", str(file) if exists else "none", "" if exists else fault)


def temporary_space(cells: int) -> Iterator[Prerequisite]:
    """Whether the folders for temporary files have space for so many trainings at the same time."""
    folder = tempfile.gettempdir()
    fix = "delete old files there, or ask for nodes with more: Ray's folder is always in /tmp"
    if folder == _RAY_FOLDER:
        yield _space(folder, cells * (LEAST_RAY + LEAST_CACHES), fix)
        return
    yield _space(_RAY_FOLDER, cells * LEAST_RAY, fix)
    fix = "delete old files there, or set TMPDIR to another disk of the node by the precommand"
    space = _space(folder, cells * LEAST_CACHES, fix)
    kind = _file_system_of(Path(folder))
    if kind.startswith(_SHARED_TYPES):
        fault = (
            f"it is on {kind}, which nodes share, so that they would write the same files: set "
            "TMPDIR to a disk of the node by the precommand, such as TMPDIR=/tmp"
        )
        space = replace(space, fault=fault)
    yield space


def _file_system_of(folder: Path) -> str:
    """The type of the file system with a folder, such as "ext4"; empty if it is unknown."""
    try:
        lines = _MOUNTS.read_text().splitlines()
    except OSError:
        return ""
    found = ""
    longest = -1
    # Device, place and type; a later mount hides an earlier one at the same place.
    for line in lines:
        fields = line.split()
        place = fields[1]
        if folder.resolve().is_relative_to(place) and len(place) >= longest:
            found = fields[2]
            longest = len(place)
    return found


def shared_memory(cells: int) -> Prerequisite:
    """Whether the file system for shared memory has space for so many trainings."""
    fix = "end what uses it, or enlarge it (in a container: --shm-size)"
    return _space(str(_SHARED), cells * LEAST_SHARED, fix)


def _space(folder: str, least: float, fix: str) -> Prerequisite:
    """Whether a folder has so many free bytes."""
    try:
        free = shutil.disk_usage(folder).free
    except OSError as error:
        return Prerequisite(f"space in {folder}", "none", f"{error.strerror}: {fix}")
    fault = f"the trainings of a node need {least / 1e9:g} GB: {fix}" if free < least else ""
    return Prerequisite(f"space in {folder}", f"{free / 1e9:.1f} GB free", fault)


def imports(packages: tuple[str, ...]) -> Iterator[Prerequisite]:
    """Whether packages can be imported, in a process of their own and in bounded time."""
    if not packages:
        return
    words = [sys.executable, "-c", _IMPORT]
    words.extend(packages)
    is_slow = False
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=IMPORT_SECONDS)
        output = done.stdout
        reason = _last_line(done.stderr) or f"exit status {done.returncode}"
    except subprocess.TimeoutExpired as error:
        output = (error.stdout or b"").decode()
        reason = f"not done after {IMPORT_SECONDS} seconds, from a slow disk perhaps"
        is_slow = True
    versions = dict(re.findall(r"^imported (\S+) (.+)$", output, re.MULTILINE))
    for name in packages:
        if name in versions:
            yield Prerequisite(f"import {name}", versions[name])
            continue
        fault = f"{reason}; jobs use the environment of `make setup-gpu`, which the node must see"
        if is_slow:
            fault = f"{reason}: check again, because the second time is faster"
        yield Prerequisite(f"import {name}", "failed", fault)
        return  # the program ended here, so the other packages are unknown


def judge_server(url: str, model: str) -> Prerequisite:
    """Whether the judge's server answers and serves the model of the config."""
    import httpx

    name = f"judge at {url}"
    try:
        # Like the judge's client, without the proxies of the environment.
        with httpx.Client(trust_env=False, timeout=SECONDS) as client:
            models = client.get(f"{url}/v1/models").raise_for_status().json()["data"]
            served = [str(one["id"]) for one in models]
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, LookupError, TypeError) as error:
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
        fix = "start vLLM's server, and set xverify.url to its address (docs/judge.md), or to null"
        return Prerequisite(name, "no answer", f"{reason}; {fix}")
    if model in served:
        return Prerequisite(name, f"serves {model}")
    fault = f"xverify.model = {model}: start the server with --served-model-name {model}"
    return Prerequisite(name, f"serves {', '.join(served) or 'nothing'}", fault)


def _run(words: list[str], environment: dict[str, str], text: str = "") -> tuple[str, str]:
    """Run a command with a text as its input.

    Returns: the last line of its output, and why it failed; empty if it did not.
    """
    try:
        done = subprocess.run(
            words, input=text, env=environment, capture_output=True, text=True, timeout=SECONDS
        )
    except (OSError, subprocess.SubprocessError) as error:
        return "", str(error)
    if done.returncode:
        return "", _last_line(done.stderr) or f"exit status {done.returncode}"
    return _last_line(done.stdout), ""


def _last_line(text: str) -> str:
    """The last line of a text that is not blank, with single spaces; empty if there is none."""
    lines = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""


def table(prerequisites: Collection[Prerequisite]) -> str:
    """A line for each prerequisite: its name, what was found, and what to do if that is a fault."""
    width = max(len(one.name) for one in prerequisites)
    lines = []
    for one in prerequisites:
        state = "error" if one.fault else "ok"
        line = f"{state:7}  {one.name:{width}}  {one.found}"
        lines.append(f"{line}: {one.fault}" if one.fault else line)
    return "\n".join(lines)


def main() -> None:
    """Check this machine, and print the line that `rspo doctor` reads."""
    values = json.loads(sys.argv[1])
    values["packages"] = tuple(values["packages"])
    results = [asdict(one) for one in check(Needs(**values))]
    print(f"{MARK}{json.dumps(results)}", flush=True)


if __name__ == "__main__":
    main()
