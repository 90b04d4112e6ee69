"""Which checkpoint of verl a run resumes from, and which it removes."""

from pathlib import Path

import pytest

from rspo.training.verl.checkpoints import LATEST_FILE, keep_the_last, last_step


def make(folder: Path, steps: list[int], note: str | None) -> None:
    for step in steps:
        (folder / f"global_step_{step}" / "actor").mkdir(parents=True)
    if note is not None:
        (folder / LATEST_FILE).write_text(note)


@pytest.mark.parametrize(
    ("steps", "note", "last"),
    [
        ([], None, 0),
        ([2, 4, 6], "4", 4),  # killed while it wrote the checkpoint of step 6
        ([2], None, 0),  # killed while it wrote the first
        ([2, 10, 4], "", 10),  # killed between the checkpoint of step 10 and its note
        ([6, 8], "8", 8),
    ],
)
def test_only_the_last_complete_checkpoint_is_kept(
    tmp_path: Path, steps: list[int], note: str | None, last: int
) -> None:
    make(tmp_path, steps, note)
    keep_the_last(tmp_path)
    assert last_step(tmp_path) == last
    assert [path.name for path in tmp_path.glob("global_step_*")] == (
        [f"global_step_{last}"] if last else []
    )
