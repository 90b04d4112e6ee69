"""The published pages of studies."""

import re
from pathlib import Path

import pytest

from tests.support import ROOT

PAGES = sorted((ROOT / "docs" / "studies").glob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_begins_with_a_sentence_that_can_be_quoted(page: Path) -> None:
    """Below the title and the picture: bold, with the number of training seeds."""
    title, picture, text = page.read_text().split("\n\n", 2)
    assert title.startswith("# ")
    assert picture.startswith("![")
    quoted = re.match(r"\*\*(.+?)\*\*", text)
    assert quoted, text[:100]
    assert re.search(r"(\d+|one) training seeds?", quoted[1])
