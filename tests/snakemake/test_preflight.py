"""The start of `rspo doctor` by Snakemake, with a command that replaces it."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from snakemake.exceptions import WorkflowError

from rspo.snakemake.preflight import run_doctor

Start = Callable[..., None]


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Start:
    """Calls `run_doctor` as a Snakemake with the project's profile and one job."""
    job = SimpleNamespace(is_local=False, rule=SimpleNamespace(name="train"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SNAKEMAKE_PROFILE", raising=False)
    monkeypatch.setattr(sys, "argv", ["snakemake", "--profile", "slurm"])
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))

    def start(script: str) -> None:
        (tmp_path / "python").write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "python").chmod(0o755)
        run_doctor([("train", job)], {"RSPO_EXPERIMENT": "given"})

    return start


@pytest.mark.parametrize(
    ("words", "variable", "checked"),
    [
        ("--workflow-profile slurm/", "", True),
        ("all", "slurm", True),
        ("--profile mine", "slurm", False),
    ],
)
def test_only_runs_with_the_projects_profile_are_checked(
    start: Start, monkeypatch: pytest.MonkeyPatch, words: str, variable: str, checked: bool
) -> None:
    monkeypatch.setattr(sys, "argv", ["snakemake", *words.split()])
    monkeypatch.setenv("SNAKEMAKE_PROFILE", variable)
    start("touch checked")
    assert Path("checked").exists() == checked


def test_the_checks_read_the_experiment_of_the_run(start: Start) -> None:
    start('echo "$RSPO_EXPERIMENT $*" > seen')
    assert Path("seen").read_text() == "given -m rspo doctor --rule=train\n"


def test_rules_that_the_profile_does_not_know_by_name_are_refused(start: Start) -> None:
    """As those of a module with another name, whose jobs would get no GPU."""
    renamed = SimpleNamespace(is_local=False, rule=SimpleNamespace(name="tiny_train"))
    with pytest.raises(WorkflowError, match=r"^slurm/config\.yaml has no resources for tiny_train"):
        run_doctor([("train", renamed)], {})
    local = SimpleNamespace(is_local=True, rule=SimpleNamespace(name="tiny_figure"))
    run_doctor([("figure", local)], {})


def test_warnings_are_printed_and_errors_are_raised(
    start: Start, capsys: pytest.CaptureFixture[str]
) -> None:
    start("echo 'warning  a: b'; echo '         c'; exit 2")
    assert capsys.readouterr().err.splitlines()[1:] == ["rspo: a: b"]
    with pytest.raises(WorkflowError, match=r"^d\ne$"):
        start("echo 'error    d'; echo 'error    e'; exit 2")


def test_a_failure_of_the_checks_is_not_taken_for_success(start: Start) -> None:
    with pytest.raises(WorkflowError, match=r"^slurm/config\.yaml: a$"):
        start("echo 'rspo: error: slurm/config.yaml: a' >&2; exit 2")
    with pytest.raises(WorkflowError, match="exited with -9"):
        start("kill -9 $$")
