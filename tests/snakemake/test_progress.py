"""What the log handler prints, with records and settings as Snakemake makes them.

tests/status/test_log_handler.py tests it in runs of Snakemake.
"""

import io
import logging
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import Any

import pytest
from snakemake.settings.enums import Quietness
from snakemake.settings.types import OutputSettings
from snakemake_interface_logger_plugins.common import LogEvent

from rspo.snakemake.progress import INTERRUPTED, KEPT, SELECTING_JOBS, LogHandler, _without_places
from rspo.status import display
from tests.support import tiny_world

RUN = '"/home/me/rspo/snakemake/patches.py", line 102, in run_all'
RULES_FILE = '"/home/me/workflow/rules/run.smk"'


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        (
            "WorkflowError:\nno room\n"
            '  File "/home/me/rspo/snakemake/plan_check.py", line 80, in check_plan',
            "error: no room",
        ),
        (
            'WorkflowError in file "/home/me/workflow/rules/run.smk", line 11:\nno room\n'
            f"  File {RUN}\n"
            '  File "/home/me/rspo/snakemake/start.py", line 112, in start_run',
            "error: no room",
        ),
        (
            f"WorkflowError in file {RULES_FILE}, line 11:\nno room\n"
            f"  File {RULES_FILE}, line 11, in __onstart",
            "error: no room",
        ),
        (
            "NoAnswer:\nSLURM is silent\n"
            '  File "/x/snakemake_executor_plugin_slurm_patient/queue.py", line 5, in ask',
            "error: SLURM is silent",
        ),
        (
            f"InputFunctionException in rule train in file {RULES_FILE}, line 7:\n"
            "Error:\n  InputError: config/tiny.yaml:\n  no such key\n"
            "Wildcards:\ncell=a\nk=1\n",
            "error: config/tiny.yaml:\n  no such key",
        ),
    ],
)
def test_errors_of_this_package_are_their_message(text: str, printed: str) -> None:
    assert _without_places(text) == printed


@pytest.mark.parametrize("kind", ["KeyError", "WorkflowError"])
def test_an_error_of_a_users_own_snakefile_keeps_its_type_and_places(kind: str) -> None:
    """This package calls the user's `onstart`, so it is among the places."""
    text = (
        f"{kind} in file \"/home/me/Snakefile\", line 4:\n'mine'\n"
        f"  File {RUN}\n"
        '  File "/home/me/Snakefile", line 4, in __onstart'
    )
    assert _without_places(text) == text


# --- which records are printed --------------------------------------------------------------------


def printed(
    capsys: pytest.CaptureFixture[str], *records: logging.LogRecord, **settings: Any
) -> list[str]:
    """The lines that a handler with these settings prints about some records."""
    handler = LogHandler(OutputSettings(**settings), None)
    for record in records:
        handler.emit(record)
    output, errors = capsys.readouterr()
    if settings.get("stdout"):
        assert errors == ""
        return output.splitlines()
    assert output == ""
    return errors.splitlines()


def a_record(text: str, level: int = logging.INFO, **attributes: Any) -> logging.LogRecord:
    name = logging.getLevelName(level)
    return logging.makeLogRecord({"msg": text, "levelno": level, "levelname": name} | attributes)


RULES_ARE_QUIET = {"quiet": {Quietness.RULES}}
ALL_IS_QUIET = {"quiet": {Quietness.ALL}}


