"""What must agree before a release."""

import re

import yaml

import rspo
from tests.support import ROOT

WORKFLOWS = ROOT / ".github" / "workflows"


def test_the_citation_names_this_version_and_when_it_was_released() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == rspo.__version__
    assert citation["date-released"].isoformat() > "2026"
    assert re.search(
        rf"^## {re.escape(rspo.__version__)}$", (ROOT / "CHANGELOG.md").read_text(), re.M
    )


def test_the_workflows_run_what_ci_runs() -> None:
    ci = {line for line in (ROOT / ".ci" / "run").read_text().splitlines() if line[:5] == "make "}
    for file in WORKFLOWS.glob("*.yml"):
        jobs = yaml.safe_load(file.read_text())["jobs"].values()
        words = [step.get("run", "") for job in jobs for step in job["steps"]]
        made = {line for line in words if line.startswith("make ")}
        assert made
        assert made <= ci
