"""What a study is: its inputs, its table and its page.

The package rspo.studies.<name> has two modules. In `table`, the function
`table(experiment, columns)` returns every number of the page and of the figure. In `page`, the
function `page(table)` returns the page in Markdown; every statement follows from the table.

This module imports neither them nor pandas: the Snakefile reads it to plan.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module

from rspo.config import steps
from rspo.config.experiment import Experiment
from rspo.core.errors import InputError
from rspo.core.files import write_text
from rspo.core.step import Step


@dataclass(frozen=True)
class Study:
    """One study.

    name: of its entry in config.studies, of its package and of its files.
    columns: the columns of its table, and what each holds.
    """

    name: str
    columns: Mapping[str, str]

    def step(self, experiment: Experiment) -> Step:
        """`rspo study NAME`: writes its table and its page.

        Raises: InputError if the config lacks the study.
        """
        self._require(experiment)
        return steps.study(experiment, self.name)

    def write(self, experiment: Experiment, force: bool = False) -> None:
        """Write the table and the page.

        Raises: InputError for inputs that are missing, incomplete or bad.
        """
        from rspo.core.tables import write_csv  # here, because it imports pandas

        step = self.step(experiment)
        (csv, page), package = step.outputs, f"{__package__}.{self.name}"

        def work() -> None:
            table = import_module(f"{package}.table").table(experiment, list(self.columns))
            if list(table.columns) != list(self.columns):
                given, expected = [*table.columns], [*self.columns]
                raise ValueError(f"{self.name}: columns {given}, expected {expected}")
            write_csv(csv, table)
            write_text(page, import_module(f"{package}.page").page(table))

        step.run(work, force)

    def _require(self, experiment: Experiment) -> None:
        if self.name not in experiment.config.studies:
            has = ", ".join(experiment.config.studies) or "none"
            raise InputError(
                f"config/{experiment.scale}.yaml: studies lacks {self.name}; has {has}"
            )
