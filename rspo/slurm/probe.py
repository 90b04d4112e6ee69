"""What `rspo doctor` runs on a node: does it see the project's files, this software, the locks?

python -m rspo.slurm.probe FILE TEXT
"""

import fcntl
import sys
from pathlib import Path


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


if __name__ == "__main__":
    print(seen(Path(sys.argv[1]), sys.argv[2]))
