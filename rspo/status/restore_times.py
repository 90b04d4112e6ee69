"""Modification times of results that were copied to another folder or machine."""

import json
import os
from calendar import timegm
from collections.abc import Iterator
from pathlib import Path
from time import strptime
from typing import Any

from rspo.config.experiment import Experiment
from rspo.core.files import digest
from rspo.core.provenance import SUFFIX, TIME_FORMAT

# Snakemake reads the time of a folder from this file in it, if it exists.
_TIME_OF_FOLDER = ".snakemake_timestamp"


def restore_times(experiment: Experiment) -> tuple[int, list[Path]]:
    """Set the modification time of every result to the time in its provenance.

    Snakemake compares these times, and most ways to copy files change them.

    Returns: the number of results, and those that changed since they were written. Their times
        stay, so that Snakemake updates what depends on them.
    """
    restored, changed = 0, []
    for path, note in _results(experiment):
        if digest(path) == note["digest"]:
            written = timegm(strptime(note["written"], TIME_FORMAT))
            timestamp = path / _TIME_OF_FOLDER
            for file in (path, timestamp) if timestamp.exists() else (path,):
                os.utime(file, (written, written))
            restored += 1
        else:
            changed.append(path)
    return restored, changed


def _results(experiment: Experiment) -> Iterator[tuple[Path, dict[str, Any]]]:
    """All results that have provenance, with it."""
    for folder in dict.fromkeys((experiment.results, experiment.reports)):
        for provenance in sorted(folder.rglob(f"*{SUFFIX}")):
            path = provenance.with_name(provenance.name.removesuffix(SUFFIX))
            if path.exists():
                yield path, json.loads(provenance.read_text())
