"""Objectives of installed packages: their entry points in the group `rspo.objectives`.

    [project.entry-points."rspo.objectives"]
    top_two_mean = "my_package:TOP_TWO_MEAN"

An entry point has the name of its `Objective`, so a package is imported only when one of its own
objectives is used.
"""

from collections import UserDict
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from rspo.objectives.objective import Objective, require_new_name

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "rspo.objectives"


class Objectives(UserDict[str, Objective]):
    """Objectives by name: first those in `data`, then those of installed packages.

    Entry points are read when a name is not in `data`, and to list the names.

    Raises: ValueError that names the package and the entry point, for one that cannot be imported,
        is no `Objective` of its name, or has the name of another objective.
    """

    def __contains__(self, name: object) -> bool:
        return name in self.data or name in self.installed

    def __iter__(self) -> Iterator[str]:
        yield from self.data
        yield from self.installed

    def __len__(self) -> int:
        return len(self.data) + len(self.installed)

    def __missing__(self, name: str) -> Objective:
        return _load(self.installed[name])

    @cached_property
    def installed(self) -> "dict[str, EntryPoint]":
        """The entry points of this environment, by the name of their objective."""
        from importlib.metadata import entry_points  # slow: 50 ms

        found: dict[str, EntryPoint] = {}
        for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
            try:
                require_new_name(entry.name, (*self.data, *found))
            except ValueError as error:
                raise ValueError(f"{_origin(entry)}: {error}") from None
            found[entry.name] = entry
        return found


def _load(entry: "EntryPoint") -> Objective:
    try:
        objective = entry.load()
    except (Exception, SystemExit) as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise ValueError(f"{_origin(entry)}: {reason}") from error
    if not isinstance(objective, Objective):
        kind = type(objective).__name__
        raise ValueError(f"{_origin(entry)}: must be an Objective, got a {kind}")
    if objective.name != entry.name:
        raise ValueError(f"{_origin(entry)}: is named {objective.name!r}; use one name for both")
    return objective


def _origin(entry: "EntryPoint") -> str:
    assert entry.dist is not None  # of those that `entry_points` finds
    package = f"{entry.dist.metadata['Name']} {entry.dist.version}"
    return f"entry point {entry.name} = {entry.value} in {GROUP} of the package {package}"
