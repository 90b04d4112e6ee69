"""What `rspo doctor` runs on a node: checks files, file locks and SLURM's commands there.

python -m rspo.slurm.probe FILE TEXT

Prints one line of JSON: `{"file": "ok", "commands": {}}` if all is well.
"""

import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path

# Every job step needs srun; requeueing needs scontrol.
STEP, QUEUE = "srun --version", "scontrol ping"
SECONDS = 20  # timeout of each command
# Of SLURM's variables, Snakemake's plugin keeps those that identify the job. SLURM_CONF, the path
# of the configuration, is not among them (snakemake_executor_plugin_slurm_jobstep 0.6).
_KEPT = ("SLURM_JOB_ID", "SLURM_JOBID", "SLURM_CLUSTER_NAME", "SLURM_SUBMIT_DIR")


def seen(file: Path, text: str) -> str:
    """Compare a file and its lock with those of the host that wrote it.

    Returns: `ok`; `unseen`: no such file here; `old`: other content; `unlocked`: this host could
        lock the file although another one holds the lock.
    """
    try:
        content = file.read_text()
    except OSError:
        return "unseen"
    if content != text:
        return "old"
    with file.open("r+") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return "ok"
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


if __name__ == "__main__":
    print(json.dumps({"file": seen(Path(sys.argv[1]), sys.argv[2]), "commands": failing()}))
