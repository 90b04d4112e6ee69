"""The state of a result: whether it is still good, and the words that say so.

No other module judges results. Snakemake decides which tasks run by asking `recorded_staleness` for
each job. A command of `rspo` refuses to read what this module does not find current. `rspo status`,
`rspo trace` and the check of Snakemake's plan only format a state.

The files "behind" a result are all from which it was made: its inputs, their inputs, and so on.
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from rspo.core.files import digest
from rspo.core.settings import differences, first_of
from rspo.pipeline.provenance import (
    inputs_of,
    provenance_path,
    read_provenance,
    size_of,
    sizes_in,
    was_made_again,
)
from rspo.pipeline.task import Task

# This file in a checkpoint folder has the settings and inputs of the training. It is written before
# all other files there and removed before them, so a folder without it is what remains of a killed
# removal.
ORIGIN_FILE = "origin.json"

# Files of the first checkpoint in this folder: of a training in one process, and of verl.
STATE_FILE = "state.pt"
VERL_FILE = "latest_checkpointed_iteration.txt"
Inputs = Sequence[tuple[Path, Task]]  # files, each with the task that writes it


class Condition(Enum):
    """What a result is good for."""

    MISSING = "it does not exist"
    CURRENT = "it is what its task would write now"
    STALE = "its task would write something else now"
    DAMAGED = "it is not what its task wrote"
    FOREIGN = "no provenance tells which task wrote it"


class Reason(Enum):
    """Why a result is in its condition. `CONDITIONS` and `SENTENCES` have an entry for each.

    NO_FILE and REMOVED both mean that the file does not exist, and differ only in their sentence:
    `state_of` returns the first, which leads to a command, and `content_state` the second.
    """

    NO_FILE = "no file"
    REMOVED = "removed"
    UNCHANGED = "unchanged"
    OTHER_SETTINGS = "other settings"
    NEW_INPUT = "new input"
    FORMER_INPUT = "former input"
    OTHER_VERSION = "other version"
    OTHER_CONTENT = "other content"
    OTHER_FILES = "other files"
    NOT_COMPLETE = "not complete"
    NO_PROVENANCE = "no provenance"


CONDITIONS = {
    Reason.NO_FILE: Condition.MISSING,
    Reason.REMOVED: Condition.MISSING,
    Reason.UNCHANGED: Condition.CURRENT,
    Reason.OTHER_SETTINGS: Condition.STALE,
    Reason.NEW_INPUT: Condition.STALE,
    Reason.FORMER_INPUT: Condition.STALE,
    Reason.OTHER_VERSION: Condition.STALE,
    Reason.OTHER_CONTENT: Condition.DAMAGED,
    Reason.OTHER_FILES: Condition.DAMAGED,
    Reason.NOT_COMPLETE: Condition.DAMAGED,
    Reason.NO_PROVENANCE: Condition.FOREIGN,
}

# What users read. {path} is the result, {detail} what the state names.
SENTENCES = {
    Reason.NO_FILE: "{path}: no such file",
    Reason.REMOVED: "{path} is missing",
    Reason.UNCHANGED: "{path} is up to date",
    Reason.OTHER_SETTINGS: "{path} was made with other settings ({detail})",
    Reason.NEW_INPUT: "{path} was made without {detail}, which is an input of it",
    Reason.FORMER_INPUT: "{path} was made from {detail}, which is no longer an input of it",
    Reason.OTHER_VERSION: "{path} was made from another version of {detail}",
    Reason.OTHER_CONTENT: "{path} was damaged or changed after it was written",
    Reason.OTHER_FILES: "{path} was damaged or changed after it was written (bytes of {detail})",
    Reason.NOT_COMPLETE: "{path} is damaged",
    Reason.NO_PROVENANCE: "{path} has no readable provenance, so its settings are unknown",
}


@dataclass(frozen=True)
class State:
    """What a result is good for, and why.

    path: the file or folder.
    detail: what the reason names, such as the settings that differ.
    task: the task that writes the result, if it is known.
    """

    path: Path
    reason: Reason
    detail: str = ""
    task: Task | None = None

    @property
    def condition(self) -> Condition:
        """What the result is good for, which follows from the reason."""
        return CONDITIONS[self.reason]

    @property
    def is_current(self) -> bool:
        """Whether the result exists and is what its task would write now."""
        return self.condition is Condition.CURRENT

    @property
    def is_fault(self) -> bool:
        """Whether the result exists and must not be used."""
        return self.condition not in (Condition.CURRENT, Condition.MISSING)

    def __str__(self) -> str:
        return SENTENCES[self.reason].format(path=self.path, detail=self.detail)

    @property
    def refusal(self) -> str:
        """A sentence with the state and how to repair it: with a command, or by removing files."""
        assert self.task is not None  # only the task knows the command
        if self.reason is Reason.NO_FILE:
            return f"{self}; `{self.task.command}` makes it"
        if self.reason is Reason.NOT_COMPLETE:  # a damaged checkpoint: nothing can resume from it
            return f"{self}; `{self.task.command} --force` starts from step 1"
        if self.condition is Condition.DAMAGED and not is_begun_with_settings(self.task):
            # If files were added to the folder and nothing else changed, removing them repairs it.
            settings_then = read_provenance(self.path).get("settings")
            added = added_files(self.path)
            if added and not differences(settings_then, self.task.settings):
                return f"{self}; remove {first_of(added)}"
        return f"{self}; {remedy(self.task)}"


def remedy(task: Task) -> str:
    """The command that makes the outputs again, or continues to make them."""
    if is_begun_with_settings(task):  # --force would start from the beginning
        return f"`{task.command}` resumes it"
    return f"`{task.command} --force` makes it again"


def state(task: Task, deep: bool = False) -> State:
    """The state of a task's outputs: the first one with a fault, or else the first missing one.

    Args:
        deep: also read the contents of the outputs; otherwise names, sizes and provenance decide.
    """
    result = State(task.outputs[0], Reason.UNCHANGED, task=task)
    for path in task.outputs:
        output = state_of(task, path, deep)
        if output.is_fault:
            return output
        if result.is_current:
            result = output
    return result


def state_of(task: Task, path: Path, deep: bool = False) -> State:
    """The state of one output of a task. With `deep`, this also reads its contents."""
    if not path.exists():
        return State(path, Reason.NO_FILE, task=task)
    note = read_provenance(path)
    if note:
        changed = differences(note["settings"], task.settings)
        if changed:
            return State(path, Reason.OTHER_SETTINGS, changed, task)
    content = content_state(path, deep, task)
    if not content.is_current:
        return content
    return _state_of_inputs(task, path, note)


def content_state(path: Path, deep: bool = False, task: Task | None = None) -> State:
    """Whether a result is still what its task wrote, even if the task would write another now."""
    note = read_provenance(path)
    if not path.exists():
        return State(path, Reason.REMOVED, task=task)
    if not note:
        return State(path, Reason.NO_PROVENANCE, task=task)
    if path.is_dir() and "files" in note:  # earlier versions of this package wrote no `files`
        changed = differences(note["files"], sizes_in(path))
        if changed:
            return State(path, Reason.OTHER_FILES, changed, task)
    elif size_of(path) != note["bytes"]:
        return State(path, Reason.OTHER_CONTENT, task=task)
    if deep and digest(path) != note["digest"]:
        return State(path, Reason.OTHER_CONTENT, task=task)
    return State(path, Reason.UNCHANGED, task=task)


def _state_of_inputs(task: Task, path: Path, note: Mapping[str, Any]) -> State:
    """Whether an output was made from the files and versions that are its task's inputs now."""
    inputs_then = inputs_of(path, note)
    # Originals are no inputs of a task. Instead, the settings of `prepare` have the digest of the
    # user's file.
    originals = {Path(name) for name in note.get("originals", ())}
    inputs_now = {Path(os.path.normpath(source)) for source in task.input_files}
    # The first input that differs is enough for the message.
    for source in sorted(inputs_now - inputs_then.keys()):
        return State(path, Reason.NEW_INPUT, str(source), task)
    for source in sorted(inputs_then.keys() - originals - inputs_now):
        return State(path, Reason.FORMER_INPUT, str(source), task)
    return _state_of_versions(path, inputs_then, sorted(inputs_now), task)


