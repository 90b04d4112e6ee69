"""The section Errata: the paper's errata, from `rspo/objectives/errata.md`."""

import re
from dataclasses import dataclass
from pathlib import Path

import rspo.objectives

ERRATA = Path(rspo.objectives.__file__).with_name("errata.md")

_ITEM = re.compile(r"^\d+\. \*\*(.+?)\*\* (.+?) Shown by (.+)\.$")


@dataclass(frozen=True)
class Erratum:
    """title: the part of the paper; text: the error; tests: names of the tests that show it."""

    title: str
    text: str
    tests: list[str]


def errata() -> list[Erratum]:
    """Every erratum, in file order.

    Raises: ValueError for an item in another format.
    """
    items = re.split(r"^(?=\d+\. )", ERRATA.read_text(), flags=re.MULTILINE)[1:]
    listed = []
    for item in items:
        match = _ITEM.match(" ".join(item.split()))
        if match is None:
            raise ValueError(f"{ERRATA}: expected `1. **title** text Shown by tests.`: {item!r}")
        title, text, tests = match.groups()
        listed.append(Erratum(title.rstrip("."), text, re.findall(r"`(\w+)`", tests)))
    return listed
