"""Checks on a node of every partition: folder, file locks, software, GPU, SLURM and judge."""

import fcntl
import json
import math
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from rspo.config.schema import XVerifySettings
from rspo.core.errors import InputError
from rspo.core.locks import locks_unsupported
from rspo.slurm import probe
from rspo.slurm.cluster import NoAnswer, run
from rspo.slurm.cluster_checks import accepted
from rspo.slurm.launch import ERROR, INFO, WARNING, Finding, Launch
from rspo.slurm.probe import Answer, Task
from rspo.slurm.profile import PROFILE, Request, options_of_all_jobs, setting

# Seconds to wait for a free node of a partition before its check is skipped.
PROBE_SECONDS = 60
# Importing all packages from a slow file system takes minutes, and a few gigabytes of memory.
IMPORT_MINUTES = 5
SECONDS_TO_ANSWER = PROBE_SECONDS + 60 * (IMPORT_MINUTES + 2)
IMPORT_MEGABYTES = 16000
# Options of `sbatch` and `srun` that decide on which nodes and on whose account a job may run.
_PLACEMENT = {
    "--account": "-A",
    "--clusters": "-M",
    "--constraint": "-C",
    "--exclude": "-x",
    "--nodelist": "-w",
    "--partition": "-p",
    "--qos": "-q",
    "--reservation": None,
}
_IMPORT_ORDER = ("torch", "vllm", "flash_attn", "verl")
# What `srun` says of a command that failed by itself. Other failures, such as a lost node, a busy
# partition or a killed command (137: its shell reports it), say nothing about the profile.
_FAILED = re.compile(
    r": task \d+: (Exited with exit code (?!137\b|143\b)|Segmentation fault|Aborted)"
)


def locks(launch: Launch) -> Iterator[Finding]:
    """Whether the file system of this folder supports file locks, which protect a cell's folder."""
    try:
        with _locked_file():
            pass
    except InputError as error:
        yield Finding(ERROR, str(error))


def nodes(launch: Launch) -> Iterator[Finding]:
    """Run `rspo.slurm.probe` on one node for every kind of placement in the requests."""
    if launch.slurm is None or list(locks(launch)):
        return
    placements: dict[tuple[str, ...], list[Request]] = {}
    for request in accepted(launch, launch.slurm):
        options = (*_placement_options(request.options), *options_of_all_jobs(launch.profile))
        placements.setdefault(options, []).append(request)
    for options, requests in placements.items():
        partition = requests[0].partition
        where = f"partition {partition}" if partition else "the default partition"
        more = [word for word in options if not word.startswith(("--partition=", "--account="))]
        for finding in _node(launch, options, requests):
            yield Finding(finding.kind, f"{' '.join([where, *more])}: {finding.line}")


def _packages(launch: Launch, request: Request) -> Iterator[str]:
    """What the jobs of a request import, if they use the environment of this process."""
    experiment = launch.experiment
    if launch.deployment:
        return
    if request.rule == "train":
        yield "torch"
        if experiment.config.engine == "verl":
            yield "verl"
        if experiment.trains_on_gpus:
            yield "vllm"
            if "flash_attention_2" in launch.config_check.attention:
                yield "flash_attn"
    if request.rule == "sample":
        yield from ("torch", "vllm") if experiment.config.sampler == "vllm" else ("torch",)
    if request.rule in launch.starting_judges:
        yield from ("torch", "vllm")


def _placement_options(options: Sequence[str]) -> Iterator[str]:
    """Those of `_PLACEMENT`, written as `--qos=high`, `--qos high` or `-q high`."""
    words = iter(options)
    for word in words:
        if word in _PLACEMENT or word in _PLACEMENT.values():
            yield from (word, next(words, ""))
        elif word.split("=")[0] in _PLACEMENT:
            yield word


def _precommand(profile: Mapping[str, Any]) -> str:
    """The shell command that a job runs first; empty if there is none.

    Snakemake and the plugin's `sbatch --wrap="..."` both expand this host's variables in it
    (snakemake 9.27, snakemake_executor_plugin_slurm 2.8).
    """
    text = os.path.expandvars(str(profile.get("precommand") or ""))
    if not text or profile.get(setting(profile, "pass-command-as-script")):
        return text
    quoted = text.replace('"', '\\"')
    wrapped = ["sh", "-c", f'printf %s "{quoted}"']
    done = subprocess.run(wrapped, capture_output=True, text=True)
    # On a syntax error the job's shell fails too, and the node reports it.
    return text if done.returncode else done.stdout


