"""What `rspo doctor` runs on a node: checks files, file locks, packages, GPUs and SLURM's commands.

python -m rspo.slurm.probe TASK

Args:
    TASK: the fields of `Task` as JSON.

Prints one line of JSON, the fields of `Answer`.
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
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rspo.core.gpus import why_no_gpu

# Every job step needs srun; requeueing needs scontrol.
STEP, QUEUE = "srun --version", "scontrol ping"
SECONDS = 20  # timeout of each command and request
# Of SLURM's variables, Snakemake's plugin keeps those that identify the job. SLURM_CONF, the path
# of the configuration, is not among them (snakemake_executor_plugin_slurm_jobstep 0.6).
_KEPT = ("SLURM_JOB_ID", "SLURM_JOBID", "SLURM_CLUSTER_NAME", "SLURM_SUBMIT_DIR")


@dataclass(frozen=True)
class Task:
    """What to check."""

    file: str  # that another host has locked
    text: str  # its content
    packages: tuple[str, ...] = ()  # to import
    gpu: bool = False  # whether SLURM granted a GPU
    judge: str = ""  # address of a judge's server; empty: none


@dataclass
class Answer:
    """The result on this host."""

    file: str  # see `seen`
    host: str  # name of the node
    commands: dict[str, str]  # SLURM's, that would fail in a job, with the reason
    versions: dict[str, str] = field(default_factory=dict)  # of the imported packages
    packages: dict[str, str] = field(default_factory=dict)  # not imported, with the reason
    gpu: str = ""  # name and memory of the GPU; empty if PyTorch sees none
    cuda: str = ""  # version that PyTorch was built with; empty for a build without CUDA
    no_gpu: str = ""  # why PyTorch or vLLM would not use the granted GPU; empty if they would
    no_compiler: str = ""  # what Triton lacks to compile a kernel's launcher; empty if nothing
    driver: str = ""  # version of NVIDIA's driver; empty if unknown
    judge: list[str] = field(default_factory=list)  # models that the judge serves
    no_judge: str = ""  # why it does not say which; empty if it does, or if there is none to check


def seen(file: Path, text: str) -> str:
    """Compare a file and its lock with those of the host that wrote it.

    Returns: `ok`; `unseen`: no such file or other content here; `unlocked`: this host ignores the
        lock that another one holds, or cannot lock files.
    """
    try:
        with file.open("r+") as stream:
            if stream.read() != text:
                return "unseen"
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return "ok"
            except OSError:  # no locks here
                return "unlocked"
    except OSError:
        return "unseen"
    return "unlocked"


def failing() -> dict[str, str]:
    """SLURM commands that would fail in a job on this host, with the reason."""
    taken = ("SLURM_", "SRUN_", "SBATCH_")
    left = {k: v for k, v in os.environ.items() if k in _KEPT or not k.startswith(taken)}
    failures = {}
    for command in (STEP, QUEUE):
        try:
            done = subprocess.run(
                command.split(), env=left, capture_output=True, text=True, timeout=SECONDS
            )
        except (OSError, subprocess.SubprocessError) as error:
            failures[command] = str(error)
            continue
        if done.returncode:
            failures[command] = " ".join((done.stderr or done.stdout).split())
    return failures


def look_for_software(answer: Answer, packages: tuple[str, ...], gpu: bool) -> None:
    """Import packages, and see whether they use the GPU if there is one."""
    for name in packages:
        try:
            module = importlib.import_module(name)
        except Exception as error:  # compiled packages raise many types
            answer.packages[name] = f"{type(error).__name__}: {' '.join(str(error).split())}"
        else:
            answer.versions[name] = str(getattr(module, "__version__", "?"))
    if not gpu:
        return
    answer.driver, answer.no_compiler = _driver(), missing_to_compile()
    if "torch" in answer.versions:
        import torch

        answer.no_gpu, answer.cuda = why_no_gpu(), torch.version.cuda or ""
        if not answer.no_gpu:
            device = torch.cuda.get_device_properties(0)
            answer.gpu = f"{device.name} {device.total_memory / 1e9:.0f} GB"
    if "vllm" in answer.versions and not answer.no_gpu:
        from vllm.platforms import current_platform

        if current_platform.is_cpu():
            answer.no_gpu = "vLLM is built for CPUs"


def missing_to_compile() -> str:
    """What Triton lacks on this host: it compiles C for each kernel (runtime/build.py)."""
    compilers, include = (os.environ.get("CC", "gcc"), "clang"), sysconfig.get_paths()["include"]
    missing = [] if any(map(shutil.which, compilers)) else ["a C compiler"]
    header = Path(include, "Python.h")
    return " and ".join(missing + [str(header)] * (not header.is_file()))


def _driver() -> str:
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(query, capture_output=True, text=True, timeout=SECONDS, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.split()[0] if done.stdout.split() else ""


def _ask_judge(answer: Answer, url: str) -> None:
    import httpx

    try:
        # Without the proxies of the environment, as the judge's client.
        with httpx.Client(trust_env=False, timeout=SECONDS) as client:
            models = client.get(f"{url}/v1/models").raise_for_status().json()["data"]
            answer.judge = [model["id"] for model in models]
    except (httpx.HTTPError, ValueError, LookupError, TypeError) as error:
        answer.no_judge = f"{type(error).__name__}: {' '.join(str(error).split())}"


def answer(task: Task) -> Answer:
    """Do the checks on this host."""
    host = os.environ.get("SLURMD_NODENAME") or platform.node()
    result = Answer(seen(Path(task.file), task.text), host, failing())
    look_for_software(result, task.packages, task.gpu)
    if task.judge:
        _ask_judge(result, task.judge)
    return result


if __name__ == "__main__":
    print(json.dumps(asdict(answer(Task(**json.loads(sys.argv[1]))))))
