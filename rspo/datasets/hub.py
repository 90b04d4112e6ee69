"""Rows of a data set on the Hugging Face hub, or of a mirror folder with the hub's names.

A mirror holds the split SPLIT of the data set ID as ID/SPLIT.jsonl, or ID/CONFIG/SPLIT.jsonl, one
JSON object a line with the hub's columns.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from rspo.config.schema import DataSet, Hub
from rspo.core.errors import InputError
from rspo.core.files import digest, read_json_lines
from rspo.datasets.source_row import SourceRow

_COMMIT = re.compile(r"[0-9a-f]{40}")


def read_rows(hub: Hub, mirror: Path | None) -> list[SourceRow]:
    """All rows of a data set's split, in the order of its configs, unfiltered.

    Args:
        mirror: the folder to read instead of the hub.

    Raises: InputError if a file could not be read or downloaded, or has no rows.
    """
    rows = []
    for config in hub.configs or (None,):
        name = "/".join(filter(None, (hub.id, config, hub.split)))
        of_config = list(
            _mirrored(mirror / f"{name}.jsonl", name)
            if mirror is not None
            else _downloaded(hub, config, name)
        )
        if not of_config:
            source = mirror / f"{name}.jsonl" if mirror is not None else _page(hub)
            expected = " or ".join(str(count) for count in hub.accepted_rows)
            raise InputError(f"{source}: has no rows; expected {expected} in {hub.id}")
        rows += of_config
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


def _page(hub: Hub) -> str:
    return f"https://huggingface.co/datasets/{hub.id}"


def _mirrored(path: Path, name: str) -> Iterator[SourceRow]:
    if not path.is_file():
        beside = sorted(item.name for item in path.parent.glob("*")) if path.parent.is_dir() else []
        found = f"its folder has {', '.join(beside)}" if beside else "its folder does not exist"
        raise InputError(
            f"{path}: no such file in the mirror ({found}); expected MIRROR/ID/[CONFIG/]SPLIT.jsonl"
        )
    try:
        rows = read_json_lines(path)
        revision = f"sha256:{digest(path)}"
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    for row, columns in enumerate(rows):
        yield SourceRow(columns, name, revision, row, str(path))


def _downloaded(hub: Hub, config: str | None, name: str) -> Iterator[SourceRow]:
    try:
        import datasets
    except ImportError:
        raise InputError(
            f"{name}: reading the hub needs the package datasets; pip install it, or use a mirror"
        ) from None
    try:
        revision = _commit(hub)
        rows = datasets.load_dataset(hub.id, name=config, split=hub.split, revision=revision)
    except Exception as error:  # the library raises errors of many packages
        raise InputError(_explain(hub, name, error)) from error
    for row, columns in enumerate(rows):
        yield SourceRow(dict(columns), name, revision, row, f"{_page(hub)} ({name})")


def _commit(hub: Hub) -> str:
    """The commit of a revision, so that tables record more than `main`."""
    if _COMMIT.fullmatch(hub.revision):
        return hub.revision
    from huggingface_hub import HfApi

    return HfApi().dataset_info(hub.id, revision=hub.revision).sha or hub.revision


def _explain(hub: Hub, name: str, error: Exception) -> str:
    """Why the download failed, and what to do."""
    from huggingface_hub import get_token
    from huggingface_hub.errors import GatedRepoError, HfHubHTTPError, RepositoryNotFoundError

    reason = " ".join(str(error).split()) or type(error).__name__
    token = "HF_TOKEN is missing" if get_token() is None else "your token's account has no access"
    terms = f"accept its terms at {_page(hub)} and set HF_TOKEN to a token of that account"
    # The data sets library reduces the hub's errors to these two sentences.
    if isinstance(error, GatedRepoError) or "is a gated dataset" in reason:
        return f"{name}: the data set is gated; {terms} ({token}), or use a mirror"
    # The hub also denies access to data sets that do not exist.
    denied = isinstance(error, RepositoryNotFoundError) or (
        isinstance(error, HfHubHTTPError) and error.response.status_code in (401, 403)
    )
    if denied or "doesn't exist on the Hub or cannot be accessed" in reason:
        return (
            f"{name}: the hub denies that the data set exists; check {_page(hub)}; if it is gated, "
            f"{terms} ({token}); or use a mirror"
        )
    return (
        f"{name} at revision {hub.revision} could not be downloaded ({reason}); "
        f"see {_page(hub)}, or use a mirror"
    )
