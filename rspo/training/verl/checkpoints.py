"""A cell's checkpoint folder: the files of verl and of this package, and the space they take."""

import shutil
from pathlib import Path

from rspo.core.errors import InputError
from rspo.core.files import write_text

# Contains the step of the last complete checkpoint. verl/trainer/ppo/v1/trainer_base.py writes it.
LATEST_FILE = "latest_checkpointed_iteration.txt"
RECORDS_FILE = "records.json"  # in each checkpoint: records of the steps so far
OUTCOME_FILE = "outcome.json"  # how the last run of the driver ended: its kind and a message

# Disk space in bytes per parameter of the model.
POLICY_BYTES_PER_PARAMETER = 4  # float32
# The weights, Adam's two moments, and in the last one the weights again as a Hugging Face folder.
CHECKPOINT_BYTES_PER_PARAMETER = 4 * POLICY_BYTES_PER_PARAMETER
# Two checkpoints: `keep_the_last` removes the previous one only when the next one is complete.
PEAK_BYTES_PER_PARAMETER = 2 * CHECKPOINT_BYTES_PER_PARAMETER


def last_step(checkpoints: Path) -> int:
    """Step of the last complete checkpoint; 0 if there is none."""
    latest = checkpoints / LATEST_FILE
    if not latest.exists():
        return 0
    number = latest.read_text()
    if number:
        return int(number)
    # When the newest checkpoint is complete, verl truncates the file and then writes the number. A
    # kill in between leaves the file empty, so the newest folder has the last complete checkpoint.
    return max(_folders(checkpoints))


def require_ranks(checkpoints: Path, ranks: int, key: str) -> None:
    """Require that the last checkpoint has one shard per rank.

    Args:
        key: the key of the config that has the number of ranks, for the message.

    Raises: InputError if it was written by another number of ranks.

    Depends on verl/utils/checkpoint/fsdp_checkpoint_manager.py, which names the shards.
    """
    folder = checkpoints / f"global_step_{last_step(checkpoints)}" / "actor"
    for shard in folder.glob("model_world_size_*_rank_0.pt"):
        # The 8 of model_world_size_8_rank_0.pt.
        written_by = int(shard.name.split("_")[3])
        if written_by != ranks:
            raise InputError(
                f"{folder}: written by {written_by} ranks; {ranks} ranks cannot read it. Set "
                f"{key} = {written_by} to resume, or remove {checkpoints} to start over"
            )


def keep_the_last(checkpoints: Path) -> None:
    """Remove all checkpoints except the last complete one.

    A kill at any time leaves the last complete checkpoint intact.
    """
    last = last_step(checkpoints)
    for step, path in _folders(checkpoints).items():
        if step != last:
            shutil.rmtree(path)
    # Rewrite the file, which a kill may have left empty (see `last_step`). This comes after the
    # removal, because the removal makes room on a full disk.
    if last:
        write_text(checkpoints / LATEST_FILE, str(last))


def _folders(checkpoints: Path) -> dict[int, Path]:
    """The folder of each checkpoint by its step. The newest checkpoint may be incomplete."""
    return {int(path.name.rsplit("_", 1)[1]): path for path in checkpoints.glob("global_step_*")}
