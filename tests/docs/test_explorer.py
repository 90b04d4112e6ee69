"""docs/explorer.html in headless Chromium: its weights and curves against the package's own."""

import itertools
import math
import re
import shutil
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rspo.figures import style
from rspo.figures.methods import formula_lines
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
  numbers: [...row.querySelectorAll(".value")].map(value => value.textContent),
  bars: [...row.querySelectorAll(".cell")].map(cell => {
    const bar = cell.querySelector(".bar")?.getBoundingClientRect();
    const zero = cell.getBoundingClientRect().bottom
      - parseFloat(getComputedStyle(cell.parentElement).getPropertyValue("--below"));
    return bar ? [zero - bar.top, zero - bar.bottom] : [0, 0];
  }),
}))
"""
CURVES = """
[...document.querySelectorAll("#chart path")].map(path => ({
  names: path.dataset.objectives.split(" "),
  slopes: JSON.parse(path.dataset.slopes),
}))
"""
POINTS = """
[...document.querySelectorAll("#chart circle")].map(point => ({
  names: point.dataset.objectives.split(" "),
  slope: Number(point.dataset.slope),
  x: Number(point.getAttribute("cx")),
}))
"""

CONTROLS = "button:not([hidden]), #responses input, #choice label"
SIDE = "control => (({width, height}) => Math.min(width, height))(control.getBoundingClientRect())"

Group = tuple[int, Sequence[float]]  # k, rewards

GROUPS: tuple[Group, ...] = (
    (4, (0, 1, 0, 1, 0, 0, 0, 0)),
    (4, (1, 1, 0, 1, 1, 1, 1, 0)),
    (1, (0, 1, 1)),
    (3, (0, 1, 1, 0, 1, 0, 0, 0, 0, 1, 0, 1)),
    (5, (0, 0, 1, 0)),
    (2, (1, 1)),
    (7, (0,) * 9),
    (8, (0, 0, 1) * 8 + (0,) * 8),
    (32, (0, 1) + (0,) * 30),
    (4, (0.9, 0.1, 0, 0.3, 0.2, 0.7, 0.6, 0.4)),
    (3, (0.5, 0.5, 0, 0.35, 0.5, 0.35)),
    (1, (0.05, 0.2, 0.2)),
    (6, (0.15, 0.4, 0.4, 1, 0.75, 0.05, 1)),
    (16, tuple(i % 21 / 20 for i in range(32))),
    (4, (1, 0, 0, 1)),
    (3, (1, 1, 1, 1)),
    (3, (0.5, 0.5, 0.5, 0.5)),
    (1, (0.2, 0.7)),
    (2, (0, 1, 1)),
    (5, (0.35, 1, 0.35, 0, 1, 0.9)),
    (2, (0.95, 0.95, 0.95, 1, 1)),
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


@pytest.mark.parametrize(
    ("group", "name", "words"),
    [
        ((3, (0, 1, 0, 1)), "hitchhiking", "needs a k that divides n = 4"),
        ((5, (0, 1, 0, 1)), "rspo_pass_at_k", "needs k of at most n = 4"),
        ((5, (0, 1, 0, 1)), "pkpo_s", "needs k of at most n = 4"),
        ((4, (0, 1, 0, 1)), "pkpo_s_loo", "needs k below n = 4"),
        ((4, (0, 1, 0, 1)), "passk_training", "needs k below n = 4"),
        ((2, (0.5, 1, 0)), "maxrl", "needs rewards 0 and 1"),
        ((2, (0.5, 1, 0)), "rspo_pass_at_k_plug_in", "needs rewards 0 and 1"),
        ((1, (0, 1)), "ttt_entropic", "needs n of at least 3"),
    ],
)
def test_a_row_without_weights_says_what_its_objective_needs(
    page: browser.Page, group: Group, name: str, words: str
) -> None:
    show(page, fragment(group) + ALL_GROUPS)
    row = by_name(page, ROWS)[name]
    assert row["words"] == words
    assert row["bars"] == []


def test_the_objectives_of_other_papers_are_shown_on_request(page: browser.Page) -> None:
    show(page, "#n=4&k=2&r=0100")
    assert set(by_name(page, ROWS)) == set(by_name(page, CURVES)) == {*PAPER}
    click = "document.querySelector('#choice [value={}]').click()"
    page.evaluate(click.format("tails"))
    assert page.evaluate("location.hash") == "#n=4&k=2&r=0100&show=paper,tails"
    tails = {"tailrl", "tailrl_centred", "maxrl", "maxrl_uncentred"}
    assert set(by_name(page, ROWS)) == set(by_name(page, CURVES)) == {*PAPER, *tails}
    page.evaluate(click.format("paper"))
    assert set(by_name(page, ROWS)) == tails
    page.evaluate(click.format("tails"))
    assert page.evaluate("location.hash") == "#n=4&k=2&r=0100&show="
    assert page.evaluate(ROWS) == []
    page.evaluate("document.getElementById('next').click()")  # a step explains the paper's
    assert set(by_name(page, ROWS)) == {*PAPER}
    show(page, f"#n=4&k=2&r=0100{ALL_GROUPS}")
    assert set(by_name(page, ROWS)) == {*OBJECTIVES}
    assert page.evaluate("document.querySelectorAll('#choice :checked').length") == 5
    assert page.complaints == []


def test_bars_and_numbers_show_the_weights_on_one_scale(page: browser.Page) -> None:
    for text in (fragment(GROUPS[0]), fragment(GROUPS[9]), fragment(GROUPS[9]) + ALL_GROUPS):
        show(page, text)
        rows = [row for row in page.evaluate(ROWS) if row["weights"]]
        weights = np.array([row["weights"] for row in rows])
        tops, bottoms = np.moveaxis(np.array([row["bars"] for row in rows]), -1, 0)
        scale = tops.max() / weights.max()
        np.testing.assert_allclose(tops, scale * np.maximum(weights, 0), atol=1.5)
        np.testing.assert_allclose(bottoms, scale * np.minimum(weights, 0), atol=1.5)
        numbers = [[float(n.replace("−", "-")) for n in row["numbers"]] for row in rows]
        np.testing.assert_allclose(numbers, weights, rtol=0, atol=5.001e-4)


@pytest.mark.parametrize(("k", "n"), [(4, 8), (1, 3), (2, 12), (5, 5), (6, 4), (3, 10)])
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


@pytest.mark.parametrize(("k", "n"), [(4, 8), (8, 32), (32, 32), (1, 2)])
def test_unbiased_objectives_have_the_slope_of_pass_at_k(
    page: browser.Page, k: int, n: int
) -> None:
    show(page, f"#n={n}&k={k}&r={'0' * n}")
    curves = by_name(page, CURVES)
    exact = [float(k * (1 - Fraction(i, 100)) ** (k - 1)) for i in range(101)]
    for name in ("hitchhiking", "rspo_pass_at_k", "rspo_max_at_k"):
        assert curves[name]["slopes"] == pytest.approx(exact, rel=0, abs=TOLERANCE * k)
    assert curves["policy_gradient"]["slopes"] == pytest.approx([1] * 101, rel=0, abs=TOLERANCE)


def test_points_mark_the_fraction_of_right_responses(page: browser.Page) -> None:
    show(page, "#n=10&k=5&r=1110000000")
    curves, points = by_name(page, CURVES), by_name(page, POINTS)
    left, right = page.evaluate(
        "(({x, width}) => [x, x + width])(document.querySelector('#chart .axis').getBBox())"
    )
    assert points.keys() == curves.keys()
    for name, point in points.items():
        assert point["slope"] == pytest.approx(curves[name]["slopes"][30], rel=0, abs=TOLERANCE)
        assert point["x"] == pytest.approx(left + 0.3 * (right - left))
    show(page, "#n=3&k=2&r=0.5,0,1")
    assert page.evaluate(POINTS) == []


def test_clicking_toggles_a_response_and_updates_the_address(page: browser.Page) -> None:
    show(page, "#n=4&k=2&r=0100")
    page.evaluate("document.querySelectorAll('#responses button')[3].click()")
    assert page.evaluate("location.hash") == "#n=4&k=2&r=0101"
    expected = response_weights([0, 1, 0, 1], "rspo_pass_at_k", 2)
    rows = by_name(page, ROWS)
    assert rows["rspo_pass_at_k"]["weights"] == pytest.approx(list(expected), abs=TOLERANCE)
    page.evaluate("document.querySelectorAll('#responses button')[1].click()")
    assert page.evaluate("location.hash") == "#n=4&k=2&r=0001"


def press(page: browser.Page, key: str, code: int, text: str = "") -> None:
    for kind in ("keyDown", "keyUp"):
        typed = {"text": text} if text and kind == "keyDown" else {}
        page.ask("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code, **typed)


def test_the_keyboard_sets_rewards_and_keeps_the_focus(page: browser.Page) -> None:
    show(page, "#n=3&k=2&r=000")
    page.evaluate("document.querySelector('#responses button').focus()")
    press(page, "ArrowRight", 39)
    press(page, " ", 32, " ")
    assert page.evaluate("location.hash") == "#n=3&k=2&r=010"
    assert page.evaluate("document.activeElement.ariaLabel") == "Response 2: right"
    press(page, " ", 32, " ")
    assert page.evaluate("location.hash") == "#n=3&k=2&r=000"
    page.evaluate("document.getElementById('graded').click()")
    page.evaluate("document.querySelectorAll('#responses input')[2].focus()")
    press(page, "ArrowUp", 38)
    assert page.evaluate("location.hash") == "#n=3&k=2&r=0,0,0.05"
    assert page.evaluate("document.activeElement.ariaLabel") == "Reward of response 3"


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("#n=8&k=4&r=11000000", "#n=8&k=4&r=11000000"),
        ("#n=4&k=4&r=110", "#n=4&k=4&r=1100"),
        ("#r=11", "#n=2&k=4&r=11"),
        ("#n=99&k=0&r=1", "#n=32&k=1&r=1" + "0" * 31),
        ("#n=x&k=-2&r=1a1", "#n=3&k=4&r=101"),
        ("#n=2&k=2&r=7,-1", "#n=2&k=2&r=1,0"),
        ("#n=2&k=2&r=10&show=paper", "#n=2&k=2&r=10"),
        ("#n=2&k=2&r=10&show=tails,none,paper", "#n=2&k=2&r=10&show=paper,tails"),
        ("#step=1&show=utilities", "#n=8&k=4&r=01010000&step=1&show=utilities"),
    ],
)
def test_a_shared_address_opens_its_group(
    own_browser: browser.Page, path: Path, given: str, shown: str
) -> None:
    own_browser.open(path, WIDTHS[0], fragment=given)
    assert own_browser.evaluate("formatFragment(state)") == shown


def test_every_step_of_the_example_shows_its_group_in_two_sentences(page: browser.Page) -> None:
    steps = page.evaluate("STEPS")
    for number, step in enumerate(steps, start=1):
        assert page.evaluate("document.getElementById('title').textContent") == step["title"]
        group = page.evaluate("formatRewards(state)"), page.evaluate("state.k")
        assert group == (step["rewards"], step["k"])
        text = page.evaluate("document.getElementById('text').textContent")
        assert text.count(". ") == 1, text
        if "shows" in step:
            assert page.evaluate("document.querySelectorAll('.current').length") == 1
        assert page.evaluate("document.getElementById('next').disabled") == (number == len(steps))
        page.evaluate("document.getElementById('next').click()")
    page.evaluate("document.getElementById('previous').click()")
    assert page.evaluate("state.step") == len(steps) - 1


def test_the_numbers_in_the_example_are_the_weights_of_the_package(page: browser.Page) -> None:
    steps = [step for step in page.evaluate("STEPS") if step.get("shows") in PAPER]
    binary = [step for step in steps if "," not in step["rewards"]]
    assert len(binary) == 7
    for step in binary:
        rewards = [int(reward) for reward in step["rewards"]]
        largest = max(response_weights(rewards, step["shows"], step["k"]))
        assert f"{round(largest, 3):g}" in re.findall(r"\d+\.\d+|\d+", step["text"])


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


def test_the_colours_are_those_of_the_figures(page: browser.Page) -> None:
    """In the light scheme, each has the colour of k = 4 in figures with k = 2, 4 and 8."""
    colours = page.evaluate(
        "OBJECTIVES.map(({names, colour}) => "
        "[names[0], getComputedStyle(document.documentElement).getPropertyValue(colour).trim()])"
    )
    for name, colour in colours:
        assert colour == style.line(formula_lines(name, (2, 4, 8))[1])["color"].lower()


def test_docs_link_the_page() -> None:
    assert "(docs/explorer.html)" in (ROOT / "README.md").read_text()
    assert "(explorer.html)" in (ROOT / "docs" / "objectives.md").read_text()
