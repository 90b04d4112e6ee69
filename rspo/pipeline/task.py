"""A task of the pipeline as data: one call of the `rspo` command that writes results.

`rspo.pipeline.tasks` has all of them, `rspo.pipeline.state` judges their results, and
`rspo.pipeline.run` does their work.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rspo.core.files import fingerprint
from rspo.core.settings import Settings
from rspo.pipeline.usage import Usage


class SettingsHash(str):
    """Fingerprint of a task's settings, with the task.

    Rules give it to Snakemake as a parameter, which leads from a job to its task.
    """

    task: "Task"


@dataclass(frozen=True)
class Task:
    """One call of the `rspo` command that writes results.

    outputs: the files and folders that it writes.
    settings: what decides their content besides the inputs, as plain data.
    inputs: returns the results that it reads, each with the task that writes it.
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
        """The results that it reads, each once."""
        return list(dict.fromkeys(path for path, _ in self.inputs()))

    @property
    def settings_hash(self) -> SettingsHash:
        """Fingerprint of the settings, by which Snakemake recognizes outdated files."""
        result = SettingsHash(fingerprint(self.settings))
        result.task = self
        return result


@dataclass(frozen=True)
class Done:
    """What the work of a task reports once its outputs exist.

    gpu_seconds: of this process, outside SLURM (see `rspo.pipeline.usage.usage_so_far`).
    notes: other information, such as the rows that were left out.
    earlier: usage of earlier processes that worked on the outputs and were killed or stopped.
    files: further files that it wrote, which get the same provenance.
    originals: files of the user that it read, with which a history may begin, with the digests that
        they had before it read them.
    clean_up: called after the provenance is written; removes what a killed run resumes from.
    """

    gpu_seconds: float = 0.0
    notes: Mapping[str, Any] = field(default_factory=dict)
    earlier: Sequence[Usage] = ()
    files: Sequence[Path] = ()
    originals: Mapping[Path, str] = field(default_factory=dict)
    clean_up: Callable[[], None] | None = None
