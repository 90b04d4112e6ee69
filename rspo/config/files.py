"""The names of an experiment's files; docs/files.md describes their content."""

import re
from dataclasses import dataclass
from pathlib import Path

from rspo.core.errors import InputError

# The folders that a folder of results may contain.
_IN_RESULTS = {"cells", "judge", "logs", "problems", "reports", "tables"}


@dataclass(frozen=True)
class Files:
    """The names of the files in an experiment's two folders: results and reports.

    A `policy` is the name of a cell or of a base policy. Samples and scores are divided into blocks
    (`Experiment.blocks`).
    """

    results: Path
    reports: Path

    @classmethod
    def of_scale(cls, scale: str, root: Path, results: Path | None = None) -> "Files":
        """The files of a scale below `root`, or in another folder of results.

        Args:
            results: the folder of the results; None for the scale's own folder, `results/<scale>`.
                Another folder gets the reports too, because `reports/` belongs to the scale's own.

        Raises: InputError if `results` names neither a folder of results nor a new folder, or has
            special characters in its path.
        """
        default = root / "results" / scale
        results = default if results is None else results.expanduser()
        if results.resolve() == default.resolve():
            return cls(default, root / "reports")
        _require_folder_of_results(results)
        return cls(results, results / "reports")

    @property
    def are_elsewhere(self) -> bool:
        """Whether the results are in another folder than `results/<scale>`, with the reports."""
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
        """The log of a cell's training, a line for each step."""
        return self.folder(cell) / "training.jsonl"

    def events(self, cell: str) -> Path:
        """The folder of the event files of TensorBoard of a cell's training."""
        return self.results / "tensorboard" / cell

    def checkpoint(self, policy: str) -> Path:
        """The folder from which a killed training resumes.

        It is not an output of a rule, because Snakemake would delete it when the job fails. The
        training removes it when the policy is finished.
        """
        return self.folder(policy) / "checkpoint"

    def samples(self, policy: str, suite: str, block: int) -> Path:
        """The table with a block of responses."""
        return self.folder(policy) / "samples" / suite / f"{block}.parquet"

    def scores(self, policy: str, suite: str, block: int) -> Path:
        """The table with the verdicts and rewards of a block of responses."""
        return self.folder(policy) / "scores" / suite / f"{block}.parquet"

    def verdicts(self, policy: str, responses: str) -> Path:
        """The file that keeps a judge model's verdicts, so that it judges no response twice.

        Snakemake never deletes this file, because it is not an output of a rule.

        Args:
            responses: "train" for the responses in training, or the suite and the block of an
                evaluation, such as "standard.0".
        """
        return self.folder(policy) / "verdicts" / f"{responses}.jsonl"

    def curves(self, policy: str, suite: str) -> Path:
        """The table with Pass@k and Max@k of a policy on a suite."""
        return self.folder(policy) / "curves" / f"{suite}.parquet"

    @property
    def judge_prompt(self) -> Path:
        """The file of xVerify's repository that has the judge's prompt."""
        return self.results / "judge" / "prompt.py"

    @property
    def judge_model(self) -> Path:
        """The folder for the download of the judge's model."""
        return self.results / "judge" / "model"

    def table(self, name: str) -> Path:
        """A table of the whole experiment, such as "cost"."""
        return self.results / "tables" / f"{name}.csv"


def _require_folder_of_results(folder: Path) -> None:
    """Raises: InputError if a path is not that of a new folder or of a folder of results.

    An existing folder is a folder of results if it contains cells/ or problems/, or if it contains
    nothing but hidden files and entries of `_IN_RESULTS`. The path must not contain characters that
    are special to a shell.
    """
    if not re.fullmatch(r"[\w./+@-]+", str(folder)):  # the rules' commands are lines of a shell
        raise InputError(f"--results {folder}: allowed: letters, digits and any of _ . / + @ -")
    visible = {path.name for path in folder.glob("[!.]*")}  # the names that do not begin with a dot
    other = visible - _IN_RESULTS
    is_file = folder.exists() and not folder.is_dir()
    if is_file or (other and visible.isdisjoint(("cells", "problems"))):
        what = f"has {min(other)}" if other else "is a file"
        raise InputError(f"--results {folder}: {what}; expected a folder of results, or a new one")
