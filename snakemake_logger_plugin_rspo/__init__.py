"""What Snakemake prints: progress of the policies instead of a message for every job.

`profiles/default` selects this handler (`logger: rspo`), which Snakemake finds by the package's
name and imports before it parses its command line.
"""

import re
import sys
from contextlib import ExitStack
from logging import DEBUG, ERROR, WARNING, LogRecord
from pathlib import Path
from typing import Any

from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent

# Messages that `--quiet rules` hides: the display says more in less space.
HIDDEN = {LogEvent.JOB_INFO, LogEvent.GROUP_INFO, LogEvent.JOB_STARTED, LogEvent.JOB_FINISHED}
HIDDEN |= {LogEvent.PROGRESS, LogEvent.WORKFLOW_STARTED, LogEvent.RESOURCES_INFO, LogEvent.RUN_INFO}
SELECTING_JOBS = "Select jobs to execute..."  # comes with every job, and has no event
KEPT = "--keep-incomplete mode is set"  # begins a warning; jobs of this workflow leave whole files
INTERRUPTED = "Terminating processes on user request"  # how the message after Ctrl-C begins
OF_EXECUTOR = {"WorkflowError:", "NoAnswer:"}  # how errors of our executor plugin begin
RESUMES = "The same command resumes."


class LogHandler(LogHandlerBase):
    """Shows the progress of a run, and Snakemake's warnings and errors.

    Without `rules` in `--quiet` it also prints Snakemake's messages about each job.
    """

    writes_to_stream = True
    writes_to_file = False
    has_filter = True
    has_formatter = False  # Snakemake formats what is printed
    needs_rulegraph = False

    def __post_init__(self) -> None:
        settings = self.common_settings
        self.stream = sys.stdout if settings.stdout else sys.stderr
        self.quiet = {choice.name for choice in settings.quiet or ()}
        self.jobs = (0, 0)  # done, and all
        self.experiments: list[Any] = []  # one, or those of several modules
        self.is_shown = self.is_interrupted = False
        self.display = ExitStack()

    def emit(self, record: Any) -> None:
        """Print a record. An exception would end Snakemake's logging thread."""
        event = getattr(record, "event", None)
        try:
            if event == LogEvent.RUN_INFO:
                self.jobs = (0, record.stats["total"])
            elif event == LogEvent.PROGRESS:
                self.jobs = (record.done, record.total)
            elif record.getMessage().startswith(INTERRUPTED):
                self.is_interrupted = True
            if hasattr(record, "experiment"):  # what the Snakefile logs at the start of a run
                self._show_progress(record.experiment)
            elif not self._is_hidden(record, event):
                text = self.format(record)
                if event == LogEvent.JOB_ERROR:
                    text = "\n".join([text, *_reasons(record.log)])
                elif record.levelno >= ERROR:
                    text = _without_places(text)
                if text and text != "None":
                    print(text, file=self.stream, flush=True)
        except BrokenPipeError:  # nobody reads the output any more, as in `| head`
            pass
        except Exception:
            self.handleError(record)

    def _is_hidden(self, record: LogRecord, event: LogEvent | None) -> bool:
        settings = self.common_settings
        if self.is_interrupted and record.levelno >= ERROR:
            return True  # the jobs that Ctrl-C ended
        if record.getMessage().startswith(KEPT):
            return True
        if record.levelno >= WARNING or (event == LogEvent.RUN_INFO and settings.dryrun):
            return False
        if event == LogEvent.SHELLCMD:
            return not settings.printshellcmds
        if event == LogEvent.DEBUG_DAG:
            return not settings.debug_dag
        if record.levelno == DEBUG:
            return not settings.verbose
        of_rules = event in HIDDEN or record.getMessage() == SELECTING_JOBS
        return "ALL" in self.quiet or ("RULES" in self.quiet and of_rules)

    def _show_progress(self, experiment: Any) -> None:
        from rspo.status.display import shown

        self.experiments.append(experiment)
        if "ALL" not in self.quiet and not self.is_shown:
            self.is_shown = True
            self.display.enter_context(shown(self._line))

    def _line(self) -> str:
        from rspo.status.display import line

        first, *others = self.experiments
        return " | ".join(filter(None, [line(first, self.jobs), *map(line, others)]))

    def close(self) -> None:
        """End the display. Snakemake calls it at the end of a run, also after Ctrl-C."""
        self.display.close()
        if self.is_shown and self.is_interrupted:
            print(RESUMES, file=self.stream, flush=True)
        self.is_shown = False
        super().close()


def _without_places(text: str) -> str:
    """An error without the places in our code that found it, which a user cannot change."""
    of_input = r"InputFunctionException in .*?\n +(?:Input|Workflow)Error:\s+(.+?)\nWildcards:.*"
    if found := re.fullmatch(of_input, text.strip(), flags=re.DOTALL):
        return f"error: {found[1]}"
    head, _, rest = text.partition("\n")
    of_rules = re.match(r'WorkflowError in file ".*/workflow/rules/', head)
    of_checks = "/rspo/snakemake/" in rest
    of_executor = "/snakemake_executor_plugin_slurm_patient/" in rest and head in OF_EXECUTOR
    if not of_rules and not of_checks and not of_executor:
        return text
    return "error: " + "\n".join(row for row in rest.splitlines() if row[:7] != "  File ")


def _reasons(logs: list[str]) -> list[str]:
    """The last error of the `rspo` command in the logs of a job."""
    reasons = []
    for log in logs:
        path = Path(log.split(" (check")[0])
        text = path.read_text(errors="replace") if path.is_file() else ""
        reasons += re.findall(r"^rspo: (?:error: )?(.+)$", text, flags=re.MULTILINE)[-1:]
    return [f"    reason: {reason}" for reason in reasons]