@pytest.mark.parametrize(
    ("attributes", "settings", "is_printed"),
    [
        ({}, {}, True),
        ({}, RULES_ARE_QUIET, True),
        ({}, ALL_IS_QUIET, False),
        ({}, {"stdout": True}, True),
        # What is said about each job.
        ({"event": LogEvent.JOB_INFO}, {}, True),
        ({"event": LogEvent.JOB_INFO}, RULES_ARE_QUIET, False),
        ({"msg": SELECTING_JOBS}, RULES_ARE_QUIET, False),
        # What an option of Snakemake asks for.
        ({"event": LogEvent.SHELLCMD}, {}, False),
        ({"event": LogEvent.SHELLCMD}, {"printshellcmds": True}, True),
        ({"event": LogEvent.DEBUG_DAG}, {}, False),
        ({"event": LogEvent.DEBUG_DAG}, {"debug_dag": True}, True),
        ({"levelno": logging.DEBUG}, {}, False),
        ({"levelno": logging.DEBUG}, {"verbose": True}, True),
        # Warnings and errors.
        ({"levelno": logging.WARNING}, ALL_IS_QUIET, True),
        ({"levelno": logging.ERROR}, ALL_IS_QUIET, True),
        ({"levelno": logging.WARNING, "msg": f"{KEPT}."}, {}, False),
        # The counts of jobs are the result of a dry run.
        ({"event": LogEvent.RUN_INFO, "stats": {"total": 3}}, RULES_ARE_QUIET, False),
        (
            {"event": LogEvent.RUN_INFO, "stats": {"total": 3}},
            RULES_ARE_QUIET | {"dryrun": True},
            True,
        ),
    ],
)
def test_what_is_printed_depends_on_the_options_of_the_run(
    capsys: pytest.CaptureFixture[str],
    attributes: dict[str, Any],
    settings: dict[str, Any],
    is_printed: bool,
) -> None:
    record = a_record("text", **attributes)
    assert printed(capsys, record, **settings) == ([record.msg] if is_printed else [])


def test_a_failed_job_is_printed_with_the_last_error_in_its_logs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "train.log"
    log.write_bytes(b"rspo: error: a first one\nstep 2 \xff\nrspo: error: no GPU\nSnakemake ends\n")
    logs = [f"{log} (check log file(s) for error details)", str(tmp_path / "missing.log")]
    failed = a_record("Error in rule train:", logging.ERROR, event=LogEvent.JOB_ERROR, log=logs)
    assert printed(capsys, failed) == ["Error in rule train:", "    reason: no GPU"]