def _node(launch: Launch, options: Sequence[str], requests: list[Request]) -> Iterator[Finding]:
    """Whether a node has this software and GPUs, sees a lock of this host, and reaches SLURM.

    Args:
        options: of `srun`, with which the jobs of all these requests may run on the node.
    """
    judged = any(request.rule in launch.judging for request in requests)
    judge = launch.experiment.config.xverify if judged else None
    needed = {name for request in requests for name in _packages(launch, request)}
    packages = tuple(name for name in _IMPORT_ORDER if name in needed)
    gpus = [request for request in requests if request.gpus]
    # Of these packages, only vLLM always needs the GPU that was requested.
    uses_gpu, url = bool(gpus) and "vllm" in packages, (judge.url if judge else None) or ""
    minutes = max(min(IMPORT_MINUTES, request.minutes or IMPORT_MINUTES) for request in requests)
    words = ["srun", "-n1", f"-t{max(1, math.floor(minutes))}", f"--immediate={PROBE_SECONDS}"]
    words += [f"--mem={IMPORT_MEGABYTES}"] if packages else []
    words += options
    words += [f"--gres={replace(gpus[-1], gpus=1).gres}"] if gpus else []
    with _locked_file() as (file, text):
        task = Task(str(file), text, packages, uses_gpu, url)
        words += _command(task, _precommand(launch.profile))
        try:
            done = run(*words, seconds=SECONDS_TO_ANSWER)
        except NoAnswer as error:
            yield _no_answer(launch, str(error))
            return
    # Scripts of the cluster may print lines before and after it. `srun` may exit with 0 although
    # SLURM lost its job, as when a controller lost its state.
    answers = [line for line in done.stdout.splitlines() if line.startswith('{"file"')]
    if not answers:
        yield _no_answer(launch, " ".join(done.stderr.split()) or "srun printed nothing")
        return
    answer = Answer(**json.loads(answers[-1]))
    findings = [*_shared(file.parent, answer), *software(answer), *_judge(judge, answer)]
    summary = f"sees this folder, its locks, this software and SLURM ({details(answer)})"
    for finding in findings or [Finding(INFO, summary.removesuffix(" ()"))]:
        yield Finding(finding.kind, f"node {answer.host} {finding.line}")


def _command(task: Task, first: str) -> list[str]:
    """The probe, after the shell commands that jobs run first."""
    words = [sys.executable, "-m", "rspo.slurm.probe", json.dumps(asdict(task))]
    if not first:
        return words
    # Their output goes to standard error, so that it is not taken for the probe's.
    return ["/bin/sh", "-c", f'exec 3>&1 >&2; {first} && exec "$@" >&3', "sh", *words]


def _no_answer(launch: Launch, why: str) -> Finding:
    """What it means that `srun` failed."""
    if not _FAILED.search(why):
        return Finding(INFO, f"files and software were not checked on a node ({why})")
    commands = ["its precommand"] if launch.profile.get("precommand") else []
    commands.append(f"{sys.executable} -m rspo.slurm.probe")
    return Finding(ERROR, f"{PROFILE}: {' or '.join(commands)} fails on a node: {why}")


def _shared(folder: Path, answer: Answer) -> Iterator[Finding]:
    """Whether the node shares files, locks and SLURM's commands with this host."""
    if answer.file == "unlocked":
        yield Finding(
            ERROR,
            f"ignores a lock that this host holds in {folder}: two jobs could "
            "train one cell; mount the file system with flock (Lustre: -o flock; NFS: version 4)",
        )
    elif answer.file != "ok":
        yield Finding(
            ERROR,
            f"does not see {folder} as this host does: use a folder of a shared file system",
        )
    consequences = {
        probe.STEP: (ERROR, "no job could start its step"),
        probe.QUEUE: (WARNING, "no job could requeue itself"),
    }
    for command, reason in answer.commands.items():
        kind, consequence = consequences[command]
        yield Finding(
            kind,
            f"cannot run `{command}` ({reason}): {consequence}; SLURM's "
            "commands must be there and find their configuration without SLURM_CONF, which jobs do "
            "not inherit",
        )


def software(answer: Answer) -> Iterator[Finding]:
    """Whether the packages can be imported there and use the GPU."""
    for name, reason in answer.packages.items():
        yield Finding(ERROR, f"cannot import {name} ({reason}); `make setup-gpu` installs it")
    if answer.no_gpu:
        yield Finding(
            ERROR,
            f"has a GPU that jobs would not use: {answer.no_gpu} (PyTorch's CUDA: "
            f"{answer.cuda or 'none'}, NVIDIA's driver: {answer.driver or 'none'}); `make "
            "setup-gpu` installs PyTorch and vLLM for GPUs, which need driver 580 or newer",
        )
    if answer.no_compiler:
        yield Finding(
            ERROR,
            f"lacks {answer.no_compiler}: Triton compiles a C program for each kernel; load a "
            "compiler in the precommand, or make .venv with a Python that has its headers",
        )


def _judge(settings: XVerifySettings | None, answer: Answer) -> Iterator[Finding]:
    """Whether the judge's server answers the node and serves the model of the config."""
    if settings is None or settings.url is None:
        return
    if answer.no_judge:
        yield Finding(
            ERROR,
            f"gets no list of models from xverify.url = {settings.url} ({answer.no_judge}): start "
            "vLLM's server, and set its address, such as http://NODE:8000, or null",
        )
    elif settings.model not in answer.judge:
        yield Finding(
            ERROR,
            f"reaches xverify.url = {settings.url}, which serves {', '.join(answer.judge)}, not "
            f"xverify.model = {settings.model}: start it with --served-model-name {settings.model}",
        )


def details(answer: Answer) -> str:
    """The GPU, and the versions of CUDA, the driver and the packages."""
    versions = [f"{name} {version}" for name, version in answer.versions.items()]
    driver = f"driver {answer.driver}" if answer.driver else ""
    cuda = f"CUDA {answer.cuda}" if answer.cuda else ""
    return ", ".join(filter(None, [answer.gpu, cuda, driver, *versions]))


@contextmanager
def _locked_file() -> Iterator[tuple[Path, str]]:
    """A temporary file in the current folder with random content, locked by this process."""
    text = os.urandom(8).hex()
    with tempfile.NamedTemporaryFile("w", prefix=".rspo-doctor-", dir=Path.cwd()) as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
        try:
            fcntl.flock(stream, fcntl.LOCK_EX)
        except OSError as error:
            raise locks_unsupported(str(Path.cwd()), error) from None
        yield Path(stream.name), text
