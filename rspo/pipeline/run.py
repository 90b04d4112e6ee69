"""Run a task: check what it reads and replaces, do its work under its lock, record its provenance.

A file that was made by hand, or with other settings than the config's, does not get into a result.
A command overwrites a result only with `--force`; under Snakemake the outdated one is already
deleted.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from rspo.core.errors import InputError
from rspo.core.files import digest
from rspo.core.locks import exclusive_lock
from rspo.core.settings import differences
from rspo.pipeline.provenance import write_provenance
from rspo.pipeline.state import (
    Reason,
    behind,
    is_begun_with_settings,
    is_good,
    refusals,
    state,
    state_of,
)
from rspo.pipeline.task import Done, Task

FORCE_HINT = "--results DIR writes to another folder, --force replaces it"


def run(task: Task, work: Callable[[], Done | None], force: bool = False) -> None:
    """Check the inputs, and do the work unless the outputs are current, under the lock.

    The contents of inputs and outputs are read only if there is work to do. Work that an earlier
    process began with the settings of the task is continued.

    Raises: InputError for an output that this would replace without `force`, and for an input that
        is missing, stale, damaged or foreign.
    """
    replaces = force or is_begun_with_settings(task)
    if not replaces:
        require_configured(task)
        if is_good(task):
            print(f"{task.outputs[0]} is up to date")
            return
    _require_inputs(task)
    if not replaces:
        _require_no_faulty_outputs(task)
    with locked(task):
        if not force and is_good(task) and not is_begun_with_settings(task):
            return  # the process that held the lock has made them
        digests = digests_of(task.input_files)
        done = work()
        record(task, done, digests)
        if done and done.clean_up:
            done.clean_up()


def require_configured(task: Task) -> None:
    """Raises: InputError for other settings than the config's."""
    if task.configured is None:
        return
    changed = differences(task.configured, task.settings)
    if changed:
        raise InputError(
            f"{task.outputs[0]} would have other settings than the config ({changed}): "
            "--results DIR writes to another folder, --force writes here"
        )


def require_replaceable(task: Task) -> None:
    """Raises: InputError for an output that exists and was not made with these settings."""
    for path in task.outputs:
        if state_of(task, path).reason in (Reason.NO_PROVENANCE, Reason.OTHER_SETTINGS):
            raise InputError(
                f"{path} exists and was not made by this command with these settings: name another "
                "file, or replace it with --force"
            )


def require_current(task: Task, path: Path) -> None:
    """Raises: InputError for an output that is missing, stale, damaged or foreign."""
    output = state_of(task, path, deep=True)
    if not output.is_current:
        raise InputError(output.refusal)


def _require_inputs(task: Task) -> None:
    """Check the contents of the inputs, and by size and provenance all that they are made from."""
    for path, maker in task.inputs():
        require_current(maker, path)
    for _, refusal in refusals(behind(task.inputs()).values()):
        raise InputError(refusal)


def _require_no_faulty_outputs(task: Task) -> None:
    outputs = state(task, deep=True)
    if outputs.is_fault:
        raise InputError(f"{outputs}: {FORCE_HINT}")


def locked(task: Task) -> AbstractContextManager[None]:
    """Hold the lock of the task. It may wait, and then find the outputs made."""
    if task.lock is None:
        return nullcontext()
    return exclusive_lock(task.lock.parent, task.lock.name)


def record(task: Task, done: Done | None = None, digests: Mapping[Path, str] | None = None) -> None:
    """Write the provenance of the outputs.

    Args:
        digests: those that the inputs had when the work read them. Default: those of now.
    """
    done = done or Done()
    if digests is None:
        digests = digests_of(task.input_files)
    for path in list(task.outputs) + list(done.files):
        write_provenance(path, task.settings, digests, done)


def digests_of(paths: Iterable[Path]) -> dict[Path, str]:
    """The digests of files and folders, to be taken before they are read; a pipe has none."""
    return {path: digest(path) for path in paths if path.is_file() or path.is_dir()}
