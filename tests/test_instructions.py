"""`python -m benchmarks instructions` finds claims whose verdicts depend on the processor."""

from pathlib import Path

import pandas as pd
import pytest

from benchmarks import instructions


def write(folder: Path, verdicts: dict[str, str], outcomes: dict[str, str]) -> None:
    reports = folder / "reports"
    reports.mkdir(parents=True)
    claims = pd.DataFrame(verdicts.items(), columns=["claim", "verdict"])
    claims.to_csv(reports / "claims.csv", index=False)
    comparisons = pd.DataFrame(outcomes.items(), columns=["id", "outcome"]).assign(decides="yes")
    information = pd.DataFrame([{"id": "c", "outcome": "for", "decides": "no"}])
    pd.concat([comparisons, information]).to_csv(reports / "claim_comparisons.csv", index=False)


def plant(folder: Path, **changed: tuple[dict[str, str], dict[str, str]]) -> None:
    """Results of each set of instructions, the same but for what is changed."""
    for name in instructions.SETS:
        verdicts, outcomes = changed.get(name, ({}, {}))
        write(
            folder / "trial" / name,
            {"C1": "supported", "C2": "not resolved at this size"} | verdicts,
            {"a": "for", "b": "open"} | outcomes,
        )


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_equal_verdicts_hold(project: Path) -> None:
    plant(project)
    count, *opposite = instructions.run()
    assert count.measured == "2, of which 0 differ in their verdict"
    assert all(row.holds and row.measured == "none" for row in opposite)


def test_another_verdict_is_counted_and_holds(project: Path) -> None:
    plant(project, avx2=({"C1": "tie within 2 points"}, {"b": "against"}))
    count, *opposite = instructions.run()
    assert count.measured == "2, of which 1 differ in their verdict"
    assert all(row.holds for row in opposite)


def test_opposite_verdicts_and_outcomes_fail_with_their_names(project: Path) -> None:
    plant(
        project,
        avx2=({"C2": "contradicted"}, {"a": "against"}),
        avx512=({"C2": "supported"}, {}),
    )
    _, verdicts, outcomes = instructions.run()
    assert (verdicts.measured, verdicts.holds) == ("C2", False)
    assert (outcomes.measured, outcomes.holds) == ("a", False)


def test_a_run_that_is_missing_is_named_with_its_command(project: Path) -> None:
    plant(project)
    (project / "trial" / "avx512" / "reports" / "claims.csv").unlink()
    (row,) = instructions.run()
    assert "ATEN_CPU_CAPABILITY=avx512 snakemake trial/avx512/reports/claims.csv" in row.measured
