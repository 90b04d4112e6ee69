"""The start and the end of a run, with a workflow of Snakemake that is an object of this test."""

import os
import shutil
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from snakemake.exceptions import WorkflowError

from rspo.config.experiment import Experiment
from rspo.config.given import EXPERIMENT_VARIABLE
from rspo.core.locks import exclusive_lock, is_locked
from rspo.core.signals import SNAKEMAKE
from rspo.snakemake import preflight, start
from rspo.snakemake.start import end_run, read_workflow, start_run
from tests.support import ROOT, tiny_world


@pytest.fixture
def experiment(tmp_path: Path) -> Experiment:
    return tiny_world.load(tmp_path)


@pytest.fixture(autouse=True)
def locks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The locks of a run end with its process; here they end with the test."""
    preflight.lock_until_the_end.cache_clear()
    yield
    preflight._HELD.close()
    preflight.lock_until_the_end.cache_clear()


@pytest.fixture(autouse=True)
def messages(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Any]]:
    """What Snakemake's logger gets."""
    seen: list[tuple[str, Any]] = []

    def info(text: str, extra: Any = None) -> None:
        seen.append((text, extra))

    monkeypatch.setattr(start, "logger", SimpleNamespace(info=info))
    return seen


def job(rule: str, *output: Path) -> Any:
    return SimpleNamespace(
        rule=SimpleNamespace(name=rule), output=[str(path) for path in output], is_local=True
    )


def workflow(*jobs: Any, **changes: Any) -> Any:
    dag = SimpleNamespace(
        needrun_jobs=lambda: jobs, jobs=jobs, finished_jobs=[], targetfiles=[], targetjobs=[]
    )
    rules = SimpleNamespace(get_path_or_uri=lambda secret_free: "/nowhere/workflow/rules/run.smk")
    attributes = {"dag": dag, "touch": False, "local_exec": True, "remote_exec": False}
    attributes["included_stack"] = [rules]
    attributes["logger_manager"] = SimpleNamespace(plugin_handlers=[])
    return SimpleNamespace(**(attributes | changes))


def rules(*names: str) -> Any:
    proxies = {name: SimpleNamespace(rule=SimpleNamespace(name=name)) for name in names}
    return SimpleNamespace(_rules=proxies)


def test_a_run_locks_its_results_and_tells_the_display_its_experiment(
    experiment: Experiment, messages: list[tuple[str, Any]]
) -> None:
    run = workflow(job("prepare", experiment.files.problems("train")))
    start_run(run, rules("prepare"), experiment, {})
    assert is_locked(experiment.files.results)
    assert not experiment.files.reports.exists()
    assert messages == [
        (f"Results are written to {experiment.files.results}.", {"experiment": experiment})
    ]


def test_a_run_that_writes_reports_locks_them_too(experiment: Experiment) -> None:
    run = workflow(job("claims", experiment.files.reports / "claims.csv"))
    start_run(run, rules("claims"), experiment, {})
    assert is_locked(experiment.files.results)
    assert is_locked(experiment.files.reports)


def test_a_second_run_in_the_same_folder_is_refused(experiment: Experiment) -> None:
    run = workflow(job("prepare", experiment.files.problems("train")))
    with (
        exclusive_lock(experiment.files.results),
        pytest.raises(WorkflowError, match=str(experiment.files.results)),
    ):
        start_run(run, rules("prepare"), experiment, {})


def test_a_folder_that_cannot_be_written_is_named(experiment: Experiment) -> None:
    experiment.files.results.parent.mkdir(parents=True)
    experiment.files.results.write_text("a file where the folder would be")
    run = workflow(job("prepare", experiment.files.problems("train")))
    with pytest.raises(WorkflowError, match=f"^{experiment.files.results}.*: "):
        start_run(run, rules("prepare"), experiment, {})


