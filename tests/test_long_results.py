"""Results of the long tests are of the code as it is now."""

import os
import warnings
from pathlib import Path

import pytest

from tests import long
from tests.long import STAGES, digest, outdated, rows
from tests.mutants import EQUIVALENT, GROUPS, without_comments
from tests.support import ROOT


class OutdatedResults(UserWarning):
    """Results of long tests do not hold for this code."""


def check_results() -> None:
    """Fail in CI if a result is outdated; warn elsewhere, where the stages may run later."""
    reasons = outdated()
    if not reasons:
        return
    listed = ", ".join(f"{name} ({reason})" for name, reason in reasons.items())
    message = (
        f"long tests have no valid result for this code: {listed}. Before a merge, run "
        f'`make test-long ARGS="{" ".join(reasons)}"` and commit tests/long_results.md'
    )
    if os.environ.get("CI"):
        pytest.fail(message)
    warnings.warn(message, OutdatedResults, stacklevel=1)


def test_the_last_results_of_the_long_stages_are_of_this_code() -> None:
    """Stages that have never run do not count."""
    check_results()


def test_an_outdated_result_is_a_warning_and_in_ci_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = {
        "soak": ["soak", "passed: 13", "2026-01-01", "abc", "of other code"],
        "kills": ["kills", "failed: 1", "2026-01-01", "def", digest(STAGES["kills"].covers)],
    }
    monkeypatch.setattr(long, "rows", lambda: table)
    reasons = r'soak \(its code has changed\), kills \(failed at def\).* ARGS="soak kills"'
    monkeypatch.setenv("CI", "")
    with pytest.warns(OutdatedResults, match=reasons):
        check_results()
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match=reasons):
        check_results()


@pytest.mark.parametrize("name", rows())
def test_each_pattern_of_a_stage_matches_files(name: str) -> None:
    assert all(digest([pattern]) != digest([]) for pattern in STAGES[name].covers)


def test_only_a_change_of_code_counts(tmp_path: Path) -> None:
    def digest_of(python: str, snakemake: str = "rule a:\n    shell: 'true'\n") -> str:
        (tmp_path / "a.py").write_text(python)
        (tmp_path / "a.smk").write_text(snakemake)
        return digest(["*.py", "*.smk"], tmp_path)

    function = "def f(x):\n    return x + 1\n"
    documented = 'import os\n\ndef f(x):\n    """Text."""\n    return x+1  # more\n'
    rule = "# text\nrule a:\n\n    shell: 'true'\n"
    assert digest_of(documented, rule) == digest_of(function)
    changed = [digest_of(function.replace("1", other)) for other in ("2", "1.0", "True", "x")]
    changed.append(digest_of(function, "rule a:\n    shell: 'false'\n"))
    assert len({*changed, digest_of(function)}) == 6


def code_of_module(name: str) -> str:
    """The text of a module with faults."""
    for group in GROUPS.values():
        for file in (file for pattern in group.modules for file in ROOT.glob(pattern)):
            if ".".join(file.relative_to(ROOT).with_suffix("").parts) == name:
                return file.read_text()
    raise LookupError(f"no stage has faults in {name}")


@pytest.mark.parametrize("block", EQUIVALENT.read_text().strip().split("\n\n"))
def test_a_fault_that_changes_no_result_is_of_the_code_as_it_is_now(block: str) -> None:
    """An entry names a function, then has the lines of the code that the fault changes."""
    head, *lines = block.splitlines()
    module = head.partition(":")[0].rpartition(".x")[0]
    assert {line[0] for line in lines} <= {"-", "+"}, head
    code = [line.strip() for line in without_comments(code_of_module(module)).splitlines()]
    for line in lines:
        assert line[0] == "+" or line[1:].strip() in code, line
