"""Messages of a run on SLURM."""

import sys


def say(line: str) -> None:
    print(f"rspo: {line}", file=sys.stderr, flush=True)