def _state_of_versions(
    path: Path,
    inputs_then: Mapping[Path, str],
    inputs_now: Iterable[Path],
    task: Task | None = None,
) -> State:
    """Whether the inputs of a result still have the versions from which it was made.

    Args:
        inputs_then: the inputs when it was made, with their digests.
        inputs_now: the inputs of its task now. Those that are not in `inputs_then` are ignored.
    """
    for source in inputs_now:
        if source in inputs_then and was_made_again(source, inputs_then[source]):
            return State(path, Reason.OTHER_VERSION, str(source), task)
    return State(path, Reason.UNCHANGED, task=task)


def has_settings_hash(path: Path) -> bool:
    """Whether the provenance of a result exists and has the fingerprint of its settings."""
    return read_provenance(path).get("settings_hash") is not None


def recorded_staleness(
    path: Path, settings_hash: str, job_inputs: Iterable[Path], task: Task | None = None
) -> State | None:
    """Why a result is stale; None if it is not stale, or has no provenance.

    Snakemake asks this for every job that it plans, so it reads provenance, names and sizes but no
    contents. Snakemake makes stale results again and acts on no other state. It does not replace a
    damaged or foreign result, because that is the decision of its owner; the check of the plan
    reports it. A result that somebody has removed stays removed if its inputs change.

    Args:
        settings_hash: the fingerprint of the task's settings now.
        job_inputs: the results that the job reads. The provenance of a missing one still tells
            which version it was.
        task: the task of the job. With it, a result that was made from other files is stale too,
            such as a figure of another folder of results that was copied here.
    """
    note = read_provenance(path)
    if not note or note.get("settings_hash") is None:
        return None
    if note["settings_hash"] != settings_hash:
        # Snakemake prints the old hash as the old value of the parameter `settings`.
        return State(path, Reason.OTHER_SETTINGS, note["settings_hash"])
    if not content_state(path).is_current:  # missing or damaged, which is not stale
        return None
    inputs_then = inputs_of(path, note)
    inputs_now = [Path(os.path.normpath(source)) for source in job_inputs]
    versions = _state_of_versions(path, inputs_then, inputs_now)
    if not versions.is_current:
        return versions
    others = [source for source in inputs_now if source not in inputs_then]
    # Snakemake's jobs have inputs that no task reads, such as the held-out problems of a training.
    if task is not None and others:
        read = {Path(os.path.normpath(source)) for source in task.input_files}
        for source in others:
            if source in read:
                return State(path, Reason.NEW_INPUT, str(source), task)
    return None


