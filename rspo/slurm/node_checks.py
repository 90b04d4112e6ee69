"""Whether the nodes run this Python, and see this folder and its file locks."""

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

# Seconds to wait for a free node of a partition before its check is skipped.
SECONDS = 60
_OPTIONS = ("--partition=", "--account=", "--qos=", "--constraint=")
_STARTED = "started on a node"
_ON_A_NODE = """import sys, pathlib
from rspo.core.locks import is_locked
print("locked:", is_locked(pathlib.Path(sys.argv[1])))"""


def locks(launch: Launch) -> Iterator[Finding]:
    """Whether a node of each partition sees a lock that this host holds in this folder."""
    with tempfile.TemporaryDirectory(prefix=".rspo-doctor-", dir=Path.cwd()) as folder:
        try:
            with exclusive_lock(Path(folder)):
                yield from _on_nodes(launch, Path(folder, LOCK))
        except InputError as error:
            yield Finding(ERROR, str(error))


def _on_nodes(launch: Launch, lock: Path) -> Iterator[Finding]:
    requests = accepted(launch, launch.slurm) if launch.slurm else []
    every = options_of_all_jobs(launch.profile)
    placements = {
        (*(option for option in request.options if option.startswith(_OPTIONS)), *every)
        for request in requests
    }
    # What Snakemake puts before the command of each job, in the quotes of `sbatch --wrap`.
    precommand = launch.profile.get("precommand") or "true"
    quoted = precommand.replace('"', '\\"')
    script = f'echo {_STARTED}; eval "{quoted}" && exec "$@"'
    for options in sorted(placements):
        words = ["srun", "-n1", "-t2", "--mem=1000", f"--immediate={SECONDS}", *options]
        words += ["sh", "-c", script, "sh", sys.executable, "-c", _ON_A_NODE, str(lock)]
        try:
            done = run(*words, seconds=SECONDS + 180)
            output, why = done.stdout, done.stderr or "srun printed nothing"
        except NoAnswer as error:
            output, why = "", str(error)
        where = f"a node ({' '.join(options) or 'default partition'})"
        # Scripts of the cluster may print lines before and after it.
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
            yield Finding(ERROR, f"{where} cannot run `{command}`: {' '.join(why.split())}")
        else:
            yield Finding(INFO, f"{where} was not checked: {' '.join(why.split())}")
