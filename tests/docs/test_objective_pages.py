"""The pages of objectives that docs/site_objectives.py makes for the site."""

import re
from importlib.util import module_from_spec, spec_from_file_location
from typing import Any

import numpy as np
import pytest

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
