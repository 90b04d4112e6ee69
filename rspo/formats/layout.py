"""What a layout of rows is: how it is recognised, and where its rows have what."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from rspo.formats.paths import has
from rspo.formats.rows import Row

Paths = tuple[str, ...]
# (rows of a file, what the user chose after the colon of --format) -> the rows in this layout, and
# a note for the user, which is empty if nothing was left out.
Prepare = Callable[[Iterable[Row], str], tuple[Iterable[Row], str]]


def as_they_are(rows: Iterable[Row], choice: str) -> tuple[Iterable[Row], str]:
    """The rows of a layout that needs no preparation."""
    return rows, ""


@dataclass(frozen=True)
class Layout:
    """A layout of rows that a tool writes.

    A row may have one response, or several as lists. Each column is named by paths
    (`rspo.formats.paths`), of which the first that a file has is taken; a layout without a column
    has no paths for it.

    name: what `--format` takes.
    title: the tool and its file, for readers.
    keys: sets of paths. A file is in this layout if its first row has all paths of one set.
    problem: the text of the problem, by which responses are grouped.
    id: the id of the problem.
    answer: the answer or its accepted forms.
    response: the response, or a list of several.
    correct, reward: the verdict on each response, and its reward.
    prepare: turns the rows of a file into rows that have these paths.
    has_parts: whether `prepare` reads one part of a file, which the user may choose.
    """

    name: str
    title: str
    keys: tuple[Paths, ...]
    problem: Paths
    id: Paths = ()
    answer: Paths = ()
    response: Paths = ()
    correct: Paths = ()
    reward: Paths = ()
    prepare: Prepare = as_they_are
    has_parts: bool = False

    def fits(self, values: Mapping[str, Any]) -> bool:
        """Whether a row with these values is in this layout."""
        return any(all(has(values, path) for path in paths) for paths in self.keys)


def flat(value: Any) -> list[Any]:
    """The items of a list and of the lists in it; any other value is the only item."""
    if not isinstance(value, list):
        return [value]
    items = []
    for item in value:
        items.extend(flat(item))
    return items
