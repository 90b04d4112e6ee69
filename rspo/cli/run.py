"""Run one command: parse its words, print its output, and turn errors into a line and a status."""

import os
import select
import signal
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import NoReturn

import typer
from pydantic import ValidationError

# These imports register the commands. `rspo --help` lists the panels in their order.
# isort: off
from rspo.cli import data, training, evaluation, reporting, cluster  # noqa: F401

# isort: on
from rspo.cli.command import Output, app
from rspo.core.errors import InputError, LostProcess
from rspo.core.signals import STOPPED_STATUS, Stopped, end_with_snakemake
from rspo.pipeline.provenance import WRITTEN

STANDARD_OUTPUT = 1  # file descriptor
MOST_NAMED = 3  # paths in one line of output


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status.

    0: success. 1: failure. 2: an error that the user can fix, reported in one line. 75: training
    stopped on request and can be resumed. 130: interrupted.
    """
    signal.signal(signal.SIGTERM, _terminate)
    end_with_snakemake()
    WRITTEN.clear()
    words = sys.argv[1:] if argv is None else argv
    try:
        run_command = parse(list(words))
        status = _print_output(run_command())
        if argv is None:
            _ignore_signals()
        _report_written()
        sys.stdout.flush()
        return status
    except InputError as error:
        return _fail(2, f"error: {error}")
    except LostProcess as error:
        return _fail(1, f"error: {error}")
    except Stopped as stopped:
        return _fail(STOPPED_STATUS, str(stopped))
    except OSError as error:
        if isinstance(error, BrokenPipeError) and _nobody_reads_output():
            return 128 + signal.SIGPIPE  # as any program before `| head`, which is no error
        if error.errno is None:
            raise
        file = f"{error.filename}: " if error.filename else ""
        return _fail(1, f"error: {file}{os.strerror(error.errno)}")
    except KeyboardInterrupt:
        return _fail(130, "interrupted")


def parse(words: list[str]) -> Callable[[], Output]:
    """Parse a command line and return the call that runs it."""
    try:
        result = app(words or ["--help"], prog_name="rspo", standalone_mode=False)
    except typer.TyperException as error:
        message = " ".join(error.format_message().split())
        if isinstance(error.__cause__, ValidationError):  # its words lack the value
            message += f"; got {error.__cause__.errors()[0]['input']!r}"
            if error.param.multiple:  # type: ignore[attr-defined]
                message += "; repeat it for several: --k 2 --k 4"
        raise InputError(message) from None
    return result if callable(result) else lambda: result


def _print_output(output: Output) -> int:
    """Print what a command returned, and return its exit status."""
    if output is None:
        return 0
    if isinstance(output, int):
        return output
    lines: Iterable[str] = [output] if isinstance(output, str) else output
    for line in lines:
        print(line)
    return 0


def _ignore_signals() -> None:
    """Let nothing interrupt the process from here on, because its results are complete.

    A signal while Python exits would end the process as killed, and Snakemake removes the results
    of such a job.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def _report_written() -> None:
    """Print one line that names the results that the command wrote, if any."""
    paths = [str(path) for path in dict.fromkeys(WRITTEN)]
    if len(paths) > MOST_NAMED:
        print(f"wrote {len(paths)} files in {os.path.commonpath(paths)}")
    elif paths:
        print(f"wrote {', '.join(paths)}")


def _fail(status: int, message: str) -> int:
    print(f"rspo: {message}", file=sys.stderr, flush=True)
    return status


def _nobody_reads_output() -> bool:
    """Whether standard output is a pipe without a reader; if so, drop the output that is left."""
    output = select.poll()
    output.register(STANDARD_OUTPUT, 0)
    closed = any(event & select.POLLERR for _, event in output.poll(0))
    if closed:
        os.dup2(os.open(os.devnull, os.O_WRONLY), STANDARD_OUTPUT)
    return closed


def _terminate(signal_number: int, frame: object) -> NoReturn:
    """Let a SIGTERM of Snakemake or SLURM clean up as Ctrl-C does."""
    raise KeyboardInterrupt
