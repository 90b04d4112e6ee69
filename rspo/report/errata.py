"""The paper's errata, as `rspo/objectives/errata.md` lists them."""

import re
from dataclasses import dataclass
from pathlib import Path

import rspo.objectives

ERRATA = Path(rspo.objectives.__file__).with_name("errata.md")

_ITEM = re.compile(r"^\d+\. \*\*(.+?)\*\* (.+?) Shown by (.+)\.$")


@dataclass(frozen=True)
class Erratum:
    """title: what of the paper; text: what is wrong with it; tests: names that show it."""

    title: str
    text: str
    tests: list[str]


def errata() -> list[Erratum]:
    """All of them, in the file's order.

    Raises: ValueError for an item that has not the form of the others.
    """
    items = re.split(r"^(?=\d+\. )", ERRATA.read_text(), flags=re.MULTILINE)[1:]
    found = []
    for item in items:
        match = _ITEM.match(" ".join(item.split()))
        if match is None:
            raise ValueError(f"{ERRATA}: expected `1. **title** text Shown by tests.`: {item!r}")
        title, text, tests = match.groups()
        found.append(Erratum(title.rstrip("."), text, re.findall(r"`(\w+)`", tests)))
    return found
