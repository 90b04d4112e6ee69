"""Finds the layout of a file of responses, and the paths at which its rows have what."""

import glob
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from rspo.core.errors import InputError
from rspo.formats.layout import Layout
from rspo.formats.layouts import PLAIN, layout_of
from rspo.formats.paths import has
from rspo.formats.rows import Row, rows_of


@dataclass(frozen=True)
class Reading:
    """What a user states about files of responses; None leaves it to the layout of each file.

    format: the name of the layout, perhaps with a choice: NAME or NAME:CHOICE.
    problem, answer, response, correct: paths (`rspo.formats.paths`).
    answers: a file that has the answers, by the ids of the problems.
    """

    format: str | None = None
    problem: str | None = None
    answer: str | None = None
    response: str | None = None
    correct: str | None = None
    answers: Path | None = None


@dataclass(frozen=True)
class Source:
    """The rows of a file in one layout.

    columns: the path of each column that the rows have: problem, id, answer, response, correct and
        reward. `problem` is a path in any case; `question` is another path, of the problem's text,
        if the user groups responses by id.
    note: what was left out; empty for nothing.
    stated_verdicts: whether the user states the path of the verdicts.
    """

    path: Path
    layout: Layout
    columns: Mapping[str, str]
    rows: Iterator[Row]
    note: str = ""
    stated_verdicts: bool = False

    def has(self, column: str) -> bool:
        """Whether the rows have a column, by the first row and the options."""
        return column in self.columns

    def path_of(self, column: str) -> str:
        """The path of a column; if the rows lack it, the one that their layout has first."""
        paths = getattr(self.layout, column) or (column,)
        return self.columns.get(column, paths[0])


def how_read(sources: Sequence[Source]) -> Iterator[str]:
    """Lines that say how files are read; none for rows of the user's own as they are."""
    paths: dict[tuple[str, str], list[Path]] = defaultdict(list)
    for source in sources:
        if source.layout is not PLAIN or source.note:
            paths[source.layout.name, source.note].append(source.path)
    for (name, note), files in paths.items():
        more = f" and {len(files) - 1} more" if len(files) > 1 else ""
        details = f"; {note}" if note else ""
        yield f"{files[0]}{more}: read as {name} (--format names another layout){details}"


def unlike_files(problems_of: Mapping[str, Collection[str]]) -> Iterator[str]:
    """A warning about files of a run that are in several layouts and have no problem in common.

    Args:
        problems_of: the problems of the files in each layout, by its name.
    """
    total = sum(len(set(problems)) for problems in problems_of.values())
    if len(problems_of) > 1 and len(set(chain.from_iterable(problems_of.values()))) == total:
        yield (
            f"warning: files in several layouts ({', '.join(problems_of)}) have no problem in "
            "common, and are taken together as those of one run"
        )


def files_of(argument: Path) -> list[Path]:
    """The files that an argument names: a file, or those that match a pattern such as rs*.jsonl.

    They are sorted by name.

    Raises: InputError for a pattern without files. A missing file is left to who reads it.
    """
    if argument.exists() or not glob.has_magic(str(argument)):
        return [argument]
    files = sorted(Path(name) for name in glob.glob(str(argument)))
    if not files:
        raise InputError(f"{argument}: no such file")
    return files


def all_files(arguments: Sequence[Path]) -> list[Path]:
    """The files of all arguments, in their order.

    Raises: InputError for a file that is named twice, whose responses would count twice.
    """
    files: list[Path] = []
    for argument in arguments:
        for file in files_of(argument):
            if file.resolve() in {other.resolve() for other in files}:
                raise InputError(f"{file}: is named twice; its responses would count twice")
            files.append(file)
    return files


def without_verdicts(files: Sequence[Path]) -> tuple[list[Path], list[str]]:
    """The files of a run without those that `rspo verify` wrote beside them.

    A pattern such as output-rs*.jsonl also matches output-rs.verdicts.jsonl.

    Returns: the files, and a line about those left out, if there are any. If all files are
        verdicts, none is left out.
    """
    kept = [file for file in files if not file.name.endswith(".verdicts.jsonl")]
    left_out = [str(file) for file in files if file not in kept]
    if not kept or not left_out:
        return list(files), []
    return kept, [f"left out: {', '.join(left_out)}, which `rspo verify` wrote"]


def open_source(path: Path, reading: Reading) -> Source:
    """The rows of a file, in the layout that the user states or that its first row has.

    Raises: InputError for a missing file and an unknown format. The rows raise InputError where the
        file is unreadable.
    """
    rows = rows_of(path)
    first = next(rows, None)
    if first is None:
        return Source(path, PLAIN, {"problem": "problem"}, iter(()))
    name, _, choice = (reading.format or "").partition(":")
    layout = layout_of(first, name or None)
    if choice and not layout.has_parts:
        raise InputError(f"--format {reading.format}: {layout.name} has no part to choose")
    with _errors_of(path, layout):
        prepared_rows, note = layout.prepare(chain([first], rows), choice)
    prepared = _prepared(path, layout, prepared_rows)
    first = next(prepared, None)
    if first is None:
        return Source(path, layout, {"problem": "problem"}, iter(()), note)
    columns = _columns(layout, reading, first)
    stated_verdicts = reading.correct is not None
    return Source(path, layout, columns, chain([first], prepared), note, stated_verdicts)


def _prepared(path: Path, layout: Layout, rows: Iterable[Row]) -> Iterator[Row]:
    """The rows of a layout, which may be prepared while they are read."""
    with _errors_of(path, layout):
        yield from rows


@contextmanager
def _errors_of(path: Path, layout: Layout) -> Iterator[None]:
    """Turn an error that unexpected values cause into an InputError.

    The functions of layouts read values without checks, as their tool writes them.
    """
    try:
        yield
    except (LookupError, TypeError, AttributeError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise InputError(
            f"{path}: a row is not as {layout.name} writes it ({reason}); --format plain and the "
            "options of columns read it as rows of your own"
        ) from error


def _columns(layout: Layout, reading: Reading, first: Row) -> dict[str, str]:
    """The path of each column: what the user states, or the first path that the row has."""
    columns = {}
    for name in ("problem", "id", "answer", "response", "correct", "reward"):
        stated = getattr(reading, name, None)
        paths = getattr(layout, name)
        present = [path for path in paths if has(first.values, path)]
        if name == "correct":  # software that has not judged yet writes null
            present = [path for path in present if first.value(path) is not None]
        if stated:
            columns[name] = stated
        elif present:
            columns[name] = present[0]
    columns.setdefault("problem", layout.problem[0])
    if reading.answers and not reading.problem and "id" in columns:
        columns["problem"] = columns["id"]
    texts = [path for path in layout.problem if has(first.values, path)]
    if reading.problem in layout.id and texts:
        # The responses are grouped by id. A judge still reads the text of the problem.
        columns["question"] = texts[0]
    return columns
