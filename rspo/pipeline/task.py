"""A task of the pipeline as data: one call of the `rspo` command that writes results.

`rspo.pipeline.tasks` defines all of them, `rspo.pipeline.state` judges their results, and
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
    """The fingerprint of a task's settings, which also holds the task.

    Rules pass it to Snakemake as the parameter `settings`. Snakemake keeps the object, so that
    `rspo.snakemake.patches.task_of` finds the task of a job.
    """

    task: "Task"


@dataclass(frozen=True)
class Task:
    """One call of the `rspo` command that writes results.

    outputs: the files and folders that it writes.
    settings: what decides their content, except the inputs, as plain data.
    inputs: returns the results that it reads, each with the task that writes it.
    lock: the file that a call locks, so that no two calls work on the outputs at the same time;
        None if a call locks nothing.
    command: the call, for messages, such as "rspo prepare train".
    configured: the settings that the config file alone gives; None if no override of the command
        line has to be compared with them (`rspo.pipeline.run.require_configured`).
    checkpoint: the folder from which a killed call resumes; None if it cannot resume.
    own_code: files of the user with functions that decide the outputs. Their content is no setting:
        a user raises the version of a function that computes something else.
    replace_above: Snakemake does not replace outputs that took more than this many minutes; None
        sets no limit.
    """

    outputs: tuple[Path, ...]
    settings: Settings
    inputs: "Callable[[], Sequence[tuple[Path, Task]]]" = field(default=tuple, compare=False)
    lock: Path | None = None
    command: str = ""
    configured: Settings | None = None
    checkpoint: Path | None = field(default=None, compare=False)
    replace_above: float | None = field(default=None, compare=False)
    own_code: tuple[Path, ...] = field(default=(), compare=False)

    @property
    def input_files(self) -> list[Path]:
        """The results that the task reads, without duplicates."""
        return list(dict.fromkeys(path for path, _ in self.inputs()))

    @property
    def settings_hash(self) -> SettingsHash:
        """The fingerprint of the settings, by which Snakemake recognizes outdated files."""
        result = SettingsHash(fingerprint(self.settings))
        result.task = self
        return result


@dataclass(frozen=True)
class Done:
    """What the work of a task reports once its outputs exist.

    gpu_seconds: the time for which this process used GPUs; ignored in a SLURM job, which counts all
        GPUs that it was granted (`rspo.pipeline.usage.usage_so_far`).
    notes: other information for the provenance, such as the rows that were left out.
    earlier: the usage of earlier processes that worked on the outputs and were killed or stopped.
    files: further files that the work wrote, which get the same provenance.
    originals: the files of the user that the work read, with the digests that they had before the
        work read them. They need no provenance: the history of a result may begin with them.
    clean_up: called after the provenance is written; removes what a killed run resumes from.
    """

    gpu_seconds: float = 0.0
    notes: Mapping[str, Any] = field(default_factory=dict)
    earlier: Sequence[Usage] = ()
    files: Sequence[Path] = ()
    originals: Mapping[Path, str] = field(default_factory=dict)
    clean_up: Callable[[], None] | None = None
