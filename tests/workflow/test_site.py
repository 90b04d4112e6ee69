"""The documentation site (`make docs`) and CITATION.cff."""

import re
import subprocess
from collections import defaultdict
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from packaging.requirements import Requirement

from tests.support import ROOT
from tests.support.browser import open_page

# The first symbols of each formula in the description of an objective, if it has a size.
TYPESET = """
[...document.querySelectorAll(".doc-contents > .formula > div > math:first-child")]
  .filter(formula => formula.getBoundingClientRect().height > 20)
  .map(formula => [...formula.querySelector("msub").querySelectorAll("mi, mo")])
  .map(symbols => symbols.map(symbol => symbol.textContent))
"""


class Html(HTMLParser):
    """A page: its links, what it loads, and the ids to link to."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.ids: set[str] = set()
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attributes}
        self.ids.update(values[name] for name in ("id", "name") if name in values)
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        elif "href" in values:  # <link>
            self.loaded.append(values["href"])
        self.loaded += [values["src"]] if "src" in values else []


def make_docs(checkout: Path, site: Path) -> subprocess.CompletedProcess[str]:
    command = ["make", "docs", f"ARGS=--site-dir {site}"]
    return subprocess.run(command, cwd=checkout, capture_output=True, text=True)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = make_docs(ROOT, folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Html]:
    return {path: Html(path) for path in site.rglob("*.html")}


@pytest.mark.ci
@pytest.mark.promise("make docs")
def test_every_internal_link_and_file_of_the_site_exists(
    site: Path, pages: dict[Path, Html]
) -> None:
    broken = defaultdict(list)
    followed = 0
    for path, page in pages.items():
        for link in page.links + page.loaded:
            url = urlsplit(link)
            if url.scheme or url.netloc:
                continue
            followed += 1
            base = site if url.path.startswith("/") else path.parent  # 404.html has absolute links
            target = (base / unquote(url.path).lstrip("/")).resolve() if url.path else path
            target = target / "index.html" if target.is_dir() else target
            ids = pages[target].ids if target in pages else {""}
            if not target.is_file() or unquote(url.fragment) not in ids | {"", "__skip"}:
                broken[str(path.relative_to(site))].append(link)
    assert followed > 1000
    assert not broken


@pytest.mark.ci
def test_no_page_loads_anything_from_another_server(site: Path, pages: dict[Path, Html]) -> None:
    loaded = [link for page in pages.values() for link in page.loaded]
    assert loaded
    assert [link for link in loaded if urlsplit(link).netloc] == []
    sheets = "".join(path.read_text() for path in site.rglob("*.css"))
    assert re.findall(r"(?:url\(|@import)\s*['\"]?(?:https?:)?//[^)]*", sheets) == []
    with open_page() as browser:
        for name in (
            *("index.html", "docs/api.html", "docs/results.html"),
            "docs/objectives/maxpo.html",
            "docs/objectives/rspo_max_at_k.html",
        ):
            browser.open(site / name, width=390)
            assert browser.evaluate("document.documentElement.scrollWidth") == 390
        assert browser.evaluate(TYPESET) == [["w", "i"], ["w", "(", "i", ")"]]
        assert browser.complaints == []


def test_the_locked_packages_of_the_site_satisfy_those_that_are_declared() -> None:
    lines = (ROOT / "envs/docs.in").read_text().splitlines()
    declared = [Requirement(text) for line in lines if (text := line.partition("#")[0].strip())]
    locked = dict(re.findall(r"^([\w.-]+)==([\w.]+)", (ROOT / "envs/docs.txt").read_text(), re.M))
    assert declared
    assert [pin for pin in declared if not pin.specifier.contains(locked[pin.name])] == []
