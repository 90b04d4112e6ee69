"""docs/explorer.html in headless Chromium: its weights and curves against the package's own."""

import itertools
import math
import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rspo.objectives import OBJECTIVES, response_weights
from tests.support import ROOT, browser

PAPER = (
    *("policy_gradient", "hitchhiking", "grpo", "rspo_pass_at_k", "rspo_pass_at_k_plug_in"),
    *("rspo_max_at_k", "rspo_max_at_k_ranked", "rspo_max_at_k_plug_in"),
)
ALL_GROUPS = "&show=paper,subsets,tails,advantages,utilities"
WIDTHS = (1280, 390)
TOLERANCE = 1e-12

ROWS = """
[...document.querySelectorAll("#rows .row")].map(row => ({
  names: row.dataset.objectives.split(" "),
  weights: row.dataset.weights ? JSON.parse(row.dataset.weights) : null,
  words: row.querySelector("p").textContent,
}))
"""
CURVES = """
[...document.querySelectorAll("#chart path")].map(path => ({
  names: path.dataset.objectives.split(" "),
  slopes: JSON.parse(path.dataset.slopes),
}))
"""


CONTROLS = "button:not([hidden]), #responses input, #choice label"
SIDE = "control => (({width, height}) => Math.min(width, height))(control.getBoundingClientRect())"

Group = tuple[int, Sequence[float]]  # k, rewards

GROUPS: tuple[Group, ...] = (
    (4, (0, 1, 0, 1, 0, 0, 0, 0)),
    (1, (0, 1, 1)),
    (3, (0, 1, 1, 0, 1, 0, 0, 0, 0, 1, 0, 1)),
    (5, (0, 0, 1, 0)),
    (7, (0,) * 9),
    (8, (0, 0, 1) * 8 + (0,) * 8),
    (32, (0, 1) + (0,) * 30),
    (4, (0.9, 0.1, 0, 0.3, 0.2, 0.7, 0.6, 0.4)),
    (3, (0.5, 0.5, 0, 0.35, 0.5, 0.35)),
    (6, (0.15, 0.4, 0.4, 1, 0.75, 0.05, 1)),
    (16, tuple(i % 21 / 20 for i in range(32))),
    (3, (1, 1, 1, 1)),
    (3, (0.5, 0.5, 0.5, 0.5)),
    (1, (0.2, 0.7)),
)


def fragment(group: Group) -> str:
    k, rewards = group
    graded = any(reward not in (0, 1) for reward in rewards)
    text = ("," if graded else "").join(f"{reward:g}" for reward in rewards)
    return f"#n={len(rewards)}&k={k}&r={text}"


