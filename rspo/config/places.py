"""Where each value of a config comes from, for messages about it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

# Places, each with the keys that it gives, nested as in the config. Later places take precedence.
Sources = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Places:
    """The files of a config, and what overrides them.

    files: the keys of each file, by path; the included file comes first.
    overrides: the keys that the command line gives, by option, such as `--set`.
    """

    files: Sources = field(default_factory=dict)
    overrides: Sources = field(default_factory=dict)

    def of(self, location: Sequence[Any]) -> str:
        """The option or the file that decides a key; empty without any file.

        Args:
            location: the key and those around it, such as `("studies", "rates")`. If no place has
                the key, the file counts that has most of those around it.
        """
        option = self.option_of(location)
        return option if option is not None else self._file_of(location)

    def option_of(self, location: Sequence[Any]) -> str | None:
        """The option that gives a key, or one of those around it; None if none does."""
        return _last(self.overrides, location)

    def has(self, location: Sequence[Any]) -> bool:
        """Whether a place gives a key, or one of those around it."""
        in_file = _last(self.files, location)
        return in_file is not None or self.option_of(location) is not None

    def _file_of(self, location: Sequence[Any]) -> str:
        for end in range(len(location), 0, -1):
            found = _last(self.files, location[:end])
            if found is not None:
                return found
        return list(self.files)[-1] if self.files else ""


def _last(sources: Sources, location: Sequence[Any]) -> str | None:
    """The last place that gives the value at a location, or one around it; None if none does."""
    for place in reversed(list(sources)):
        if _gives(sources[place], location):
            return place
    return None


def _gives(values: Mapping[str, Any], location: Sequence[Any]) -> bool:
    """Whether nested values have a value at a location of the config, or one around it."""
    value: Any = values
    for key in location:
        if not isinstance(value, Mapping):  # such as a list of cells
            return True
        if key not in value:
            return False
        value = value[key]
    return bool(location)
