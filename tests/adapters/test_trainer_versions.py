"""What `make test-trainers` found, and what the page says about it."""

import json
import re

import pytest

from rspo.adapters import versions
from tests.support import ROOT
from tests.trainers import CASES, NEWEST, RESULTS

TESTED = {"trl": versions.TRL, "verl": versions.VERL}
NAMES = {"trl": "TRL", "verl": "verl"}


@pytest.mark.parametrize("package", TESTED)
def test_each_version_that_counts_as_tested_has_passed(package: str) -> None:
    found = json.loads(RESULTS.read_text())[package]
    for version in TESTED[package]:
        assert re.fullmatch(r"[1-9]\d* passed", found[version])


@pytest.mark.parametrize("package", TESTED)
def test_the_page_names_the_tested_versions(package: str) -> None:
    page = (ROOT / "docs" / "trainers.md").read_text()
    assert f"| {NAMES[package]} {', '.join(TESTED[package])} |" in page


def test_the_newest_versions_run_too() -> None:
    names = {case.name for case in CASES}
    assert {f"trl-{NEWEST}", f"verl-{NEWEST}", "trl-1.12.0", "verl-0.8.0"} <= names
