"""Check whether the nodes can run this Python, and see this folder and its file locks."""

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from rspo.core.errors import InputError
from rspo.core.locks import LOCK, exclusive_lock
from rspo.slurm.cluster import NoAnswer, run
from rspo.slurm.cluster_checks import accepted
from rspo.slurm.launch import ERROR, INFO, Finding, Launch
from rspo.slurm.profile import options_of_all_jobs

SECONDS = 60  # how long to wait for a free node of a partition, before its check is skipped
# The options that decide on which nodes a job may run.
_OPTIONS = ("--partition=", "--account=", "--qos=", "--constraint=")
_STARTED = "started on a node"  # what the script prints first
# The program that runs on a node, with the path of the lock file as its argument.
_ON_A_NODE = """import sys, pathlib
from rspo.core.locks import is_locked
print("locked:", is_locked(pathlib.Path(sys.argv[1])))"""


def locks(launch: Launch) -> Iterator[Finding]:
    """Check whether a node of each partition sees a lock that this host holds in this folder."""
    with tempfile.TemporaryDirectory(prefix=".rspo-doctor-", dir=Path.cwd()) as folder:
        try:
            with exclusive_lock(Path(folder)):
                yield from _on_nodes(launch, Path(folder, LOCK))
        except InputError as error:
            yield Finding(ERROR, str(error))


def _on_nodes(launch: Launch, lock: Path) -> Iterator[Finding]:
    """Look from a node of each partition at a lock file that this process has locked."""
    # Snakemake puts this before the command of each job. Like there, it is text in double quotes,
    # which a shell evaluates.
    precommand = launch.profile.get("precommand") or "true"
    quoted = precommand.replace('"', '\\"')
    script = f'echo {_STARTED}; eval "{quoted}" && exec "$@"'
    for options in _placements(launch):
        # One task of at most 2 minutes with 1000 MB of memory, or none if no node is free in time.
        words = ["srun", "-n1", "-t2", "--mem=1000", f"--immediate={SECONDS}"]
        words += options
        words += ["sh", "-c", script, "sh", sys.executable, "-c", _ON_A_NODE, str(lock)]
        try:
            # The wait for a node, the 2 minutes of the task, and a minute more.
            done = run(*words, seconds=SECONDS + 180)
            output = done.stdout
            reason = done.stderr or "srun printed nothing"
        except NoAnswer as error:
            output = ""
            reason = str(error)
        reason = " ".join(reason.split())
        where = f"a node ({' '.join(options) or 'default partition'})"
        # Scripts of the cluster may print lines before and after the line of our program.
        if "locked: True" in output:
            yield Finding(INFO, f"{where} sees this folder and its locks")
        elif "locked: False" in output:
            yield Finding(
                ERROR,
                f"{where} does not see this folder, or ignores a lock that another host holds in "
                "it: two jobs could train one cell; use a file system that all nodes share, "
                "mounted with flock (Lustre: -o flock; NFS: version 4)",
            )
        elif _STARTED in output:
            command = f"{precommand} && {sys.executable}"
            yield Finding(ERROR, f"{where} cannot run `{command}`: {reason}")
        else:
            yield Finding(INFO, f"{where} was not checked: {reason}")


def _placements(launch: Launch) -> list[list[str]]:
    """The options that decide where jobs run, for each request, without duplicates.

    Empty if there is no SLURM. Requests that SLURM refuses are left out.
    """
    if launch.slurm is None:
        return []
    placements = set()
    for request in accepted(launch, launch.slurm):
        options = [option for option in request.options if option.startswith(_OPTIONS)]
        placements.add(tuple(options + options_of_all_jobs(launch.profile)))
    return [list(options) for options in sorted(placements)]
