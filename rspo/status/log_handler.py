"""What Snakemake prints: progress of the policies instead of a message for every job.

`profiles/default` selects this handler (`logger: rspo`). Snakemake finds it in the package
`snakemake_logger_plugin_rspo`. Its own log file in `.snakemake/log` is not affected.
"""

import re
import sys
from contextlib import ExitStack
from logging import DEBUG, WARNING, LogRecord
from pathlib import Path

from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent

# Messages that `--quiet rules` hides: the display says more in less space.
HIDDEN = {LogEvent.JOB_INFO, LogEvent.GROUP_INFO, LogEvent.JOB_STARTED, LogEvent.JOB_FINISHED}
HIDDEN |= {LogEvent.PROGRESS, LogEvent.WORKFLOW_STARTED, LogEvent.RESOURCES_INFO, LogEvent.RUN_INFO}
SELECTING_JOBS = "Select jobs to execute..."  # comes with every job, and has no event


class LogHandler(LogHandlerBase):
    """Shows the progress of a run, and Snakemake's warnings and errors.

    Without `rules` in `--quiet` it also prints Snakemake's messages about each job. A dry run
    prints the number of jobs of each rule.
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
        self.jobs_done = self.jobs = 0
        self.display = ExitStack()

    def emit(self, record: LogRecord) -> None:
        """Print a record. An exception would end Snakemake's logging thread."""
        try:
            self._emit(record, getattr(record, "event", None))
        except Exception:
            self.handleError(record)

    def _emit(self, record: LogRecord, event: LogEvent | None) -> None:
        if event == LogEvent.RUN_INFO:
            self.jobs = record.stats["total"]  # type: ignore[attr-defined]
        elif event == LogEvent.PROGRESS:
            self.jobs_done, self.jobs = record.done, record.total  # type: ignore[attr-defined]
        if hasattr(record, "experiment"):
            self._show_progress(record)
        elif not self._is_hidden(record, event):
            text = self.format(record)
            if event == LogEvent.JOB_ERROR:
                text = "\n".join([text, *_reasons(record.log)])  # type: ignore[attr-defined]
            if text and text != "None":
                print(text, file=self.stream, flush=True)

    def _is_hidden(self, record: LogRecord, event: LogEvent | None) -> bool:
        if record.levelno >= WARNING:
            return False
        if event == LogEvent.SHELLCMD:
            return not self.common_settings.printshellcmds
        if event == LogEvent.DEBUG_DAG:
            return not self.common_settings.debug_dag
        if record.levelno == DEBUG:
            return not self.common_settings.verbose
        if event == LogEvent.RUN_INFO and self.common_settings.dryrun:
            return False
        of_rules = event in HIDDEN or record.getMessage() == SELECTING_JOBS
        return "ALL" in self.quiet or ("RULES" in self.quiet and of_rules)

    def _show_progress(self, record: LogRecord) -> None:
        """Start the display, with what the Snakefile logs at the start of a run."""
        from rspo.status.display import Run, shown
        from rspo.status.policies import statuses

        experiment, suites = record.experiment, record.suites  # type: ignore[attr-defined]

        def read() -> Run:
            return Run(statuses(experiment, suites), (self.jobs_done, self.jobs))

        if "ALL" not in self.quiet:
            self.display.enter_context(shown(read))

    def close(self) -> None:
        """End the display. Snakemake calls it at the end of a run, also after Ctrl-C."""
        self.display.close()
        super().close()


def _reasons(logs: list[str]) -> list[str]:
    """The last error of the `rspo` command in the logs of a job."""
    reasons = []
    for log in logs:
        path = Path(log.split(" (check")[0])
        text = path.read_text(errors="replace") if path.is_file() else ""
        reasons += re.findall(r"^rspo: (?:error: )?(.+)$", text, flags=re.MULTILINE)[-1:]
    return [f"    reason: {reason}" for reason in reasons]
