"""A step of the pipeline as data, and what every step does before and after its own work.

A step checks its inputs: a file that was made by hand, or with other settings than the config's,
does not get into a result. It replaces a result only with `--force`; Snakemake removes those.
"""

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rspo.core.errors import InputError
from rspo.core.files import digest, fingerprint
from rspo.core.locks import exclusive_lock
from rspo.core.settings import Settings, differences, first_of
from rspo.pipeline.provenance import (
    Done,
    inputs_of,
    provenance_path,
    read_provenance,
    size_of,
    sizes_in,
    versions,
    was_made_again,
    write_provenance,
)

ORIGIN_FILE = "origin.json"  # in a checkpoint folder: settings and inputs of its training
FORCE_HINT = "--results DIR writes to another folder, --force replaces it"


class SettingsHash(str):
    """Fingerprint of a step's settings, with the step.

    Rules give it to Snakemake as a parameter, which leads from a job to its step.
    """

    step: "Task"


@dataclass(frozen=True)
class Task:
    """One call of the `rspo` command that writes results.

    outputs: the files and folders that it writes.
    settings: what decides their content besides the inputs, as plain data.
    inputs: returns the results that it reads, each with the step that writes it.
    lock: a file that a call locks, so that only one works on the outputs at the same time.
    command: the call, for messages, such as "rspo prepare train".
    configured: the settings according to the config file, where the command line gave others.
    checkpoint: the folder from which a killed call resumes, if there is one.
    replace_above: Snakemake does not replace outputs that took more minutes; None: no limit.
    """

    outputs: tuple[Path, ...]
    settings: Settings
    inputs: "Callable[[], Sequence[tuple[Path, Task]]]" = field(default=tuple, compare=False)
    lock: Path | None = None
    command: str = ""
    configured: Settings | None = None
    checkpoint: Path | None = field(default=None, compare=False)
    replace_above: float | None = field(default=None, compare=False)

    @property
    def input_files(self) -> list[Path]:
        return list(dict.fromkeys(path for path, _ in self.inputs()))

    @property
    def settings_hash(self) -> SettingsHash:
        """Fingerprint of the settings, by which Snakemake recognizes outdated files."""
        result = SettingsHash(fingerprint(self.settings))
        result.step = self
        return result

    def run(self, work: Callable[[], Done | None], force: bool = False) -> None:
        """Check the inputs, and do the work unless the outputs exist, under the lock.

        The contents of inputs and outputs are read only if there is work to do. Work that an
        earlier process began with these settings is continued.
        """
        replaces = force or self.is_begun_with_settings()
        if not replaces:
            self.require_configured()
            if self.is_current():
                print(f"{self.outputs[0]} is up to date")
                return
        self.require_inputs()
        if not replaces and (fault := self.fault_of_outputs()):
            raise InputError(f"{fault}: {FORCE_HINT}")
        with self.locked():
            if not force and self.is_current() and not self.is_begun_with_settings():
                return  # the process that held the lock has made them
            read = versions(self.input_files)
            done = work()
            self.record(done, read)
            if done and done.clean_up:
                done.clean_up()

    def require_configured(self) -> None:
        """Raises: InputError for other settings than the config's."""
        by_hand = self.configured is not None and differences(self.configured, self.settings)
        if by_hand:
            raise InputError(
                f"{self.outputs[0]} would have other settings than the config ({by_hand}): "
                "--results DIR writes to another folder, --force writes here"
            )

    def has_outputs(self) -> bool:
        """Whether all outputs exist and have provenance."""
        return all(path.exists() and read_provenance(path) for path in self.outputs)

    def is_made(self) -> bool:
        """Whether all outputs exist without a fault, by their sizes and provenance."""
        return self.has_outputs() and not self.fault_of_outputs(contents=False)

    def is_current(self) -> bool:
        """Whether all outputs are made, and no input that exists has a fault."""
        return self.is_made() and not faults_behind(self.inputs())

    def is_begun(self) -> bool:
        """Whether an earlier process began the work, left a checkpoint, and did not finish."""
        origin = self._origin_file
        return origin is not None and origin.is_file() and not self.is_left()

    def is_begun_with_settings(self) -> bool:
        """Whether that process had these settings, whatever its inputs."""
        if self.checkpoint is None or not self.is_begun():
            return False
        return not differences(origin_of(self.checkpoint).get("settings"), self.settings)

    def is_left(self) -> bool:
        """Whether the checkpoint is of a process that finished and was killed before it removed it.

        The provenance of all outputs, which is written last, is then newer than the start.
        """
        origin = self._origin_file
        if origin is None or not origin.is_file() or not self.has_outputs():
            return False
        began = origin.stat().st_mtime_ns
        return all(provenance_path(path).stat().st_mtime_ns > began for path in self.outputs)

    @property
    def _origin_file(self) -> Path | None:
        return self.checkpoint / ORIGIN_FILE if self.checkpoint else None

    def require_inputs(self) -> None:
        """Check the inputs, and by size and provenance all that they were made from."""
        for path, maker in self.inputs():
            maker.require_output(path)
        for fault in faults_behind(self.inputs()).values():
            raise InputError(fault)

    def require_output(self, path: Path) -> None:
        """Raises: InputError if an output is missing, damaged, or made with other settings."""
        if not path.exists():
            raise InputError(f"{path}: no such file; `{self.command}` makes it")
        if fault := self.fault_of(path):
            raise InputError(f"{fault}; {self.remedy_for(path)}")

    def remedy_for(self, path: Path) -> str:
        """How to repair a faulty output: remove the files that were added, or run a command."""
        settings = read_provenance(path).get("settings")
        if self.is_begun_with_settings() or differences(settings, self.settings):
            return self.remedy
        added = added_files(path)
        if not added:
            return self.remedy
        return f"remove {first_of(added)}"

    @property
    def remedy(self) -> str:
        """The command that makes the outputs again, or continues to make them."""
        if self.is_begun_with_settings():  # --force would start from the beginning
            return f"`{self.command}` resumes it"
        return f"`{self.command} --force` makes it again"

    def fault_of_outputs(self, contents: bool = True) -> str | None:
        """The first of `fault_of` of the outputs that exist."""
        existing = (path for path in self.outputs if path.exists())
        return next(filter(None, (self.fault_of(path, contents) for path in existing)), None)

    def fault_of(self, path: Path, contents: bool = True) -> str | None:
        """What keeps an output from being used; without `contents`, only by names and sizes."""
        note = read_provenance(path)
        if note and (text := differences(note["settings"], self.settings)):
            return f"{path} was made with other settings ({text})"
        if damage := damage_of(path):
            return damage
        if contents and digest(path) != note["digest"]:
            return f"{path} was damaged or changed after it was written"
        then, originals = inputs_of(path, note), {*map(Path, note.get("originals", ()))}
        now = {Path(os.path.normpath(source)) for source in self.input_files}
        for source in sorted(now - then.keys()):
            return f"{path} was made without {source}, which is an input of it"
        for source in sorted(then.keys() - originals - now):
            return f"{path} was made from {source}, which is no longer an input of it"
        for source in sorted(now):
            if was_made_again(source, then[source]):
                return f"{path} was made from another version of {source}"
        return None

    def locked(self) -> AbstractContextManager[None]:
        """Hold the lock of the step. It may wait, and then find the outputs made."""
        return exclusive_lock(self.lock.parent, self.lock.name) if self.lock else nullcontext()

    def record(self, done: Done | None = None, read: Mapping[Path, str] | None = None) -> None:
        """Write the provenance of the outputs, with the digests that the inputs had when read."""
        done, read = done or Done(), versions(self.input_files) if read is None else read
        for path in (*self.outputs, *done.files):
            write_provenance(path, self.settings, read, done)

    def require_replaceable(self) -> None:
        """Raises: InputError for an output that exists and was not made with these settings."""
        (path,) = self.outputs
        if not path.exists():
            return
        note = read_provenance(path)
        if not note or differences(note["settings"], self.settings):
            raise InputError(
                f"{path} exists and was not made by this command with these settings: name another "
                "file, or replace it with --force"
            )


