"""What lies in a cell's folder of checkpoints, besides what verl writes there."""

import shutil
from pathlib import Path

from rspo.files import write_text

# verl's note of the last checkpoint that is whole, as trainer/ppo/v1/trainer_base.py writes it.
NOTE_FILE = "latest_checkpointed_iteration.txt"
RECORDS_FILE = "records.json"  # inside each: the steps behind it
OUTCOME_FILE = "outcome.json"  # how the last try ended: its kind, and in words


def last_step(checkpoints: Path) -> int:
    """Of the last checkpoint that is whole; 0 if there is none."""
    note = checkpoints / NOTE_FILE
    return int(note.read_text() or 0) if note.exists() else 0


def keep_the_last(checkpoints: Path) -> None:
    """Remove all others: verl forgets at a resume which it made before, whole ones or not."""
    folders = {int(path.name.rsplit("_", 1)[1]): path for path in checkpoints.glob("global_step_*")}
    note = checkpoints / NOTE_FILE
    if folders and note.exists() and not note.read_text():
        # verl was killed between opening the note and writing it: behind a whole checkpoint.
        write_text(note, str(max(folders)))
    for step, path in folders.items():
        if step != last_step(checkpoints):
            shutil.rmtree(path)
