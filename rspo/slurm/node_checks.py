"""Checks on a node of every partition: the project's folder, file locks, software and SLURM."""

import fcntl
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rspo.core.errors import InputError
from rspo.core.locks import locks_unsupported
from rspo.slurm import probe
from rspo.slurm.cluster import Slurm
from rspo.slurm.profile import PROFILE, Request, options_of_all_jobs

# Seconds to wait for a free node of a partition before its check is skipped.
PROBE_SECONDS = 60
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
_REACHED = "rspo-doctor-after-precommand"
# Messages of `srun` when no node is free within --immediate, or the controller is busy.
_NONE_FREE = ("Requested nodes are busy", "timed out")

Profile = Mapping[str, Any]


def check_nodes(
    slurm: Slurm, profile: Profile, requests: Sequence[Request]
) -> tuple[list[str], list[str]]:
    """Run `rspo.slurm.probe` on one node for every kind of placement in the requests.

    Returns: what must change, and what is right or could not be checked; a line each.
    """
    change: list[str] = []
    notes: list[str] = []
    for name, options in _placements(profile, requests).items():
        problems, remarks = _node(slurm, name, options, _precommand(profile))
        change += problems
        notes += remarks
    return change, notes


def check_locks() -> Iterator[str]:
    """Whether the file system of this folder supports file locks, which protect a cell's folder."""
    try:
        with _locked_file():
            pass
    except InputError as error:
        yield str(error)


def _placements(profile: Profile, requests: Sequence[Request]) -> dict[str, list[str]]:
    """Options of `srun` that request one node, with one GPU if any, for each placement; by name."""
    placements: dict[str, list[str]] = {}
    for request in requests:
        placing = [*_placement_options(request.options), *options_of_all_jobs(profile)]
        more = [word for word in placing if not word.startswith(("--partition=", "--account="))]
        name = f"partition {request.partition}" if request.partition else "the default partition"
        kind = f"{request.gpu_type}:" if request.gpu_type else ""
        gpu = [f"--gres=gpu:{kind}1"] if request.gpus else []
        placements.setdefault(" ".join([name, *more]), [*placing, *gpu])
    return placements


def _placement_options(options: Sequence[str]) -> Iterator[str]:
    """Those of `_PLACEMENT`, written as `--qos=high`, `--qos high` or `-q high`."""
    words = iter(options)
    for word in words:
        if word in _PLACEMENT or word in _PLACEMENT.values():
            yield from (word, next(words, ""))
        elif word.split("=")[0] in _PLACEMENT:
            yield word


def _precommand(profile: Profile) -> str:
    """The shell command that a job runs first; empty if there is none.

    Snakemake and the plugin's `sbatch --wrap="..."` both expand this host's variables in it
    (snakemake 9.27, snakemake_executor_plugin_slurm 2.8).
    """
    text = os.path.expandvars(str(profile.get("precommand") or ""))
    if not text or profile.get("slurm-pass-command-as-script"):
        return text
    quoted = text.replace('"', '\\"')
    wrapped = ["sh", "-c", f'printf %s "{quoted}"']
    done = subprocess.run(wrapped, capture_output=True, text=True)
    # On a syntax error the job's shell fails too, and the node reports it.
    return text if done.returncode else done.stdout


def _node(
    slurm: Slurm, where: str, options: Sequence[str], first: str
) -> tuple[list[str], list[str]]:
    """Whether a node has this software, sees a file and a lock of this host, and reaches SLURM.

    Args:
        where: name of the placement, for messages.
        options: of `srun`.
        first: shell commands that jobs run first.

    Returns: what must change, and what is right or could not be checked.
    """
    with _locked_file() as (file, text):
        words = [sys.executable, "-m", "rspo.slurm.probe", str(file), text]
        if first:  # its output goes to standard error, so that it is not taken for the probe's
            script = f'exec 3>&1 >&2; {first} && echo {_REACHED} && exec "$@" >&3'
            words = ["/bin/sh", "-c", script, "sh", *words]
        place = ["-n1", "-t1", f"--immediate={PROBE_SECONDS}", *options]
        try:
            output = slurm.ask("srun", *place, *words, seconds=PROBE_SECONDS + 180)
        except InputError as error:
            if any(sign in str(error) for sign in _NONE_FREE):
                return [], [f"{where}: no node was free: files and software not checked ({error})"]
            return [f"{where}: {_why_no_answer(options, first, str(error))}"], []
    # Scripts of the cluster may print lines before and after it.
    answers = [line for line in output.splitlines() if line.startswith('{"file"')]
    if not answers:
        return [f"{where}: unexpected output of rspo.slurm.probe: {' '.join(output.split())}"], []
    problems = [f"{where}: {line}" for line in _problems(file.parent, json.loads(answers[-1]))]
    fine = f"{where}: a node sees this folder, its locks, this software and SLURM"
    return problems, [] if problems else [fine]


def _why_no_answer(options: Sequence[str], first: str, error: str) -> str:
    if "Unable to allocate resources" in error:
        return f"SLURM grants no node: srun {' '.join(options)}: {error}"
    why = re.sub(r"^SLURM does not answer \((.*)\)$", r"\1", error)
    if first and _REACHED not in why:
        return f"on a node {PROFILE}'s precommand `{first}` fails: {why}"
    why = why.replace(f"{_REACHED} ", "")
    return f"a node cannot run {sys.executable} -m rspo.slurm.probe: {why}"


def _problems(folder: Path, result: Mapping[str, Any]) -> Iterator[str]:
    """What to change, by the output of `rspo.slurm.probe`."""
    seen = result["file"]
    if seen == "unlocked":
        yield (
            f"a node ignores a lock that this host holds in {folder}: two jobs could "
            "train one cell; mount the file system with flock (Lustre: -o flock; NFS: version 4)"
        )
    elif seen != "ok":
        yield (
            f"a node does not see {folder} as this host does: run this in a folder "
            "of a shared file system"
        )
    consequences = {
        probe.STEP: "no job could start its step",
        probe.QUEUE: "no job could requeue itself",
    }
    for command, reason in result["commands"].items():
        yield (
            f"on a node `{command}` fails ({reason}): {consequences[command]}; SLURM's "
            "commands must be there and find their configuration without SLURM_CONF, which jobs do "
            "not inherit"
        )


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
