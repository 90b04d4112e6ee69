"""The pages of objectives that docs/site_objectives.py makes for the site."""

import re
import sys
from importlib.util import module_from_spec, spec_from_file_location
from itertools import chain
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from rspo.figures.methods import label_of
from rspo.objectives import OBJECTIVES
from tests.support import ROOT


@pytest.fixture(scope="module")
def site() -> Any:
    spec = spec_from_file_location("site_objectives", ROOT / "docs" / "site_objectives.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def pages(site: Any) -> dict[str, str]:
    return {name: site.page(name) for name in OBJECTIVES}


def points(page: str) -> np.ndarray:
    """p, F, F', variance, S/N and the fraction of zero weights, (points, 6)."""
    rows = re.findall(r"^\| (0\.\d\d) \| (.*) \| (\d+)% \| [^|]* \|$", page, re.MULTILINE)
    return np.array(
        [
            [float(p), *map(float, numbers.split(" | ")), int(zeros) / 100]
            for p, numbers, zeros in rows
        ]
    )


@pytest.mark.parametrize("name", OBJECTIVES)
def test_a_page_has_the_label_the_rules_and_the_docstring_of_its_objective(
    pages: dict[str, str], name: str
) -> None:
    page, objective = pages[name], OBJECTIVES[name]
    title = page.split("\n")[0].removeprefix("# ")
    assert title == re.sub("[${}^]", "", label_of(name, full=True))
    assert f"| k | {objective.k_rule.value} |" in page
    assert ("| rewards | 0 or 1 |" in page) == objective.binary
    assert f"\n::: {objective.function.__module__}.{name}\n" in page
    module = sys.modules[objective.function.__module__]
    assert re.search(r"RSPO|rspo_", f"{name} {objective.function.__doc__} {module.__doc__}")


@pytest.mark.parametrize(
    ("name", "n"), [("grpo", 2), ("maxpo", 2), ("ttt_entropic", 3), ("rspo_max_at_k", 1)]
)
def test_a_page_has_the_smallest_n(pages: dict[str, str], name: str, n: int) -> None:
    assert f"| n | at least {n} |" in pages[name]


@pytest.mark.parametrize("name", ["hitchhiking", "rspo_pass_at_k", "rspo_max_at_k", "maxpo"])
def test_the_numbers_of_unbiased_objectives_are_pass_at_4(pages: dict[str, str], name: str) -> None:
    page = pages[name]
    p, value, slope = points(page)[:, :3].T
    assert len(p) == 6
    np.testing.assert_allclose(value, 1 - (1 - p) ** 4, rtol=6e-3)
    np.testing.assert_allclose(slope, 4 * (1 - p) ** 3, rtol=6e-3)
    assert "\n| 4 | Pass@4 | " in page


def test_the_numbers_of_policy_gradient_are_those_of_a_binomial_mean(
    pages: dict[str, str],
) -> None:
    p, value, slope, variance, signal_to_noise, zeros = points(pages["policy_gradient"]).T
    np.testing.assert_allclose(value, p, rtol=6e-3)
    np.testing.assert_allclose(slope, 1, rtol=6e-3)
    np.testing.assert_allclose(variance, p * (1 - p) ** 3 / 16, rtol=6e-3)
    np.testing.assert_allclose(signal_to_noise, 16 * p / (1 - p), rtol=6e-3)
    np.testing.assert_allclose(zeros, 1 - p, atol=0.005)


@pytest.mark.parametrize(
    ("name", "same"),
    [
        ("rspo_max_at_k", {"rspo_pass_at_k on 0/1", "rspo_max_at_k_ranked on any"}),
        ("maxrl_uncentred", {"tailrl on 0/1"}),
        ("tailrl_centred", {"maxrl on 0/1"}),
        ("hitchhiking", set()),
        ("grpo", set()),
    ],
)
def test_a_page_names_the_objectives_with_the_same_weights(
    pages: dict[str, str], name: str, same: set[str]
) -> None:
    (row,) = re.findall(r"^\| same weights \| (.*) \|$", pages[name], re.MULTILINE)
    found = re.findall(r"\[`(\w+)`\]\(\1\.md\) on (\S+) rewards", row)
    assert {f"{other} on {kind}" for other, kind in found} == same


def test_the_curves_of_a_picture_are_the_slopes(pages: dict[str, str]) -> None:
    (picture,) = re.findall(r"^<svg.*</svg>$", pages["w_reinforce"], re.MULTILINE)
    rspo, own = ElementTree.fromstring(picture).findall("polyline")
    corners = [
        np.array([[float(number) for number in corner.split(",")] for corner in line.split()])
        for line in (rspo.get("points", ""), own.get("points", ""))
    ]
    p = np.linspace(0, 1, 101)
    for found, slope in zip(corners, (4 * (1 - p) ** 3, np.full(101, 1.1)), strict=True):
        bottom, top = corners[0][-1, 1], corners[0][0, 1]  # F' = 0 and 4
        np.testing.assert_allclose((bottom - found[:, 1]) / (bottom - top) * 4, slope, atol=2e-3)


def test_a_page_names_the_tests_of_its_objective_and_no_other(site: Any) -> None:
    tests = {name: [*chain(*site.tests_of(name).values())] for name in OBJECTIVES}
    assert all("weights are the formula" in tests[name] for name in tests if name != "grpo")
    assert "grpo gives nothing to a group whose rewards are all equal" in tests["grpo"]
    of_hitchhiking = "hitchhiking takes its groups in the order of sampling"
    assert [name for name in tests if of_hitchhiking in tests[name]] == ["hitchhiking"]
    shifted = [name for name in tests if "shifting all rewards changes nothing" in tests[name]]
    assert "grpo_passk" in shifted
    assert "hitchhiking" not in shifted
