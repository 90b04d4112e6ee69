"""What `rspo doctor` runs on a node: checks files, file locks, packages, GPUs and SLURM's commands.

python -m rspo.slurm.probe TASK

Args:
    TASK: the fields of `Task` as JSON.

Prints one line of JSON: `host`; `about`, the GPU and the versions of CUDA and the packages; and
`findings`, pairs of "error" or "warning" and what to say about the node.
"""

import fcntl
import importlib
import json
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rspo.core.gpus import why_no_gpu

Line = tuple[str, str]
SECONDS = 20  # timeout of each command and request
# Of SLURM's variables, Snakemake's plugin keeps those that identify the job. SLURM_CONF, the path
# of the configuration, is not among them (snakemake_executor_plugin_slurm_jobstep 0.6).
_KEPT = ("SLURM_JOB_ID", "SLURM_JOBID", "SLURM_CLUSTER_NAME", "SLURM_SUBMIT_DIR")
_IN_JOBS = (
    ("srun --version", "error", "no job could start its step"),
    ("scontrol ping", "warning", "no job could requeue itself"),
)


@dataclass(frozen=True)
class Task:
    """What to check."""

    file: str  # that another host has locked
    text: str  # its content
    packages: tuple[str, ...] = ()  # to import
    gpu: bool = False  # whether SLURM granted a GPU
    judge: str = ""  # address of a judge's server; empty: none
    model: str = ""  # that it must serve


def shared_files(file: Path, text: str) -> Iterator[Line]:
    """Whether this host sees a file, and the lock that another host holds on it."""
    folder, seen = file.parent, False
    try:
        with file.open("r+") as stream:
            seen = stream.read() == text
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        if seen:
            return
    except OSError:  # no such file, or no locks
        pass
    if not seen:
        yield "error", f"does not see the files in {folder}: use a folder of a shared file system"
        return
    yield (
        "error",
        f"ignores a lock that another host holds in {folder}: two jobs could train one cell; "
        "mount the file system with flock (Lustre: -o flock; NFS: version 4)",
    )


def slurm_commands() -> Iterator[Line]:
    """SLURM's commands that would fail in a job on this host."""
    taken = ("SLURM_", "SRUN_", "SBATCH_")
    left = {k: v for k, v in os.environ.items() if k in _KEPT or not k.startswith(taken)}
    for command, kind, consequence in _IN_JOBS:
        try:
            done = subprocess.run(
                command.split(), env=left, capture_output=True, text=True, timeout=SECONDS
            )
            output = " ".join((done.stderr or done.stdout).split())
            reason = done.returncode and (output or f"exit status {done.returncode}")
        except (OSError, subprocess.SubprocessError) as error:
            reason = str(error)
        if reason:
            yield (
                kind,
                f"cannot run `{command}` ({reason}): {consequence}; SLURM's commands must be there "
                "and find their configuration without SLURM_CONF, which jobs do not inherit",
            )


def software(packages: tuple[str, ...], gpu: bool, about: list[str]) -> Iterator[Line]:
    """Import packages, and see whether they use the GPU if there is one.

    Args:
        about: to which the GPU and the versions are added.
    """
    imported = {}
    for name in packages:
        try:
            imported[name] = importlib.import_module(name)
        except Exception as error:  # compiled packages raise many types
            reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
            yield "error", f"cannot import {name} ({reason}); `make setup-gpu` installs it"
    versions = [f"{name} {getattr(one, '__version__', '?')}" for name, one in imported.items()]
    if gpu:
        if missing := missing_to_compile():
            yield (
                "error",
                f"lacks {missing}: Triton compiles a C program for each kernel; load a compiler in "
                "the precommand, or make .venv with a Python that has its headers",
            )
        unused = ""
        if "torch" in imported:
            import torch

            cuda, unused = torch.version.cuda or "none", why_no_gpu()
            if not unused:
                device = torch.cuda.get_device_properties(0)
                about.append(f"{device.name} {device.total_memory / 1e9:.0f} GB")
            about.append(f"CUDA {cuda}")
        if "vllm" in imported and not unused:
            from vllm.platforms import current_platform

            unused = "vLLM is built for CPUs" if current_platform.is_cpu() else ""
        if unused:
            yield (
                "error",
                f"has a GPU that jobs would not use: {unused} ({', '.join(about)}); `make "
                "setup-gpu` installs PyTorch and vLLM for GPUs, which need driver 580 or newer",
            )
    about += versions


def missing_to_compile() -> str:
    """What Triton lacks on this host: it compiles C for each kernel (runtime/build.py)."""
    compilers, include = (os.environ.get("CC", "gcc"), "clang"), sysconfig.get_paths()["include"]
    missing = [] if any(map(shutil.which, compilers)) else ["a C compiler"]
    header = Path(include, "Python.h")
    return " and ".join(missing + [str(header)] * (not header.is_file()))


def judge(url: str, model: str) -> Iterator[Line]:
    """Whether the judge's server answers and serves the model of the config."""
    import httpx

    try:
        # Without the proxies of the environment, as the judge's client.
        with httpx.Client(trust_env=False, timeout=SECONDS) as client:
            models = client.get(f"{url}/v1/models").raise_for_status().json()["data"]
            served = [one["id"] for one in models]
    except (httpx.HTTPError, ValueError, LookupError, TypeError) as error:
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
        yield (
            "error",
            f"gets no list of models from xverify.url = {url} ({reason}): start vLLM's server, and "
            "set its address, such as http://NODE:8000, or null",
        )
        return
    if model not in served:
        yield (
            "error",
            f"reaches xverify.url = {url}, which serves {', '.join(served)}, not xverify.model = "
            f"{model}: start it with --served-model-name {model}",
        )


def main(task: Task) -> None:
    about: list[str] = []
    found = [*shared_files(Path(task.file), task.text), *slurm_commands()]
    found += software(task.packages, task.gpu, about)
    found += judge(task.judge, task.model) if task.judge else ()
    host = os.environ.get("SLURMD_NODENAME") or platform.node()
    print(json.dumps({"host": host, "about": ", ".join(about), "findings": found}))


if __name__ == "__main__":
    main(Task(**json.loads(sys.argv[1])))
