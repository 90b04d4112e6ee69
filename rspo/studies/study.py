"""What a study is: its inputs, its table and its page.

The package rspo.studies.<name> has two modules. In `table`, the function
`table(experiment, columns)` returns every number of the page and of the figure. In `page`, the
function `page(table)` returns the page in Markdown; every statement follows from the table.

This module imports neither them nor pandas: the Snakefile reads it to plan.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from rspo.config import fingerprints
from rspo.config.experiment import Experiment
from rspo.core.errors import InputError
from rspo.core.files import write_text
from rspo.core.provenance import write_provenance


@dataclass(frozen=True)
class Study:
    """One study.

    name: of its entry in config.studies, of its package and of its files.
    columns: the columns of its table, and what each holds.
    version: raise it when the table or the page changes, so that Snakemake writes them again.
    gradients: reads the gradients of its objectives, measured on its base policies.
    """

    name: str
    columns: Mapping[str, str]
    version: int = 1
    gradients: bool = False

    def inputs(self, experiment: Experiment) -> list[Path]:
        """The scores of its policies, base policies included, and the logs of its cells.

        Raises: InputError if the config lacks the study.
        """
        self._require(experiment)
        suite = experiment.grid_entry(self.name).suite
        return [
            *(
                file
                for policy in experiment.policies_of(self.name)
                for benchmark in experiment.benchmarks_of(suite)
                for file in experiment.score_files(policy, benchmark)
            ),
            *(experiment.training_log(cell.name) for cell in experiment.cells_of(self.name)),
            *(
                experiment.gradients(base, self.name)
                for base in experiment.bases_of(self.name)
                if self.gradients
            ),
        ]

    def outputs(self, experiment: Experiment) -> list[Path]:
        """The files that `write` writes: .csv and .md."""
        return [
            experiment.results / "tables" / f"{self.name}{suffix}" for suffix in (".csv", ".md")
        ]

    def settings(self, experiment: Experiment) -> dict[str, Any]:
        """The settings that decide its table, apart from its inputs.

        Raises: InputError if the config lacks the study.
        """
        self._require(experiment)
        settings = fingerprints.settings(experiment, "study", self.name)
        return settings | {"columns": dict(self.columns), "version": self.version}

    def write(self, experiment: Experiment) -> None:
        """Write the table and the page.

        Raises: InputError for inputs that are missing, incomplete or bad.
        """
        from rspo.core.tables import write_csv  # here, because it imports pandas

        settings = self.settings(experiment)
        csv, page = self.outputs(experiment)
        experiment.require_replaceable(csv, settings)
        package = f"{__package__}.{self.name}"
        table = import_module(f"{package}.table").table(experiment, list(self.columns))
        if list(table.columns) != list(self.columns):
            raise ValueError(f"{self.name}: columns {[*table.columns]}, expected {[*self.columns]}")
        write_csv(csv, table)
        write_text(page, import_module(f"{package}.page").page(table))
        for path in (csv, page):
            write_provenance(path, settings, self.inputs(experiment))

    def _require(self, experiment: Experiment) -> None:
        if self.name not in experiment.config.studies:
            has = ", ".join(experiment.config.studies) or "none"
            raise InputError(
                f"config/{experiment.scale}.yaml: studies lacks {self.name}; has {has}"
            )
