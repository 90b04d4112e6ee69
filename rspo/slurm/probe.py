"""What `rspo doctor` runs on a node: does it see the project's files, this software, the locks?

python -m rspo.slurm.probe FILE TEXT

It prints a line of JSON: `{"file": "ok", "commands": {}}`, or what is wrong with either.
"""

import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path

# What a job on a node asks SLURM for: each of its steps, and to be put back into the queue.
STEP, QUEUE = "srun --version", "scontrol ping"
SECONDS = 20  # for either to answer
# What Snakemake's plugin leaves of SLURM's variables: which job it is, and not where SLURM's
# configuration stands (snakemake_executor_plugin_slurm_jobstep 0.6).
_KEPT = ("SLURM_JOB_ID", "SLURM_JOBID", "SLURM_CLUSTER_NAME", "SLURM_SUBMIT_DIR")


def seen(file: Path, text: str) -> str:
    """`ok`, or what this host does not see: the file's text, or the lock that is held on it."""
    try:
        found = file.read_text()
    except OSError:
        return "unseen"
    if found != text:
        return "old"
    with file.open("r+") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return "ok"
    return "unlocked"


def failing() -> dict[str, str]:
    """Which of SLURM's commands does not work in a job on this host, and why."""
    taken = ("SLURM_", "SRUN_", "SBATCH_")
    left = {k: v for k, v in os.environ.items() if k in _KEPT or not k.startswith(taken)}
    found = {}
    for command in (STEP, QUEUE):
        try:
            done = subprocess.run(
                command.split(), env=left, capture_output=True, text=True, timeout=SECONDS
            )
        except (OSError, subprocess.SubprocessError) as error:
            found[command] = str(error)
            continue
        if done.returncode:
            found[command] = " ".join((done.stderr or done.stdout).split())
    return found


if __name__ == "__main__":
    print(json.dumps({"file": seen(Path(sys.argv[1]), sys.argv[2]), "commands": failing()}))
