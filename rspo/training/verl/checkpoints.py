"""What lies in a cell's folder of checkpoints, besides what verl writes there."""

import shutil
from pathlib import Path

from rspo.core.errors import InputError
from rspo.core.files import write_text

# verl's note of the last checkpoint that is whole, as trainer/ppo/v1/trainer_base.py writes it.
NOTE_FILE = "latest_checkpointed_iteration.txt"
RECORDS_FILE = "records.json"  # inside each: the steps behind it
OUTCOME_FILE = "outcome.json"  # how the last try ended: its kind, and in words


def last_step(checkpoints: Path) -> int:
    """Of the last checkpoint that is whole; 0 if there is none."""
    note = checkpoints / NOTE_FILE
    if not note.exists():
        return 0
    # verl opens the note, which empties it, when the newest checkpoint is whole: a kill between
    # that and the writing leaves it empty.
    return int(note.read_text() or max(_folders(checkpoints)))


def require_ranks(checkpoints: Path, ranks: int) -> None:
    """Each rank reads a shard of its own, as utils/checkpoint/fsdp_checkpoint_manager.py names it.

    Raises: InputError if another number of ranks wrote the last checkpoint.
    """
    folder = checkpoints / f"global_step_{last_step(checkpoints)}" / "actor"
    for shard in folder.glob("model_world_size_*_rank_0.pt"):
        found = int(shard.name.split("_")[3])
        if found != ranks:
            raise InputError(
                f"{folder}: written by {found} ranks, and the config has {ranks}, which cannot "
                f"read it; go on with verl.nodes x verl.ranks_per_node = {found}, or remove "
                f"{checkpoints} to start anew"
            )


def keep_the_last(checkpoints: Path) -> None:
    """Remove all others, whole or not; a kill meanwhile leaves the last one noted and whole.

    The note comes behind them: on a full disk there is no room for it before.
    """
    last = last_step(checkpoints)
    for step, path in _folders(checkpoints).items():
        if step != last:
            shutil.rmtree(path)
    if last:
        write_text(checkpoints / NOTE_FILE, str(last))


def _folders(checkpoints: Path) -> dict[int, Path]:
    return {int(path.name.rsplit("_", 1)[1]): path for path in checkpoints.glob("global_step_*")}
