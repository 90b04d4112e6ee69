"""Names of an experiment's files."""

import re
from dataclasses import dataclass
from pathlib import Path

from rspo.core.errors import InputError

# The folders in a folder of results.
_IN_RESULTS = {"cells", "judge", "logs", "problems", "reports", "tables"}


@dataclass(frozen=True)
class Files:
    """Names of the files in an experiment's folders of results and of reports.

    A policy is a cell's name or the name of a base policy. Samples are in blocks, see
    `Experiment.blocks`.
    """

    results: Path
    reports: Path

    @classmethod
    def of_scale(cls, scale: str, root: Path, results: Path | None = None) -> "Files":
        """The files of a scale below `root`, or those in another folder of results.

        Args:
            results: a folder that has the reports too, because `reports/` belongs to the scale's
                own folder, `results/<scale>`.

        Raises: InputError for a folder of something else.
        """
        default = root / "results" / scale
        if results is None or results.expanduser().resolve() == default.resolve():
            return cls(default, root / "reports")
        results = results.expanduser()
        _require_folder_of_results(results)
        return cls(results, results / "reports")

    @property
    def has_own_results(self) -> bool:
        """Whether the results are in another folder than `results/<scale>`."""
        return self.reports.parent == self.results

    def problems(self, data_set: str) -> Path:
        """The table with the problems of a data set."""
        return self.results / "problems" / f"{data_set}.parquet"

    def folder(self, policy: str) -> Path:
        """The folder of everything that belongs to one policy."""
        return self.results / "cells" / policy

    def policy(self, policy: str) -> Path:
        """The folder of a policy's weights and tokenizer."""
        return self.folder(policy) / "policy"

    def training_log(self, cell: str) -> Path:
        return self.folder(cell) / "training.jsonl"

    def checkpoint(self, policy: str) -> Path:
        """Folder to resume from; no output of a rule, and removed when the policy is finished."""
        return self.folder(policy) / "checkpoint"

    def samples(self, policy: str, suite: str, block: int) -> Path:
        return self.folder(policy) / "samples" / suite / f"{block}.parquet"

    def scores(self, policy: str, suite: str, block: int) -> Path:
        return self.folder(policy) / "scores" / suite / f"{block}.parquet"

    def verdicts(self, policy: str, responses: str) -> Path:
        """A judge's verdicts on the responses of "train", or of a suite's block: "standard.0".

        Snakemake never deletes this file, because it is no output of a rule.
        """
        return self.folder(policy) / "verdicts" / f"{responses}.jsonl"

    def curves(self, policy: str, suite: str) -> Path:
        return self.folder(policy) / "curves" / f"{suite}.parquet"

    @property
    def judge_prompt(self) -> Path:
        return self.results / "judge" / "prompt.py"

    @property
    def judge_model(self) -> Path:
        """Folder that the judge's model is downloaded to."""
        return self.results / "judge" / "model"

    def table(self, name: str) -> Path:
        """A table of the whole experiment, such as "curves"."""
        return self.results / "tables" / f"{name}.csv"


def _require_folder_of_results(folder: Path) -> None:
    """Raises: InputError for a file, for a folder of something else, and for special characters."""
    if not re.fullmatch(r"[\w./+@-]+", str(folder)):  # the rules' commands are lines of a shell
        raise InputError(f"--results {folder}: allowed: letters, digits and any of _ . / + @ -")
    visible = {path.name for path in folder.glob("[!.]*")}
    other = visible - _IN_RESULTS
    is_file = folder.exists() and not folder.is_dir()
    if is_file or (other and visible.isdisjoint(("cells", "problems"))):
        what = f"has {min(other)}" if other else "is a file"
        raise InputError(f"--results {folder}: {what}; expected a folder of results, or a new one")