def test_a_missing_package_is_found_before_a_folder_is_made(
    experiment: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = experiment.config.model_copy(update={"sampler": "vllm"})
    monkeypatch.setattr(preflight, "find_spec", lambda package: None)
    monkeypatch.setitem(experiment.__dict__, "config", config)
    run = workflow(job("sample", experiment.files.samples("small--base", "standard", 0)))
    with pytest.raises(WorkflowError, match="needs the package vllm"):
        start_run(run, rules("sample"), experiment, {})
    assert not experiment.files.results.exists()
    start_run(workflow(*run.dag.jobs, touch=True), rules("sample"), experiment, {})


def test_jobs_of_other_rules_do_not_count(
    experiment: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The main Snakefile of a user may have a rule named `train`."""
    needed: list[set[str]] = []
    monkeypatch.setattr(start, "require_packages", lambda names, config: needed.append(names))
    own = job("train", Path("own.txt"))
    start_run(workflow(own), rules("prepare"), experiment, {})
    assert needed == [set()]


def test_the_end_names_the_report_if_the_run_has_one(
    experiment: Experiment, messages: list[tuple[str, Any]]
) -> None:
    page = experiment.files.reports / "report.html"
    end_run(workflow(job("prepare", experiment.files.problems("train"))), experiment)
    assert messages == []
    end_run(workflow(job("report", page)), experiment)
    assert messages == [(f"The report is {page}.", None)]


PATCHES = [
    "plan_jobs_behind_ancient_inputs",
    "compare_results_with_provenance",
    "keep_one_timer",
    "check_every_plan",
]


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Read a workflow without a change of Snakemake that outlives the test.

    Returns: the functions that were called instead, by name.
    """
    called: list[str] = []
    for patch in PATCHES:
        monkeypatch.setattr(start, patch, partial(called.append, patch))
    monkeypatch.setattr(start, "suggest_targets", lambda experiment: None)
    monkeypatch.setattr(start, "require_slurm", lambda config: called.append("require_slurm"))
    monkeypatch.setenv("PATH", "/usr/bin")
    monkeypatch.setenv(EXPERIMENT_VARIABLE, "{}")
    monkeypatch.setenv(SNAKEMAKE, "1 elsewhere")
    return called


def reading(prefix: str = "", is_main_process: bool = False, **changes: Any) -> Any:
    modifier = SimpleNamespace(modify_path=lambda path: prefix + path)
    return workflow(modifier=modifier, is_main_process=is_main_process, **changes)


def test_reading_the_workflow_changes_snakemake_and_asks_slurm_in_the_main_process(
    experiment: Experiment, environment: list[str]
) -> None:
    read_workflow(reading(), experiment)
    assert environment == PATCHES
    environment.clear()
    read_workflow(reading(is_main_process=True), experiment)
    assert environment == [*PATCHES, "require_slurm"]


@pytest.mark.usefixtures("environment")
def test_rules_call_the_program_beside_this_python_with_the_experiment_of_their_own(
    experiment: Experiment,
) -> None:
    for _ in range(2):  # a second module adds nothing
        read_workflow(reading(), experiment)
        assert os.environ["PATH"] == f"{Path(sys.executable).parent}:/usr/bin"
    assert EXPERIMENT_VARIABLE not in os.environ
    assert os.environ[SNAKEMAKE].startswith(f"{os.getpid()} ")


@pytest.mark.usefixtures("environment")
def test_a_command_in_a_slurm_job_does_not_watch_snakemake(experiment: Experiment) -> None:
    read_workflow(reading(remote_exec=True), experiment)
    assert os.environ[SNAKEMAKE] == ""


def test_rules_of_another_checkout_are_refused_with_both_paths(
    experiment: Experiment, environment: list[str], tmp_path: Path
) -> None:
    file = tmp_path / "clone" / "workflow" / "rules" / "run.smk"
    file.parent.mkdir(parents=True)
    file.touch()
    run = reading(included_stack=[SimpleNamespace(get_path_or_uri=lambda secret_free: str(file))])
    read_workflow(run, experiment)  # a copy of workflow/ alone
    environment.clear()
    (tmp_path / "clone" / "rspo").mkdir()
    for name in ("rspo/__init__.py", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path / "clone" / name)
    with pytest.raises(WorkflowError, match=f"{ROOT}, .* {tmp_path.resolve()}/clone: "):
        read_workflow(run, experiment)
    assert environment == []


@pytest.mark.parametrize(
    ("exists", "said"),
    [
        (True, "All files of this run have new times. No job has run."),
        (False, "No file of this run exists, so that no file was touched. No job has run."),
    ],
)
def test_touch_shows_no_progress_and_says_that_no_job_has_run(
    experiment: Experiment, messages: list[tuple[str, Any]], exists: bool, said: str
) -> None:
    page = experiment.files.reports / "report.html"
    if exists:
        page.parent.mkdir(parents=True, exist_ok=True)
        page.touch()
    run = workflow(job("report", page), touch=True)
    start_run(run, rules("report"), experiment, {})
    end_run(run, experiment)
    assert messages == [(said, None)]


@pytest.mark.usefixtures("environment")
def test_a_module_with_a_prefix_is_refused(experiment: Experiment) -> None:
    with pytest.raises(WorkflowError, match="has no `prefix`"):
        read_workflow(reading(prefix="elsewhere/"), experiment)
