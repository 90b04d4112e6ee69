"""Run a task: check what it reads and replaces, do its work under its lock, record its provenance.

The commands that write results call `run`. It refuses inputs that were made by hand, or with other
settings than the config's. It overwrites a result only with `--force`. The conditions stale,
damaged and foreign are those of `rspo.pipeline.state.Condition`. Most rules of the workflow need no
`--force`, because Snakemake deletes an outdated result before it starts the command. The rules of
tables, figures and reports need it: their old file stays until the new one replaces it.
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
    has_steps,
    is_begun_with_settings,
    is_good,
    refusals,
    state,
    state_of,
)
from rspo.pipeline.task import Done, Task

FORCE_HINT = "--results DIR writes to another folder, --force replaces it"


def run(task: Task, work: Callable[[], Done | None], force: bool = False) -> None:
    """Do the work of a task under its lock, unless its outputs are current.

    The contents of inputs and outputs are read only if there is work to do. Work that an earlier
    process began with the settings of the task is continued.

    Args:
        work: writes the outputs, and may report more about them than they contain.
        force: do the work in any case, and replace the outputs.

    Raises: InputError for an output that this would replace without `force`, and for an input that
        is missing, stale, damaged or foreign.
    """
    # An earlier process that left a checkpoint was allowed to replace the outputs, so the process
    # that resumes it is allowed to as well.
    replaces = force or is_begun_with_settings(task)
    if not replaces:
        require_configured(task)
        if is_good(task):
            print(f"{task.outputs[0]} is up to date")
            return
    require_inputs(task)
    if not replaces:
        _require_no_faulty_outputs(task)
    with locked(task):
        # The process that held the lock may have made the outputs meanwhile. If there is a
        # checkpoint, good outputs are those of an earlier training.
        if not force and is_good(task) and not is_begun_with_settings(task):
            return
        # Before the work reads the inputs: if one changes meanwhile, the result is then stale.
        digests = digests_of(task.input_files)
        own_code = digests_of(task.own_code)
        try:
            done = work()
        except KeyboardInterrupt:
            raise KeyboardInterrupt(_how_to_go_on(task)) from None
        record(task, done, digests, own_code)
        if done and done.clean_up:
            done.clean_up()


def _how_to_go_on(task: Task) -> str:
    """What a user can do after Ctrl-C; empty for work without a checkpoint."""
    if task.checkpoint is None:
        return ""
    if not is_begun_with_settings(task):
        return "no checkpoint was written yet, so the same command starts again"
    if has_steps(task.checkpoint):  # --force would begin with the first step
        return f"`{task.command}` resumes it, without --force"
    return f"no checkpoint was written yet; `{task.command}` starts again, without --force"


def require_configured(task: Task) -> None:
    """Raises: InputError if the command line gives other settings than the config."""
    if task.configured is None:  # the command line gives none
        return
    changed = differences(task.configured, task.settings)
    if changed:
        raise InputError(
            f"{task.outputs[0]} would have other settings than the config ({changed}): "
            "--results DIR writes to another folder, --force writes here"
        )


def require_replaceable(task: Task) -> None:
    """Raises: InputError if an output exists that was not made with these settings."""
    for path in task.outputs:
        if state_of(task, path).reason in (Reason.NO_PROVENANCE, Reason.OTHER_SETTINGS):
            raise InputError(
                f"{path} exists and was not made by this command with these settings: name another "
                "file with --output, or replace it with --force"
            )


def require_current(task: Task, path: Path) -> None:
    """Raises: InputError if an output is missing, stale, damaged or foreign. Reads the output."""
    output = state_of(task, path, deep=True)
    if not output.is_current:
        raise InputError(output.refusal)


def require_inputs(task: Task) -> None:
    """Check the contents of the inputs, and size and provenance of what they were made from.

    Raises: InputError for the first file that is missing, stale, damaged or foreign.
    """
    for path, maker in task.inputs():
        require_current(maker, path)
    for _, refusal in refusals(behind(task.inputs()).values()):
        raise InputError(refusal)


def _require_no_faulty_outputs(task: Task) -> None:
    """Raises: InputError if an output exists that must not be used. Reads the outputs."""
    outputs = state(task, deep=True)
    if outputs.is_fault:
        raise InputError(f"{outputs}: {FORCE_HINT}")


def locked(task: Task) -> AbstractContextManager[None]:
    """Hold the lock of the task, if the task has one, while the block runs.

    Entering the block may wait for another process, which may make the outputs meanwhile.
    """
    if task.lock is None:
        return nullcontext()
    return exclusive_lock(task.lock.parent, task.lock.name)


def record(
    task: Task,
    done: Done | None = None,
    digests: Mapping[Path, str] | None = None,
    own_code: Mapping[Path, str] | None = None,
) -> None:
    """Write the provenance of the outputs.

    Args:
        done: what the work reports about the outputs.
        digests: the digests that the inputs had when the work read them. Default: the present ones.
        own_code: the same of `Task.own_code`.
    """
    done = done or Done()
    if digests is None:
        digests = digests_of(task.input_files)
    if own_code is None:
        own_code = digests_of(task.own_code)
    for path in list(task.outputs) + list(done.files):
        write_provenance(path, task.settings, digests, done, own_code)


def digests_of(paths: Iterable[Path]) -> dict[Path, str]:
    """The digest of each file and folder. A pipe has none, because it can be read only once."""
    return {path: digest(path) for path in paths if path.is_file() or path.is_dir()}