def test_an_error_of_this_package_is_printed_without_its_place(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = 'WorkflowError:\nno room\n  File "/x/rspo/snakemake/plan_check.py", line 80, in check'
    assert printed(capsys, a_record(text, logging.ERROR)) == ["error: no room"]


def test_a_dry_run_ends_with_what_it_would_make_again(capsys: pytest.CaptureFixture[str]) -> None:
    """Below the tables of jobs; a run that starts says it first."""
    again = a_record("This run makes results again.", logging.WARNING, is_conclusion=True)
    table = a_record("a table")
    for dryrun, expected in ((True, [table.msg, again.msg]), (False, [again.msg, table.msg])):
        handler = LogHandler(OutputSettings(dryrun=dryrun), None)
        handler.emit(again)
        handler.emit(table)
        handler.close()
        handler.close()  # as Snakemake does after an error
        assert capsys.readouterr().err.splitlines() == expected


def test_a_home_folder_that_cannot_be_written_is_one_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The error comes from Snakemake, before it reads the Snakefile."""
    text = (
        "Traceback (most recent call last):\n\n"
        '  File "/x/site-packages/snakemake/sourcecache.py", line 791, in __init__\n'
        "    os.makedirs(self.cache_path, exist_ok=True)\n\n"
        "PermissionError: [Errno 13] Permission denied: '/home/a/.cache'\n"
    )
    (line,) = printed(capsys, a_record(text, logging.ERROR))
    assert line.startswith("error: /home/a/.cache: Permission denied: ")
    assert "XDG_CACHE_HOME" in line
    elsewhere = text.replace("sourcecache", "other")
    assert "Traceback" in printed(capsys, a_record(elsewhere, logging.ERROR))[0]


FULL = Path("/dev/full")  # every write to it fails, as on a full disk


def test_a_log_on_a_full_disk_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    LogHandler(OutputSettings(), None)
    log = logging.FileHandler(FULL)
    for text in ("first", "second"):
        log.handle(a_record(text))
    line = f"rspo: {FULL}: No space left on device; this log misses messages\n"
    assert capsys.readouterr().err == line
    with suppress(OSError):
        log.close()


def test_other_errors_of_a_log_are_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    LogHandler(OutputSettings(), None)
    log = logging.FileHandler(tmp_path / "log")
    log.handle(logging.LogRecord("name", logging.INFO, "", 0, "%d", ("no number",), None))
    log.close()
    assert "Traceback" in capsys.readouterr().err


def test_errors_after_ctrl_c_are_not_printed(capsys: pytest.CaptureFixture[str]) -> None:
    interrupt = a_record(f"{INTERRUPTED}, this might take some time.")
    error = a_record("Error in rule train:", logging.ERROR)
    assert printed(capsys, error, interrupt, error) == [error.msg, interrupt.msg]


def test_a_line_is_seen_at_once_where_a_log_is_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    file = io.BytesIO()
    monkeypatch.setattr(sys, "stderr", io.TextIOWrapper(file))
    LogHandler(OutputSettings(), None).emit(a_record("text"))
    assert file.getvalue() == b"text\n"


# --- the progress of the policies -----------------------------------------------------------------


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], str]]:
    """The displays that are on; each is a function that returns its present line."""
    shown: list[Callable[[], str]] = []

    def show(line: Callable[[], str]) -> AbstractContextManager[None]:
        shown.append(line)
        return nullcontext()

    monkeypatch.setattr(display, "shown", show)
    return shown


def test_one_display_counts_the_jobs_of_the_run(
    tmp_path: Path, lines: list[Callable[[], str]], capsys: pytest.CaptureFixture[str]
) -> None:
    handler = LogHandler(OutputSettings(**RULES_ARE_QUIET), None)
    start = a_record("start", experiment=tiny_world.load(tmp_path))
    handler.emit(start)
    handler.emit(start)  # of another module
    (line,) = lines
    assert line() == "0 of 0 jobs done"
    handler.emit(a_record("", event=LogEvent.RUN_INFO, stats={"total": 7}))
    assert line() == "0 of 7 jobs done"
    handler.emit(a_record("", event=LogEvent.PROGRESS, done=2, total=7))
    assert line() == "2 of 7 jobs done"
    assert capsys.readouterr().err == ""


def test_the_line_has_the_time_left_once_a_job_is_finished(
    tmp_path: Path, lines: list[Callable[[], str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first of three jobs took 100 s."""
    handler = LogHandler(OutputSettings(**RULES_ARE_QUIET), None)
    handler.emit(a_record("", event=LogEvent.RUN_INFO, stats={"train": 3, "total": 3}))
    handler.times._clock = lambda: 1000.0
    handler.emit(a_record("start", experiment=tiny_world.load(tmp_path)))
    handler.emit(a_record("", event=LogEvent.JOB_INFO, jobid=1, rule_name="train"))
    (line,) = lines
    assert line() == "0 of 3 jobs done"
    handler.times._clock = lambda: 1100.0
    handler.emit(a_record("", event=LogEvent.JOB_FINISHED, job_id=1))
    handler.emit(a_record("", event=LogEvent.PROGRESS, done=1, total=3))
    assert line() == "1 of 3 jobs done, 3 min left"
    handler.emit(a_record("", event=LogEvent.PROGRESS, done=3, total=3))
    assert line() == "3 of 3 jobs done"


def test_the_policies_of_every_module_are_in_the_display(
    monkeypatch: pytest.MonkeyPatch, lines: list[Callable[[], str]]
) -> None:
    def describe(experiment: str, jobs: object = None, *_: object, **__: object) -> str:
        return f"{experiment} at work" if jobs is None else f"jobs {jobs}, {experiment} at work"

    monkeypatch.setattr(display, "line", describe)
    handler = LogHandler(OutputSettings(), None)
    for experiment in ("first", "second"):
        handler.emit(a_record("start", experiment=experiment))
    assert lines[0]() == "jobs (0, 0), first at work | second at work"


def test_a_run_that_is_quiet_about_everything_has_no_display(
    tmp_path: Path, lines: list[Callable[[], str]]
) -> None:
    handler = LogHandler(OutputSettings(**ALL_IS_QUIET), None)
    handler.emit(a_record("start", experiment=tiny_world.load(tmp_path)))
    assert lines == []


@pytest.mark.usefixtures("lines")
def test_the_end_after_ctrl_c_says_how_to_resume(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    handler = LogHandler(OutputSettings(), None)
    handler.emit(a_record("start", experiment=tiny_world.load(tmp_path)))
    handler.emit(a_record(INTERRUPTED))
    handler.close()
    assert capsys.readouterr().err.splitlines()[-1] == "The same command resumes."
    handler.close()
    assert capsys.readouterr().err == ""
