"""Modification times of results that were copied to another folder or machine."""

import json
import os
from calendar import timegm
from collections.abc import Iterator
from pathlib import Path
from time import strptime
from typing import Any

from rspo.config import fingerprints
from rspo.config.experiment import BASE, Experiment
from rspo.core.errors import InputError
from rspo.core.files import digest
from rspo.core.provenance import SUFFIX, TIME_FORMAT
from rspo.status.policies import is_stale

_SHOWN = 3  # results in a message
# Commands whose results have the fingerprint of `fingerprints.settings` in their provenance.
_STEPS = ("prepare", "pretrain", "sample", "score", "curves", "gradients", "claims")
# Snakemake reads the time of a folder from this file in it, if it exists.
_TIME_OF_FOLDER = ".snakemake_timestamp"


def restore_times(experiment: Experiment) -> tuple[int, list[Path]]:
    """Set the modification time of every result to the time in its provenance.

    Snakemake compares these times, and most ways to copy files change them.

    Returns: the number of results, and those that changed since they were written. Their times
        stay, so that Snakemake updates what depends on them.

    Raises: InputError for results that were made with other settings: Snakemake would not notice
        this without its own records, which a copy of the results lacks.
    """
    results = list(_results(experiment))
    stale = [str(path) for path, note in results if not _has_these_settings(experiment, path, note)]
    if stale:
        more = f" and {len(stale) - _SHOWN} more" if len(stale) > _SHOWN else ""
        raise InputError(
            f"made with other settings than this config has: {', '.join(stale[:_SHOWN])}{more}; "
            "use their config, or delete them"
        )
    restored, changed = 0, []
    for path, note in results:
        if digest(path) == note["digest"]:
            written = timegm(strptime(note["written"], TIME_FORMAT))
            timestamp = path / _TIME_OF_FOLDER
            for file in (path, timestamp) if timestamp.exists() else (path,):
                os.utime(file, (written, written))
            restored += 1
        else:
            changed.append(path)
    return restored, changed


def _has_these_settings(experiment: Experiment, path: Path, note: dict[str, Any]) -> bool:
    """Whether a result was made with the settings of the config.

    True for files of other commands, and of policies and data sets that the config lacks.
    """
    step = " ".join(note["command"][1:2])  # of the `rspo` command
    policy = next((one.name for one in path.parents if one.parent.name == "cells"), None)
    if policy is not None and policy not in experiment.policies:
        return True
    if step == "train":
        return not is_stale(experiment, path.parent.name)
    if step not in _STEPS or (step == "prepare" and path.stem not in experiment.data_sets):
        return True
    names = {"prepare": path.stem, "pretrain": path.parent.name.removesuffix(f"--{BASE}")}
    current = fingerprints.settings_hash(experiment, step, names.get(step, ""))
    return bool(note["settings_hash"] == current)


def _results(experiment: Experiment) -> Iterator[tuple[Path, dict[str, Any]]]:
    """All results that have provenance, with it."""
    for folder in dict.fromkeys((experiment.results, experiment.reports)):
        for provenance in sorted(folder.rglob(f"*{SUFFIX}")):
            path = provenance.with_name(provenance.name.removesuffix(SUFFIX))
            if path.exists():
                yield path, json.loads(provenance.read_text())
