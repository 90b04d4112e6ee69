"""Reads the rows of a data set on the Hugging Face hub, or in a mirror of the hub.

A mirror is a folder. It holds the split SPLIT of the data set ID as ID/SPLIT.jsonl, or that of its
configuration CONFIG as ID/CONFIG/SPLIT.jsonl, with one JSON object per line and the hub's columns.
"""

import re
from collections.abc import Iterable
from pathlib import Path

from rspo.config.schema import DataSet, Hub
from rspo.core.errors import InputError
from rspo.formats.rows import Row, rows_of_source

_COMMIT = re.compile(r"[0-9a-f]{40}")  # the full hash of a commit


def read_rows(hub: Hub, mirror: Path | None) -> list[Row]:
    """Read all rows of a data set's split, unfiltered, in the order of the configurations.

    Args:
        mirror: folder to read instead of the hub.

    Raises: InputError if a file of the mirror is missing, or a download fails.
    """
    rows = []
    for config in hub.configs or (None,):
        name = f"{hub.id}/{config}/{hub.split}" if config else f"{hub.id}/{hub.split}"
        if mirror is None:
            rows += _downloaded(hub, config, name)
        else:
            rows += rows_of_source(mirror / f"{name}.jsonl", name)
    return rows


def require_mirror(mirror: Path | None, data_sets: Iterable[DataSet]) -> None:
    """Raises: InputError if the mirror is not a folder, or contains none of the data sets."""
    if mirror is None:
        return
    if not mirror.is_dir():
        raise InputError(f"mirror = {mirror}: no such folder")
    ids = [data_set.hub.id for data_set in data_sets if data_set.hub is not None]
    if ids and not any((mirror / id).is_dir() for id in ids):
        raise InputError(
            f"mirror = {mirror}: has none of the data sets; expected folders such as {ids[0]}"
        )


def _downloaded(hub: Hub, config: str | None, name: str) -> list[Row]:
    """Download the rows of one configuration of a data set.

    The revision of each row is a commit, because a branch such as `main` may change.

    Args:
        config: the configuration; None if the data set has only one.
        name: ID/SPLIT or ID/CONFIG/SPLIT, the source of each row.

    Raises: InputError for any failure of the download.
    """
    origin = f"https://huggingface.co/datasets/{hub.id}"
    try:
        import datasets
        from huggingface_hub import HfApi

        revision = hub.revision
        if not _COMMIT.fullmatch(revision):
            revision = HfApi().dataset_info(hub.id, revision=revision).sha or revision
        rows = datasets.load_dataset(hub.id, name=config, split=hub.split, revision=revision)
        return [
            Row(f"{origin} ({name})", f"line {number + 1}", dict(columns), name, revision, number)
            for number, columns in enumerate(rows)
        ]
    except Exception as error:  # the library raises errors of many packages
        # Without access to a gated data set, the hub's error may say that it does not exist, so the
        # message always mentions this cause.
        raise InputError(
            f"{name} at revision {hub.revision} could not be downloaded "
            f"({' '.join(str(error).split()) or type(error).__name__}); if it is gated, accept its "
            f"terms at {origin} and set HF_TOKEN to a token of "
            "that account; or use a mirror"
        ) from error