def behind(inputs: Inputs, planned: Iterable[Path] = ()) -> dict[Path, State]:
    """The states of files, of their inputs, and so on, in the order in which they are made.

    Args:
        planned: files that will be made again. They are skipped, and so is whatever only they
            depend on.
    """
    return {path: state_of(task, path) for path, task in files_behind(inputs, planned).items()}


def files_behind(inputs: Inputs, planned: Iterable[Path] = ()) -> dict[Path, Task]:
    """The files whose states `behind` returns, each with the task that writes it."""
    tasks: dict[Path, Task] = {}
    seen = set(planned)

    def visit(pairs: Inputs) -> None:
        for path, task in pairs:
            if path not in seen:
                seen.add(path)
                visit(task.inputs())
                tasks[path] = task  # after its inputs, as in the order of making

    visit(inputs)
    return tasks


def refusals(states: Iterable[State]) -> Iterator[tuple[Task, str]]:
    """Each task with a faulty result, and a sentence about its first one, in the order of `states`.

    A task with several faulty results is yielded once, because one command repairs them all.
    """
    refused = set()
    for result in states:
        task = result.task
        if result.is_fault and task is not None and task.command not in refused:
            refused.add(task.command)
            yield task, result.refusal


def is_good(task: Task) -> bool:
    """Whether the outputs of a task are current, and no file from which they were made has a fault.

    Such a file may be missing: a user may remove what is not needed any more.
    """
    if not state(task).is_current:
        return False
    return not any(source.is_fault for source in behind(task.inputs()).values())


def is_removed(path: Path) -> bool:
    """Whether a result is gone and its provenance is still there."""
    return not path.exists() and provenance_path(path).exists()


def added_files(folder: Path) -> list[str]:
    """The files that were added to a folder since it was written, if nothing else changed there.

    Returns: the sorted paths relative to the folder; empty if a file was changed or removed, and if
        the provenance does not list the files.
    """
    note = read_provenance(folder)
    if not folder.is_dir() or "files" not in note:
        return []
    sizes_then = note["files"]
    sizes_now = sizes_in(folder)
    for name, size in sizes_then.items():
        if sizes_now.get(name) != size:
            return []
    return sorted(sizes_now.keys() - sizes_then.keys())


def origin_of(checkpoint: Path) -> dict[str, Any]:
    """The settings and inputs of a checkpoint; empty if it does not exist or they are damaged."""
    try:
        origin: dict[str, Any] = json.loads((checkpoint / ORIGIN_FILE).read_text())
    except (OSError, ValueError):
        return {}
    return origin


def has_steps(checkpoint: Path) -> bool:
    """Whether a checkpoint folder has steps from which a process can resume.

    A process writes the origin when it begins, and these files after some steps.
    """
    return any((checkpoint / name).exists() for name in (STATE_FILE, VERL_FILE))


def is_begun(task: Task) -> bool:
    """Whether an earlier process began the work, left a checkpoint, and did not finish."""
    origin = _origin_file(task)
    return origin is not None and origin.is_file() and not is_left(task)


def is_begun_with_settings(task: Task) -> bool:
    """Whether `is_begun`, and the earlier process had the settings of the task.

    The inputs may have changed since.
    """
    if task.checkpoint is None or not is_begun(task):
        return False
    return not differences(origin_of(task.checkpoint).get("settings"), task.settings)


def is_left(task: Task) -> bool:
    """Whether the process that wrote the checkpoint finished, but did not remove it.

    Such a process was killed in its last moments. It writes the provenance of all outputs when it
    finishes, so this provenance is newer than the origin file, which it wrote when it began.
    """
    origin = _origin_file(task)
    if origin is None or not origin.is_file():
        return False
    if not has_outputs(task):
        return False
    began = origin.stat().st_mtime_ns
    return all(provenance_path(path).stat().st_mtime_ns > began for path in task.outputs)


def has_outputs(task: Task) -> bool:
    """Whether all outputs exist and have provenance; they may be stale."""
    return all(path.exists() and read_provenance(path) for path in task.outputs)


def _origin_file(task: Task) -> Path | None:
    """The path of the origin file of a task, which need not exist; None if it cannot resume."""
    return task.checkpoint / ORIGIN_FILE if task.checkpoint else None
