"""`rspo train CELL` in a process of its own, which tests watch and kill."""

import os
import subprocess
import time

import psutil

from rspo.config.experiment import Experiment
from tests.support import ROOT, tiny_world


class Command:
    """Writes its output to the file `log` beside the folders of the experiment."""

    def __init__(
        self,
        experiment: Experiment,
        cell: str,
        environment: dict[str, str] | None = None,
        **settings: object,
    ) -> None:
        """The process has the variables of `environment` too; `settings` are overrides."""
        root = experiment.files.reports.parent
        self.log = root / "log"
        with self.log.open("w") as output:
            self.process = psutil.Popen(
                tiny_world.command("train", cell, **settings),
                cwd=root,
                env=os.environ | {"PYTHONPATH": str(ROOT)} | (environment or {}),
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def descendants(self, words: str) -> list[psutil.Process]:
        """Descendants with these words in their command line; waits for the first."""
        while True:
            matching = []
            for process in self.process.children(recursive=True):
                try:
                    if words in " ".join(process.cmdline()):
                        matching.append(process)
                except psutil.Error:
                    continue
            if matching:
                return matching
            self.require_running()
            time.sleep(0.1)

    def require_running(self) -> None:
        assert self.process.poll() is None, self.log.read_text()[-3000:]

    def require_success(self) -> None:
        # May include a start, which takes minutes on a busy machine.
        assert self.process.wait(1200) == 0, self.log.read_text()[-3000:]

    def end(self) -> tuple[int, str]:
        """Wait for the end; return the exit status and the last line."""
        status = self.process.wait(1200)
        return status, self.log.read_text().rstrip("\n").rsplit("\n", 1)[-1]
