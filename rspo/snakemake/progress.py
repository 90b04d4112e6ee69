"""Snakemake's log handler `rspo`: it prints the progress of the policies, not a line for each job.

`profiles/default` selects this handler (`logger: rspo`). Snakemake finds it by the name of the
package snakemake_logger_plugin_rspo. It imports this package before it parses its command line, in
every run. So this module imports other parts of `rspo` only when it shows something.
"""

import os
import re
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import cache
from logging import DEBUG, ERROR, WARNING, FileHandler, LogRecord
from pathlib import Path
from threading import Event
from typing import Any

from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent

# The events whose messages `--quiet rules` hides: the display says more in less space.
HIDDEN = {
    LogEvent.JOB_INFO,
    LogEvent.GROUP_INFO,
    LogEvent.JOB_STARTED,
    LogEvent.JOB_FINISHED,
    LogEvent.PROGRESS,
    LogEvent.WORKFLOW_STARTED,
    LogEvent.RESOURCES_INFO,
    LogEvent.RUN_INFO,
}
# Messages of Snakemake that have no event, so that only their text identifies them.
SELECTING_JOBS = "Select jobs to execute..."  # comes with every job
# This begins a warning about files that may be incomplete. Jobs of this workflow leave whole files.
KEPT = "--keep-incomplete mode is set"
# This begins a message of --touch for each job. The end of the run says it in one line (`end_run`).
NOT_TOUCHED = "Output files not touched because they don't exist"
# A warning about each output with the flag `update` of a job that failed, if no earlier file was
# there. The job has left nothing, and nothing is lost.
NOT_RESTORED = re.compile(r"Cannot restore .+: no backup found\.")
# What Snakemake says a second time about a failed job: its message "Error in rule ..." names the
# command and the log, to which the handler adds the reason. `rspo` ends with the status 1 or 2
# after it has printed its error; another status, such as 137 of a killed command, is printed.
REPEATED = re.compile(
    r"WorkflowError:\nAt least one job did not complete successfully\."
    r"|RuleException:\nCalledProcessError in file \".*/workflow/rules/[^\"]*\", line \d+:\n"
    r"Command '.*' returned non-zero exit status [12]\.",
    flags=re.DOTALL,
)
NO_MESSAGE = "    message: None\n"  # of a rule without a message
INTERRUPTED = "Terminating processes on user request"  # begins the message after Ctrl-C
ENDING = "Will exit after finishing currently running jobs"  # begins the message after SIGTERM
EXECUTOR_ERRORS = {"WorkflowError:", "NoAnswer:"}  # first lines of our executor plugin's errors
RESUMES = "The same command resumes."
SECONDS_FOR_DISPLAY = 10  # the longest wait for the display of a run that starts


