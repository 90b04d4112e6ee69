"""The tables of docs/verification.md, and the same figures as rows of a benchmark."""

from collections.abc import Sequence
from pathlib import Path

from benchmarks import Row
from benchmarks.verifier.accuracy import (
    HOSTILE,
    NEAR_MISSES,
    REPORTED_EVERYWHERE,
    ROOT,
    SETS,
    SHARED,
    SHIPPED,
    VERIFIERS,
    Figures,
    by_kind,
    by_set,
    labelled,
    of_judge,
    verdicts,
)
from rspo.core.errors import InputError
from rspo.rewards.extraction import last_box

PAGE = ROOT / "docs" / "verification.md"
NAMES = list(SETS)
NAMES.append(REPORTED_EVERYWHERE)
NAMES.append(NEAR_MISSES)
NAMES.append(HOSTILE)
IN_REPOSITORY = [name for name in SETS if (SHIPPED / f"{name}.jsonl").exists()]


def table_of_sets(verifiers: Sequence[str] = VERIFIERS) -> list[str]:
    """Agreement with the labels and errors on each set, and the rows that reach a limit."""
    lines = _head("answers (rows)", verifiers)
    for name in NAMES:
        answered = labelled(name)
        if answered is None:
            continue
        cells = [_with_limit(by_set(name, verifier)) for verifier in verifiers]
        lines.append(_line(f"{SETS.get(name, name)} ({len(answered.answers)})", cells))
    return lines


def table_of_kinds(verifiers: Sequence[str] = VERIFIERS) -> list[str]:
    """The same by kind of answer, over the sets in the repository."""
    columns = [by_kind(IN_REPOSITORY, verifier) for verifier in verifiers]
    lines = _head("kind of answer (rows)", verifiers)
    for kind, first in columns[0].items():
        cells = [str(column[kind]) for column in columns]
        lines.append(_line(f"{kind} ({first.rows})", cells))
    return lines


def table_of_wins() -> list[str]:
    """The rows of all sets that `math_verify` accepts rightly and `rules` refuses."""
    pairs = []
    for name in SETS:
        answered = labelled(name)
        if answered is None:
            continue
        own, _ = verdicts(name, "rules")
        theirs, _ = verdicts(name, "math_verify")
        for place, correct in enumerate(answered.correct):
            if correct and theirs[place].correct and not own[place].correct:
                prediction = last_box(answered.responses[place]) or answered.responses[place]
                pairs.append((_code(answered.answers[place]), _code(prediction)))
    lines = ["| answer | response |", "|---|---|"]
    for answer, prediction in dict.fromkeys(pairs):
        lines.append(_line(answer, [prediction]))
    return lines


def _code(text: str) -> str:
    """A text as code in a cell of a table, on one line and shortened."""
    line = " ".join(text.split()).replace("|", "\\|").replace("`", "'")
    return f"`{line[:60]}`" + ("..." if len(line) > 60 else "")


def rows() -> list[Row]:
    """Both tables as rows of a benchmark, with the speed on this machine, and xVerify."""
    result = []
    for name in NAMES:
        what = SETS.get(name, name)
        answered = labelled(name)
        if answered is None:
            result.append(Row(what, f"not measured: {name}.jsonl is missing"))
            continue
        for verifier in VERIFIERS:
            figures = by_set(name, verifier)
            per_second = figures.rows / figures.seconds
            speed = f"{per_second:,.0f} rows/s here, {figures.at_limit} at the limit"
            text = f"{_words(figures)}, {speed}"
            result.append(Row(f"{what}, {len(answered.answers)} rows: `{verifier}`", text))
        judged = of_judge(name)
        text = judged if isinstance(judged, str) else _words(judged)
        result.append(Row(f"{what}: `xverify`", text))
    for verifier in VERIFIERS:
        for kind, figures in by_kind(IN_REPOSITORY, verifier).items():
            result.append(Row(f"{kind}, {figures.rows} rows: `{verifier}`", _words(figures)))
    return result


def write(page: Path = PAGE) -> None:
    """Replace the tables of the page, between its markers.

    Raises: InputError if a set of labelled answers is missing, before anything is measured.
    """
    missing = [f"{name}.jsonl" for name in SETS if labelled(name) is None]
    if missing:
        raise InputError(
            f"{page.name} stays as it is, because its tables need labelled answers that are not in "
            f"{SHARED}: {', '.join(missing)}"
        )
    tables = {"sets": table_of_sets(), "kinds": table_of_kinds(), "wins": table_of_wins()}
    text = page.read_text(encoding="utf-8")
    for name, lines in tables.items():
        before, start, rest = text.partition(f"<!-- {name} -->\n")
        _, end, after = rest.partition("<!-- end -->\n")
        text = before + start + "\n".join(lines) + "\n" + end + after
    page.write_text(text, encoding="utf-8")


def _words(figures: Figures) -> str:
    return (
        f"{figures.accuracy:.1f} %, false accepts {figures.false_accepts}, "
        f"false refusals {figures.false_refusals}"
    )


def _with_limit(figures: Figures) -> str:
    if figures.at_limit:
        return f"{figures}; {figures.at_limit} at the limit"
    return str(figures)


def _head(first: str, verifiers: Sequence[str]) -> list[str]:
    titles = [f"`{verifier}`" for verifier in verifiers]
    return [_line(first, titles), "|---" * (len(verifiers) + 1) + "|"]


def _line(first: str, cells: Sequence[str]) -> str:
    text = f"| {first} "
    for cell in cells:
        text += f"| {cell} "
    return text + "|"
