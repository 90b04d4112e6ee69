"""Run one command: parse its words, print its output, and turn errors into a line and a status.

The program `rspo` calls `main`.
"""

import os
import re
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

STANDARD_OUTPUT = 1  # the number of its file descriptor
MOST_NAMED = 3  # the most paths in the line that names the written files


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        argv: the words of the command line after `rspo`. If it is None, this function takes the
            words of this process, which must end when the command has ended.

    Returns: the exit status. 0: success. 1: failure. 2: an error that the user can fix, reported in
        one line. 75: a training stopped on request and can be resumed. 130: interrupted. 141:
        nobody reads the output any more.
    """
    signal.signal(signal.SIGTERM, _terminate)
    end_with_snakemake()
    WRITTEN.clear()  # tests run several commands in one process
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
        if error.errno is None:  # not from the operating system, so a fault of the code
            return _fail_in_code(error)
        file = f"{error.filename}: " if error.filename else ""
        return _fail(1, f"error: {file}{os.strerror(error.errno)}")
    except Exception as error:
        return _fail_in_code(error)
    except KeyboardInterrupt as interrupt:
        return _fail(130, "; ".join(filter(None, ("interrupted", str(interrupt)))))


def parse(words: list[str]) -> Callable[[], Output]:
    """Parse a command line and return the function that runs the command.

    Raises: InputError for a wrong command line.
    """
    try:
        result = app(words or ["--help"], prog_name="rspo", standalone_mode=False)
    except typer.TyperException as error:
        message = " ".join(error.format_message().split())
        # Typer's message lacks the value that pydantic refused.
        if isinstance(error.__cause__, ValidationError):
            message += f"; got {error.__cause__.errors()[0]['input']!r}"
            if error.param.multiple:  # type: ignore[attr-defined]
                message += "; repeat it for several: --k 2 --k 4"
        raise InputError(message + _hint(words)) from None
    # For --help, Typer itself prints the text and returns a status, which is the output then.
    return result if callable(result) else lambda: result


def _hint(words: list[str]) -> str:
    """What to write instead of options of Snakemake, and of options before the command."""
    are_of_snakemake = any(re.match("(scale|results|set|seeds|replace)=", word) for word in words)
    if are_of_snakemake or any(word.split("=")[0] in ("--config", "-C") for word in words):
        return (
            "; rspo takes --scale SCALE, --results DIR and --set KEY=VALUE, and Snakemake takes "
            "--config scale=SCALE results=DIR set=KEY=VALUE"
        )
    if words[0].split("=")[0] in ("--scale", "--results", "--set"):
        return "; options come after the command: rspo COMMAND --scale SCALE"
    return ""


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
    """Ignore signals from here on, because the results of the command are complete.

    A signal while Python exits would kill the process, and Snakemake removes the results of a job
    whose command was killed.
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
    """Print a message on standard error, and return the exit status."""
    print(f"rspo: {message}", file=sys.stderr, flush=True)
    return status


def _fail_in_code(error: Exception) -> int:
    """Print an error of a user's extension, with the lines of extensions only.

    Raises: the error itself, if this package has raised it, because its traceback is needed then.
    """
    from rspo.core.own_function import own_error  # here, because it imports NumPy

    own = own_error(error)
    if own is None:
        raise error
    return _fail(1, f"error: {own}")


def _nobody_reads_output() -> bool:
    """Whether standard output is a pipe without a reader. If so, this drops the remaining output.

    Otherwise Python would try to write it at its exit, and fail with a second error.
    """
    # `poll` reports POLLERR for a pipe whose reader has closed it, even if no event is asked for.
    output = select.poll()
    output.register(STANDARD_OUTPUT, 0)
    closed = any(event & select.POLLERR for _, event in output.poll(0))
    if closed:
        os.dup2(os.open(os.devnull, os.O_WRONLY), STANDARD_OUTPUT)
    return closed


def _terminate(signal_number: int, frame: object) -> NoReturn:
    """Treat SIGTERM, which Snakemake and SLURM send, like Ctrl-C, so that the command cleans up."""
    raise KeyboardInterrupt
