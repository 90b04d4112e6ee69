"""What `make test-trainers` found, and what the page says about it."""

import json
import re
from pathlib import Path

import pytest

from tests import trainers
from tests.support import ROOT
from tests.trainers import CASES, NEWEST, RESULTS, TESTED

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


@pytest.mark.parametrize(
    ("name", "found", "result", "expected"),
    [
        (NEWEST, "9.9.0", "failed", {"1.0.0": "9 passed"}),
        (NEWEST, NEWEST, "failed", {"1.0.0": "9 passed", "9.9.0": "8 passed"}),
        (NEWEST, "1.0.0", "failed", {"1.0.0": "9 passed", "9.9.0": "8 passed"}),
        (NEWEST, "9.9.0", "9 passed", {"1.0.0": "9 passed", "9.9.0": "9 passed"}),
        ("1.0.0", "1.0.0", "failed", {"1.0.0": "failed", "9.9.0": "8 passed"}),
    ],
)
def test_the_file_has_no_failure_of_a_version_that_is_only_the_newest(
    name: str,
    found: str,
    result: str,
    expected: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = tmp_path / "versions.json"
    file.write_text(json.dumps({"trl": {"1.0.0": "9 passed", "9.9.0": "8 passed"}}))
    monkeypatch.setattr(trainers, "RESULTS", file)
    monkeypatch.setattr(trainers, "result_of", lambda case: (found, result))
    assert trainers.main([f"trl-{name}"]) == int(result == "failed")
    assert json.loads(file.read_text()) == {"trl": expected}
