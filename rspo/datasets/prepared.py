"""The problems tables that `rspo prepare` wrote."""

from pathlib import Path

from rspo.config import fingerprints
from rspo.config.experiment import Experiment
from rspo.core.errors import InputError
from rspo.core.replacement import require_same_settings


def existing_problems(experiment: Experiment, data_set: str) -> Path:
    """The table with the problems of a data set.

    Raises: InputError with the command that makes it, if it is missing or was made with other
        settings or from another content of the user's file.
    """
    path = experiment.problems(data_set)
    command = experiment.command("prepare", data_set)
    if not path.is_file():
        raise InputError(f"{path}: no such file; `{command}` makes it")
    settings = fingerprints.settings(experiment, "prepare", data_set)
    require_same_settings(path, settings, f"`{command}` makes it again")
    return path