class LogHandler(LogHandlerBase):
    """Shows the progress of a run, and prints Snakemake's warnings and errors.

    It prints Snakemake's messages about each job too, unless `--quiet` contains `rules`.
    """

    writes_to_stream = True
    writes_to_file = False
    has_filter = True
    has_formatter = False  # Snakemake formats what is printed
    needs_rulegraph = False

    def __post_init__(self) -> None:
        _report_a_full_log_once()
        settings = self.common_settings
        self.stream = sys.stdout if settings.stdout else sys.stderr
        self.quiet = {choice.name for choice in settings.quiet or ()}
        self.jobs = (0, 0)  # how many jobs are done, and how many there are
        self.experiments: list[Any] = []  # a Snakefile with several modules has an experiment each
        self.conclusions: list[str] = []  # what a dry run ends with, below the tables of its jobs
        self.is_shown = False  # whether the display is on
        self.has_begun = Event()  # set as soon as the start of a run has been handled
        self.is_interrupted = False
        self.is_ending = False
        self.display = ExitStack()
        self.print: Callable[[str], None] = self._print_line
        self.times: Any = None  # the times of jobs, from which the time left is estimated
        self.pace: Any = None
        self.has_bars = False

    def emit(self, record: Any) -> None:
        """Print a record. Raises nothing, because that would end Snakemake's logging thread."""
        event = getattr(record, "event", None)
        try:
            self._note_times(record, event)
            if event == LogEvent.RUN_INFO:
                self.jobs = (0, record.stats["total"])
                self._begin_times(record.stats)
                self._show_bars()
            elif event == LogEvent.PROGRESS:
                self.jobs = (record.done, record.total)
            elif record.getMessage().startswith(INTERRUPTED):
                self.is_interrupted = True
            elif record.getMessage().startswith(ENDING):
                self.is_ending = True
            if hasattr(record, "experiment"):  # what the Snakefile logs at the start of a run
                try:
                    self._show_progress(record.experiment)
                finally:
                    self.has_begun.set()
            elif self.common_settings.dryrun and hasattr(record, "is_conclusion"):
                self.conclusions.append(self.format(record))
            elif not self._is_hidden(record, event):
                text = self.format(record)
                if event == LogEvent.JOB_ERROR:
                    text = text.replace(NO_MESSAGE, "")
                    for reason in _reasons(record.log):
                        text += f"\n    reason: {reason}"
                elif record.levelno >= ERROR:
                    text = _without_places(text)
                # Snakemake's formatter returns "None" for some events without a message.
                if text and text != "None":
                    self.print(text)
        except BrokenPipeError:  # nobody reads the output any more, as in `| head`
            pass
        except Exception:
            self.handleError(record)

    def wait_for_display(self) -> None:
        """Wait until the display of the run is on, which the Snakefile has asked for.

        Snakemake handles records in another thread. Jobs inherit the standard output that the bars
        replace: a job that starts before the bars would write across them.
        """
        self.has_begun.wait(SECONDS_FOR_DISPLAY)

    def _is_hidden(self, record: LogRecord, event: LogEvent | None) -> bool:
        """Whether a record is not printed, which depends on the options of this run."""
        settings = self.common_settings
        if self.is_interrupted and record.levelno >= ERROR:
            return True  # these are errors of jobs that Ctrl-C ended
        if record.getMessage().startswith((KEPT, NOT_TOUCHED)):
            return True
        text = record.getMessage().strip()
        if NOT_RESTORED.fullmatch(text) or REPEATED.fullmatch(text):
            return not settings.verbose
        if record.levelno >= WARNING or (event == LogEvent.RUN_INFO and settings.dryrun):
            return False
        if event == LogEvent.SHELLCMD:
            return not settings.printshellcmds
        if event == LogEvent.DEBUG_DAG:
            return not settings.debug_dag
        if record.levelno == DEBUG:
            return not settings.verbose
        is_about_jobs = event in HIDDEN or record.getMessage() == SELECTING_JOBS
        return "ALL" in self.quiet or ("RULES" in self.quiet and is_about_jobs)

    def _show_progress(self, experiment: Any) -> None:
        """Show the progress of an experiment from now on.

        A Snakefile with several modules adds experiments to the same line or bars.
        """
        self.experiments.append(experiment)
        if "ALL" in self.quiet or self.is_shown:
            return
        self.is_shown = True
        if not self.has_bars:
            from rspo.status.display import shown

            self.display.enter_context(shown(self._line))

    def _begin_times(self, jobs: Mapping[str, int]) -> None:
        """Note the times of jobs from now on, for a run with so many jobs of each rule."""
        if self.times is not None or "ALL" in self.quiet or self.common_settings.dryrun:
            return
        from rspo.status.time_left import JobTimes, Pace

        self.times = JobTimes()
        self.times.plan(jobs)
        self.pace = Pace()

    def _show_bars(self) -> None:
        """Show bars from now on, in a terminal."""
        if self.times is None or self.has_bars or not sys.stderr.isatty():
            return
        from rspo.status.bars import shown_as_bars

        self.has_bars = True
        self.print = self.display.enter_context(shown_as_bars(self._bars))

    def _note_times(self, record: Any, event: LogEvent | None) -> None:
        """Note when jobs start and end, from which the time left is estimated."""
        if self.times is None:
            return
        if event == LogEvent.JOB_INFO:
            self.times.start(record.jobid, record.rule_name)
        elif event == LogEvent.JOB_FINISHED:
            self.times.finish(record.job_id)
        elif event == LogEvent.JOB_ERROR:
            self.times.stop(record.jobid)

    def _bars(self) -> list[Any]:
        """The bars of the run and of the running policies of all experiments."""
        from rspo.status.display import bars, run_bar

        shown = run_bar(self.jobs, self.times.seconds_left())
        for experiment in self.experiments:
            shown += bars(experiment, self.pace)
        return shown

    def _print_line(self, text: str) -> None:
        print(text, file=self.stream, flush=True)

    def _line(self) -> str:
        """The progress of all experiments; the first one has the number of jobs in front."""
        from rspo.status.display import line

        seconds_left = self.times.seconds_left() if self.times is not None else None
        parts = [line(self.experiments[0], self.jobs, seconds_left, self.pace)]
        parts += [line(experiment, pace=self.pace) for experiment in self.experiments[1:]]
        return " | ".join(part for part in parts if part)

    def close(self) -> None:
        """End the display. Snakemake calls this at the end of every run, even after Ctrl-C."""
        self.display.close()
        self.print = self._print_line
        if self.has_bars and self.experiments:
            self.print(self._line())  # what the bars showed last
        for text in self.conclusions:
            self.print(text)
        self.conclusions.clear()
        if self.is_shown and (self.is_interrupted or self.is_ending):
            print(RESUMES, file=self.stream, flush=True)
        self.is_shown = False
        self.has_bars = False
        self.times = None
        super().close()