@pytest.fixture(scope="module")
def own_browser() -> Iterator[browser.Page]:
    with browser.open_page() as page:
        yield page


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The page in an empty folder, because it needs no other file."""
    return Path(shutil.copy(ROOT / "docs" / "explorer.html", tmp_path))


@pytest.fixture
def page(own_browser: browser.Page, path: Path) -> browser.Page:
    own_browser.complaints.clear()
    own_browser.open(path, WIDTHS[0])
    return own_browser


def show(page: browser.Page, text: str) -> None:
    """Go to a fragment, as with a link or in the address bar."""
    page.evaluate(
        f"location.hash === {text!r} || new Promise(done => {{"
        f"addEventListener('hashchange', done, {{once: true}}); location.hash = {text!r}; }})"
    )


def by_name(page: browser.Page, expression: str) -> dict[str, dict[str, Any]]:
    return {name: entry for entry in page.evaluate(expression) for name in entry["names"]}


@pytest.mark.parametrize("group", GROUPS, ids=fragment)
def test_the_weights_of_a_group_are_those_of_the_package(page: browser.Page, group: Group) -> None:
    k, rewards = group
    show(page, fragment(group) + ALL_GROUPS)
    rows = by_name(page, ROWS)
    binary = all(reward in (0, 1) for reward in rewards)
    for name in OBJECTIVES:
        if OBJECTIVES[name].allows(k, len(rewards)) and (binary or not OBJECTIVES[name].binary):
            weights = response_weights(list(rewards), name, k)
            assert rows[name]["weights"] == pytest.approx(list(weights), rel=0, abs=TOLERANCE)
        else:
            # RSPO for Max@k is in the row of RSPO for Pass@k.
            assert name == "rspo_pass_at_k" or rows[name]["weights"] is None
            assert name == "rspo_pass_at_k" or rows[name]["words"].startswith("needs ")
    assert page.complaints == []


@pytest.mark.parametrize(("k", "n"), [(4, 8), (1, 3), (5, 5), (6, 4), (3, 10)])
def test_a_curve_is_the_mean_update_over_all_groups(page: browser.Page, k: int, n: int) -> None:
    """For p to rise, d log pi is 1/p for a right response and -1/(1-p) for a wrong one."""
    rewards = np.array(list(itertools.product((0.0, 1.0), repeat=n)))
    show(page, f"#n={n}&k={k}&r={'0' * n}{ALL_GROUPS}")
    curves = by_name(page, CURVES)
    assert set(curves) == {name for name in OBJECTIVES if OBJECTIVES[name].allows(k, n)}
    for name, curve in curves.items():
        weights = response_weights(rewards, name, k)
        for hundredths in (3, 20, 50, 77, 96):
            p = hundredths / 100
            chances = np.prod(np.where(rewards == 1, p, 1 - p), axis=1)
            updates = (weights * np.where(rewards == 1, 1 / p, -1 / (1 - p))).sum(axis=1)
            expected = math.fsum(chances * updates)
            assert curve["slopes"][hundredths] == pytest.approx(expected, rel=0, abs=TOLERANCE)


def test_clicking_toggles_a_response_and_updates_the_address(page: browser.Page) -> None:
    show(page, "#n=4&k=2&r=0100")
    page.evaluate("document.querySelectorAll('#responses button')[3].click()")
    assert page.evaluate("location.hash") == "#n=4&k=2&r=0101"
    expected = response_weights([0, 1, 0, 1], "rspo_pass_at_k", 2)
    rows = by_name(page, ROWS)
    assert rows["rspo_pass_at_k"]["weights"] == pytest.approx(list(expected), abs=TOLERANCE)
    page.evaluate("document.querySelectorAll('#responses button')[1].click()")
    assert page.evaluate("location.hash") == "#n=4&k=2&r=0001"


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("#n=4&k=4&r=110", "#n=4&k=4&r=1100"),
        ("#r=11", "#n=2&k=4&r=11"),
        ("#n=99&k=0&r=1", "#n=32&k=1&r=1" + "0" * 31),
        ("#n=x&k=-2&r=1a1", "#n=3&k=4&r=101"),
        ("#n=2&k=2&r=7,-1", "#n=2&k=2&r=1,0"),
        ("#n=2&k=2&r=10&show=tails,none,paper", "#n=2&k=2&r=10&show=paper,tails"),
        ("#step=1&show=utilities", "#n=8&k=4&r=01010000&step=1&show=utilities"),
    ],
)
def test_a_shared_address_opens_its_group(
    own_browser: browser.Page, path: Path, given: str, shown: str
) -> None:
    own_browser.open(path, WIDTHS[0], fragment=given)
    assert own_browser.evaluate("formatFragment(state)") == shown


def test_the_numbers_in_the_example_are_the_weights_of_the_package(page: browser.Page) -> None:
    steps = [step for step in page.evaluate("STEPS") if step.get("shows") in PAPER]
    binary = [step for step in steps if "," not in step["rewards"]]
    assert len(binary) == 7
    for step in binary:
        rewards = [int(reward) for reward in step["rewards"]]
        largest = max(response_weights(rewards, step["shows"], step["k"]))
        assert f"{round(largest, 3):g}" in re.findall(r"\d+\.\d+|\d+", step["text"])


def test_the_line_of_an_objective_stands_out_by_pointer_and_by_keyboard(page: browser.Page) -> None:
    show(page, f"#n=8&k=4&r=01010000{ALL_GROUPS}")
    faded = "[...document.querySelectorAll('#chart path:not([data-faded])')].map({})"
    shown = faded.format("path => path.dataset.objectives")
    every = page.evaluate(shown)
    assert len(every) == len(set(every)) == page.evaluate("OBJECTIVES.length")
    maxpo = "document.querySelector('#{} [data-objectives=maxpo]')"
    for place, begin, end in (
        ("legend", "focus", "blur"),
        ("legend", "pointerenter", "pointerleave"),
        ("chart", "pointerenter", "pointerleave"),
    ):
        page.evaluate(f"{maxpo.format(place)}.dispatchEvent(new Event('{begin}'))")
        assert page.evaluate(shown) == ["maxpo"]
        page.evaluate(f"{maxpo.format(place)}.dispatchEvent(new Event('{end}'))")
        assert page.evaluate(shown) == every


def test_no_name_is_broken_on_a_phone(own_browser: browser.Page, path: Path) -> None:
    own_browser.open(path, 390, fragment=f"#n=8&k=4&r=01010000{ALL_GROUPS}")
    # The lines of a word: of a range that has it alone.
    broken = """
    [...document.querySelectorAll("#legend td, h1, h2, h3, header p, label")].flatMap(element => {
      const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT), words = [];
      while (walker.nextNode())
        for (const found of walker.currentNode.data.matchAll(/\\S+/g)) {
          const range = document.createRange();
          range.setStart(walker.currentNode, found.index);
          range.setEnd(walker.currentNode, found.index + found[0].length);
          const tops = new Set([...range.getClientRects()].map(box => Math.round(box.top)));
          if (tops.size > 1) words.push(found[0]);
        }
      return words;
    })
    """
    assert own_browser.evaluate(broken) == []


def test_its_links_exist() -> None:
    text = (ROOT / "docs" / "explorer.html").read_text()
    links = [link for link in re.findall(r'<a href="([^"]+)"', text) if "//" not in link]
    assert "../README.md" in links
    assert [link for link in links if not (ROOT / "docs" / link).is_file()] == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_the_page_fits_the_window_and_is_legible(
    own_browser: browser.Page, path: Path, width: int, scheme: str
) -> None:
    page = own_browser
    page.complaints.clear()
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    page.ask("Emulation.setEmulatedMedia", features=features)
    page.open(path, width)
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    for address in (
        *("#step=3", "#n=32&k=4&r=1", f"#n=32&k=3&r={'0.05,' * 32}", "#n=2&k=32&r=10"),
        *(f"#n=32&k=4&r=1{ALL_GROUPS}", f"#n=8&k=3&r={'0.05,' * 8}{ALL_GROUPS}"),
    ):
        show(page, address)
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        assert page.evaluate("window.innerWidth") == width
        assert page.evaluate(browser.OVERFLOWING) == []
        assert page.evaluate(browser.FAINT_TEXT) == []
        # The smallest target of WCAG 2.2 for fingers and mice.
        assert min(page.evaluate(f"[...document.querySelectorAll({CONTROLS!r})].map({SIDE})")) >= 24
    size = "parseFloat(getComputedStyle(element).fontSize)"
    sizes = page.evaluate(f"[...document.querySelectorAll('body *')].map(element => {size})")
    assert min(sizes) >= 12
    assert page.complaints == []
    page.ask("Emulation.setEmulatedMedia", features=[])