def damage_of(path: Path) -> str | None:
    """What differs between a file or folder and the names and sizes in its provenance."""
    note = read_provenance(path)
    if not note:
        return f"{path} has no readable provenance, so its settings are unknown"
    changed = f"{path} was damaged or changed after it was written"
    if path.is_dir() and "files" in note:  # earlier versions wrote the total only
        files = differences(note["files"], sizes_in(path))
        return f"{changed} (bytes of {files})" if files else None
    return None if size_of(path) == note["bytes"] else changed


def added_files(path: Path) -> list[str]:
    """Files that a folder has besides those in its provenance; none if another one changed."""
    note = read_provenance(path)
    if not path.is_dir() or "files" not in note:
        return []
    before, now = note["files"], sizes_in(path)
    if any(now.get(name) != size for name, size in before.items()):
        return []
    return sorted(now.keys() - before.keys())


def origin_of(checkpoint: Path) -> dict[str, Any]:
    """Settings and inputs of a checkpoint; empty if there is none, or its file is damaged."""
    try:
        origin: dict[str, Any] = json.loads((checkpoint / ORIGIN_FILE).read_text())
    except (OSError, ValueError):
        return {}
    return origin


def files_behind(
    pairs: Iterable[tuple[Path, Task]], planned: Iterable[Path] = ()
) -> dict[Path, Task]:
    """Some files and all that they were made from, those nearest to the data first.

    Without those that are planned, and those that only they were made from.
    """
    found: dict[Path, Task] = {}
    seen = set(planned)

    def visit(pairs: Iterable[tuple[Path, Task]]) -> None:
        for path, maker in pairs:
            if path not in seen:
                seen.add(path)
                visit(maker.inputs())
                found[path] = maker

    visit(pairs)
    return found


def faults_behind(
    inputs: Sequence[tuple[Path, Task]], planned: Iterable[Path] = ()
) -> dict[str, str]:
    """A sentence for each command that has to make results, or files behind them, again.

    By size and provenance. Files that are planned, to be made again, are not checked.
    """
    faults: dict[str, str] = {}
    for path, maker in files_behind(inputs, planned).items():
        if path.exists() and (fault := maker.fault_of(path, contents=False)):
            faults.setdefault(maker.command, f"{fault}; {maker.remedy_for(path)}")
    return faults