@cache
def _report_a_full_log_once() -> None:
    """Print one line if a log file cannot be written. A second call has no effect.

    Snakemake keeps a log in .snakemake/log. On a full disk, Python's logging would print a
    traceback for each message that the log misses.
    """
    handle_error = FileHandler.handleError
    reported = set()

    def handle(handler: FileHandler, record: LogRecord) -> None:
        error = sys.exc_info()[1]
        if not isinstance(error, OSError) or error.errno is None:
            handle_error(handler, record)
        elif handler.baseFilename not in reported:
            reported.add(handler.baseFilename)
            reason = os.strerror(error.errno)
            text = f"rspo: {handler.baseFilename}: {reason}; this log misses messages"
            print(text, file=sys.stderr, flush=True)

    FileHandler.handleError = handle  # type: ignore[assignment, method-assign]


def _without_places(text: str) -> str:
    """The text of an error, without the files and lines of this package that raised it.

    A user can change nothing there. Other errors stay as they are, such as those of a user's own
    `onstart`, which our code calls (`rspo.snakemake.patches.always_run`).
    """
    # Snakemake wraps the error of a function that computes inputs or parameters: a line with the
    # place in the rules, an indented line with the error (group 1), and the wildcards.
    pattern = r"InputFunctionException in .*?\n +(?:Input|Workflow)Error:\s+(.+?)\nWildcards:.*"
    match = re.fullmatch(pattern, text.strip(), flags=re.DOTALL)
    if match:
        return f"error: {match[1]}"
    # Snakemake makes a folder for its cache before it reads the Snakefile.
    pattern = r"""Traceback.*/snakemake/sourcecache\.py".*Error: \[Errno \d+\] (.+?): '(.+?)'"""
    match = re.fullmatch(pattern, text.strip(), flags=re.DOTALL)
    if match:
        return (
            f"error: {match[2]}: {match[1]}: Snakemake keeps a cache in the home folder; set "
            "XDG_CACHE_HOME to a folder that can be written"
        )
    # Snakemake reads all words behind --config as keys, and a target is none.
    pattern = r"Traceback.*ValueError: Invalid config definition: .*\(Unparsable value: '(.+?)'\)"
    match = re.fullmatch(pattern, text.strip(), flags=re.DOTALL)
    if match:
        return (
            f"error: --config {match[1]}: expected KEY=VALUE; give targets before --config, as in "
            "`snakemake TARGET --config KEY=VALUE`"
        )
    # All other errors have the form of a traceback: the type, and then lines `  File "..."`, of
    # which the last one names the place that raised the error.
    head, _, rest = text.partition("\n")
    is_from_rules = re.match(r'WorkflowError in file ".*/workflow/rules/', head)
    places = re.findall(r'^ +File "(.+?)"', rest, flags=re.MULTILINE)
    raised_in = places[-1] if places else ""
    is_from_checks = head.startswith("WorkflowError") and "/rspo/snakemake/" in raised_in
    is_from_executor = (
        head in EXECUTOR_ERRORS and "/snakemake_executor_plugin_slurm_patient/" in rest
    )
    if not is_from_rules and not is_from_checks and not is_from_executor:
        return text
    rows = [row for row in rest.splitlines() if not row.startswith("  File ")]
    return "error: " + "\n".join(rows)


def _reasons(logs: list[str]) -> list[str]:
    """The last error of the `rspo` command in each log of a job."""
    reasons = []
    for log in logs:
        path = Path(log.split(" (check")[0])  # Snakemake adds advice in parentheses
        if path.is_file():
            text = path.read_text(errors="replace")
            # A line such as "rspo: error: config/tiny.yaml: ...", as `rspo.cli.run` prints it.
            reasons += re.findall(r"^rspo: (?:error: )?(.+)$", text, flags=re.MULTILINE)[-1:]
    return reasons
