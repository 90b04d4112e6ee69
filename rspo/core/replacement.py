"""Which existing results a command may replace: none that was made with other settings."""

import json
from collections.abc import Collection, Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Any

from rspo.core.errors import InputError
from rspo.core.provenance import provenance_path, read_provenance

OF_A_NAMED_FILE = "name another file, or replace it with --force"
_SHOWN = 3  # differences in a message
_LONGEST = 40  # characters of a value in a message


class Replace(Enum):
    """What happens to an existing result that was made with other settings.

    OUTDATED: it stays, and the command ends with an error; results whose inputs changed are
        replaced.
    ANY: it is replaced; a training resumes from the checkpoint of its settings.
    FROM_THE_START: it is replaced; a training does not resume from a checkpoint.
    """

    OUTDATED = "outdated"
    ANY = "any"
    FROM_THE_START = "from the start"


def require_same_settings(
    path: Path, settings: Mapping[str, Any], ways_out: str, ignored: Collection[str] = ()
) -> None:
    """Raise unless an existing result was made with these settings, according to its provenance.

    A result without provenance was not finished and may be replaced.

    Args:
        ways_out: what the user can do, for the message.
        ignored: keys of the settings that may differ.

    Raises: InputError that names the file and the first settings that differ.
    """
    made_with = read_provenance(path).get("settings")
    if made_with is not None and path.exists():
        require_equal(f"{path} was made", made_with, settings, ways_out, ignored)


def require_own_output(path: Path, settings: Mapping[str, Any]) -> None:
    """Raise unless a file that the user names is new, or was made with these settings.

    Raises: InputError that says whether it is another program's file or which settings differ.
    """
    if path.exists() and not provenance_path(path).exists():
        raise InputError(f"{path} exists and is no result of this command: {OF_A_NAMED_FILE}")
    require_same_settings(path, settings, OF_A_NAMED_FILE)


def require_equal(
    what: str, old: Any, new: Mapping[str, Any], ways_out: str, ignored: Collection[str] = ()
) -> None:
    """Raise if two settings differ.

    Args:
        what: subject and verb of the message, such as "FILE was made".

    Raises: InputError that names the first settings that differ.
    """
    if lines := list(differences(old, new, ignored)):
        shown, more = ", ".join(lines[:_SHOWN]), len(lines) - _SHOWN
        rest = f" and {more} more" if more > 0 else ""
        raise InputError(f"{what} with other settings ({shown}{rest}): {ways_out}")


def differences(old: Any, new: Mapping[str, Any], ignored: Collection[str] = ()) -> Iterator[str]:
    """`KEY: OLD -> NEW` for each setting that differs, with nested keys as `training.steps`."""
    before, after = (
        {key: text for key, text in _leaves(settings) if key.partition(".")[0] not in ignored}
        for settings in (old, new)
    )
    for key in {**after, **before}:
        if before.get(key) != after.get(key):
            old_value, new_value = (_short(values.get(key, "none")) for values in (before, after))
            yield f"{key.removeprefix('settings.')}: {old_value} -> {new_value}"


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _leaves(settings: Any, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Every value that is no mapping, as JSON, with its nested key."""
    if not isinstance(settings, Mapping):
        yield prefix.removesuffix("."), json.dumps(settings, default=str)
        return
    for key, value in settings.items():
        yield from _leaves(value, f"{prefix}{key}.")
