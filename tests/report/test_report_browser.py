"""The report in headless Chromium, in a desktop window and on a phone.

Without Chromium these tests are skipped, and fail in CI (.ci/run installs it).
"""

import contextlib
import re
import shutil
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from rspo.report.page import write_report
from tests.support import browser, small_paper

WIDTHS = {"desk": 1280, "phone": 390}
HEIGHT = 800  # of a common window


@pytest.fixture(scope="module")
def report(small_results: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("report") / "project"
    shutil.copytree(small_results, root)
    with contextlib.chdir(root):
        write_report(small_paper.load())
        # In an empty folder, because the page needs no other file.
        copy = tmp_path_factory.mktemp("copy") / "report.html"
        return Path(shutil.copy("reports/report.html", copy))


@pytest.fixture(scope="module")
def browser_page() -> Iterator[browser.Page]:
    with browser.open_page() as page:
        yield page


@pytest.fixture(params=WIDTHS)
def page(request: pytest.FixtureRequest, browser_page: browser.Page, report: Path) -> browser.Page:
    browser_page.complaints.clear()
    browser_page.open(report, WIDTHS[request.param])
    return browser_page


def test_the_console_is_silent_and_nothing_is_requested(page: browser.Page) -> None:
    assert page.complaints == []
    assert page.evaluate("document.scripts.length") == 0
    assert page.evaluate("document.images.length") > 5
    missing = "[...document.images].filter(i => !(i.complete && i.naturalWidth)).map(i => i.alt)"
    assert page.evaluate(missing) == []


def test_the_page_is_no_wider_than_the_window(page: browser.Page) -> None:
    for opened in (False, True):
        value = str(opened).lower()
        page.evaluate(f"document.querySelectorAll('details').forEach(d => d.open = {value})")
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        assert page.evaluate(browser.OVERFLOWING) == []
    # A phone's browser widens the window to overflowing elements and shrinks the page.
    assert page.evaluate("window.innerWidth") in WIDTHS.values()
    hidden = "[...document.querySelectorAll('details table')].filter(t => !t.offsetHeight).length"
    assert page.evaluate(hidden) == 0


def test_wide_pictures_take_the_whole_width_of_a_laptop(page: browser.Page) -> None:
    """On a phone, they scroll by themselves at a width at which their letters can be read."""
    widths = page.evaluate("[...document.querySelectorAll('.wide img')].map(i => i.clientWidth)")
    assert len(widths) > 3
    least = 1180 if page.evaluate("window.innerWidth") > 1000 else 600
    assert min(widths) >= least


def test_no_column_of_a_table_is_outside_the_window(page: browser.Page) -> None:
    """On a phone, each row is a block whose cells name their columns."""
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    cut = "[...document.querySelectorAll('.scroll')].filter(e => e.scrollWidth > e.clientWidth)"
    assert page.evaluate("document.querySelectorAll('.scroll').length") > 3
    assert page.evaluate(f"{cut}.map(e => e.ariaLabel)") == []
    named = """[...document.querySelectorAll("td:not(:first-child)")].map(cell => {
      const heads = cell.closest("table").querySelectorAll("th");
      const shown = getComputedStyle(cell, "::before").content;
      return [heads[cell.cellIndex].textContent, shown];
    })"""
    is_phone = page.evaluate("window.innerWidth") == WIDTHS["phone"]
    for head, shown in page.evaluate(named):
        assert shown == (f'"{head}: "' if is_phone else "none")


def test_nothing_of_a_wide_picture_is_missed_on_a_phone(page: browser.Page) -> None:
    """The weights are below each other in two halves; a line says that other pictures scroll."""
    is_phone = page.evaluate("window.innerWidth") == WIDTHS["phone"]
    shown = "[...document.querySelectorAll(%r)].map(e => e.getBoundingClientRect().height > 0)"
    assert page.evaluate(shown % ".group > .half") == 2 * [is_phone]
    assert page.evaluate(shown % ".group > img") == [not is_phone]
    hints = page.evaluate(shown % ".figures .wide .swipe")
    assert len(hints) > 3
    assert set(hints) == {is_phone}
    assert page.evaluate("document.querySelectorAll('figure:not(.wide) .swipe').length") == 0


def test_verdicts_differ_in_colour_and_in_grey(page: browser.Page) -> None:
    classes = ["supported", "supported one-seed", "not-resolved"]
    looks = page.evaluate(
        f"""{classes}.map(name => {{
          const span = document.createElement("span");
          span.className = "verdict " + name;
          document.body.append(span);
          const style = getComputedStyle(span);
          const look = [style.backgroundColor, style.outlineStyle];
          span.remove();
          return look;
        }})"""
    )
    greys = []
    for colour, _ in looks:
        red, green, blue = map(int, re.findall(r"\d+", colour)[:3])
        greys.append(0.299 * red + 0.587 * green + 0.114 * blue)
    plain, one_seed, not_resolved = greys
    assert one_seed - not_resolved > 40
    assert plain - not_resolved > 20
    assert [outline for _, outline in looks] == ["none", "dashed", "none"]


def test_a_verdict_covers_no_other_text(page: browser.Page) -> None:
    covering = """[...document.querySelectorAll(".verdict")].filter(verdict => {
      const one = verdict.getBoundingClientRect();
      const next = verdict.nextElementSibling.getBoundingClientRect();
      return one.right > next.left && one.bottom > next.top;
    }).map(verdict => verdict.textContent)"""
    assert page.evaluate("document.querySelectorAll('.verdict').length") > 5
    assert page.evaluate(covering) == []


def test_text_is_dark_on_light_and_not_small(page: browser.Page) -> None:
    assert page.evaluate(browser.FAINT_TEXT) == []
    size = "parseFloat(getComputedStyle(element).fontSize)"
    sizes = page.evaluate(f"[...document.querySelectorAll('body *')].map(element => {size})")
    assert min(sizes) >= 12


def test_a_screen_reader_can_read_the_page(page: browser.Page) -> None:
    assert page.evaluate("document.documentElement.lang") == "en"
    assert page.evaluate("document.title")
    assert page.evaluate("[...document.images].filter(i => !i.alt.trim()).length") == 0
    bare = "[...document.querySelectorAll('table')].filter(t => !t.caption?.textContent.trim())"
    assert page.evaluate(f"{bare}.length") == 0
    assert page.evaluate("document.querySelectorAll('th:not([scope])').length") == 0
    levels = page.evaluate("[...document.querySelectorAll('h1,h2,h3,h4')].map(h => +h.tagName[1])")
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    names = page.evaluate("[...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(names) == len(set(names))
    links = page.evaluate("[...document.links].map(a => a.getAttribute('href'))")
    assert all(link.startswith("#") and link[1:] in names for link in links)
    # Scrolling boxes can be reached with the keyboard.
    boxes = (
        "[...document.querySelectorAll('.scroll')].filter(e => e.tabIndex !== 0 || !e.ariaLabel)"
    )
    assert page.evaluate(f"{boxes}.length") == 0


# Whether an element is visible and entirely within the first screen.
WITHIN = """
(() => {
  const box = document.querySelector(%r).getBoundingClientRect();
  return box.height > 0 && box.top >= 0 && box.left >= 0
    && box.bottom <= window.innerHeight && box.right <= window.innerWidth;
})()
"""


def test_the_first_screen_has_the_result_the_method_and_the_figure(
    browser_page: browser.Page, report: Path
) -> None:
    """Scrolling is not needed for any."""
    browser_page.open(report, WIDTHS["desk"], HEIGHT)
    for element in (".headline", "#method p", "#figure img"):
        assert browser_page.evaluate(WITHIN % element), element
    width = "document.querySelector('#figure img').getBoundingClientRect().width"
    assert browser_page.evaluate(width) > 700
