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

from rspo.core.errors import InputError
from rspo.core.locks import locks_unsupported
from rspo.slurm.cluster import NoAnswer, run
from rspo.slurm.cluster_checks import accepted
from rspo.slurm.launch import ERROR, INFO, Finding, Kind, Launch
from rspo.slurm.probe import Task
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
    server = (judge.url, judge.model) if judge and judge.url else ()
    needed = {name for request in requests for name in _packages(launch, request)}
    packages = tuple(name for name in _IMPORT_ORDER if name in needed)
    gpus = [request for request in requests if request.gpus]
    # Of these packages, only vLLM always needs the GPU that was requested.
    uses_gpu = bool(gpus) and "vllm" in packages
    minutes = max(min(IMPORT_MINUTES, request.minutes or IMPORT_MINUTES) for request in requests)
    words = ["srun", "-n1", f"-t{max(1, math.floor(minutes))}", f"--immediate={PROBE_SECONDS}"]
    words += [f"--mem={IMPORT_MEGABYTES}"] if packages else []
    words += options
    words += [f"--gres={replace(gpus[-1], gpus=1).gres}"] if gpus else []
    with _locked_file() as (file, text):
        task = Task(str(file), text, packages, uses_gpu, *server)
        words += _command(task, _precommand(launch.profile))
        try:
            done = run(*words, seconds=SECONDS_TO_ANSWER)
        except NoAnswer as error:
            yield _no_answer(launch, str(error))
            return
    # Scripts of the cluster may print lines before and after it. `srun` may exit with 0 although
    # SLURM lost its job, as when a controller lost its state.
    answers = [line for line in done.stdout.splitlines() if line.startswith('{"host"')]
    if not answers:
        yield _no_answer(launch, " ".join(done.stderr.split()) or "srun printed nothing")
        return
    answer = json.loads(answers[-1])
    about = f" ({answer['about']})" if answer["about"] else ""
    summary = f"sees this folder, its locks, this software and SLURM{about}"
    for kind, line in answer["findings"] or [[INFO, summary]]:
        yield Finding(Kind(kind), f"node {answer['host']} {line}")


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
