"""The checks before the first job, with commands that replace `rspo doctor` and `squeue`."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from snakemake.exceptions import WorkflowError

from rspo.config.schema import Config
from rspo.snakemake import preflight
from rspo.snakemake.preflight import jobs_of, require_packages, require_slurm, run_doctor
from tests.support import tiny_world

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
    run_doctor([], {})


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
    with pytest.raises(WorkflowError, match=r"^`rspo doctor` exited with 2$"):
        start("exit 2")
    with pytest.raises(WorkflowError, match="exited with -9"):
        start("kill -9 $$")


# --- jobs and packages ----------------------------------------------------------------------------


def rule(name: str) -> Any:
    return SimpleNamespace(rule=SimpleNamespace(name=name))


def test_jobs_have_the_name_of_their_rule_in_the_module() -> None:
    """A Snakefile with `use rule * from tiny as tiny_*` has rules of its own, too."""
    train = rule("tiny_train")
    own = rule("own")
    workflow = SimpleNamespace(dag=SimpleNamespace(needrun_jobs=lambda: [train, own]))
    rules = SimpleNamespace(_rules={"train": rule("tiny_train"), "sample": rule("tiny_sample")})
    assert jobs_of(workflow, rules) == [("train", train)]


VERL = "engine = 'verl' needs the package verl: "
VLLM = "sampler = 'vllm' needs the package vllm: "
JUDGE = "verifier = 'xverify' without xverify.url needs the package vllm: "
ALL_RULES = {"prepare", "train", "sample", "score"}


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Config:
    return tiny_world.load(tmp_path_factory.mktemp("config")).config


def with_judge(config: Config, url: str | None) -> Config:
    return config.model_copy(update={"verifier": "xverify", "xverify": SimpleNamespace(url=url)})


@pytest.mark.parametrize(
    ("engine", "sampler", "rules", "message"),
    [
        ("verl", "torch", {"train"}, VERL),
        ("verl", "torch", ALL_RULES - {"train"}, None),
        ("local", "vllm", {"sample"}, VLLM),
        ("local", "vllm", ALL_RULES - {"sample"}, None),
        ("verl", "vllm", ALL_RULES, VERL),
        ("local", "torch", ALL_RULES, None),
    ],
)
def test_the_jobs_of_a_run_need_the_packages_that_they_import(
    config: Config,
    monkeypatch: pytest.MonkeyPatch,
    engine: str,
    sampler: str,
    rules: set[str],
    message: str | None,
) -> None:
    chosen = config.model_copy(update={"engine": engine, "sampler": sampler})
    monkeypatch.setattr(preflight, "find_spec", lambda package: object())
    require_packages(rules, chosen)  # nothing is missing
    missing = {"verl": None, "vllm": None}
    monkeypatch.setattr(preflight, "find_spec", lambda package: missing.get(package, object()))
    if message is None:
        require_packages(rules, chosen)
    else:
        with pytest.raises(
            WorkflowError, match=f"^{message}.*`make setup-gpu` on a machine with GPUs$"
        ):
            require_packages(rules, chosen)


@pytest.mark.parametrize(
    ("rules", "url", "is_needed"),
    [
        ({"train"}, None, True),
        ({"score"}, None, True),
        (ALL_RULES - {"train", "score"}, None, False),
        (ALL_RULES, "http://judge", False),
    ],
)
def test_jobs_that_start_a_judge_need_vllm(
    config: Config,
    monkeypatch: pytest.MonkeyPatch,
    rules: set[str],
    url: str | None,
    is_needed: bool,
) -> None:
    monkeypatch.setattr(preflight, "find_spec", lambda package: None)
    chosen = with_judge(config, url).model_copy(update={"engine": "local", "sampler": "torch"})
    if is_needed:
        with pytest.raises(WorkflowError, match=f"^{JUDGE}"):
            require_packages(rules, chosen)
    else:
        require_packages(rules, chosen)


# --- SLURM answers --------------------------------------------------------------------------------


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Writes a profile with an executor and, unless the script is None, a `squeue`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SNAKEMAKE_PROFILE", raising=False)
    monkeypatch.setattr(sys, "argv", ["snakemake", "--profile", "slurm"])
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))

    def write(script: str | None, executor: str = "slurm") -> None:
        profile = Path("slurm", "config.yaml")
        squeue = Path("bin", "squeue")
        for path in (profile, squeue):
            path.parent.mkdir(exist_ok=True)
        profile.write_text(f"executor: {executor}\njobs: 2\n")
        if script is not None:
            squeue.write_text(f"#!/bin/sh\n{script}\n")
            squeue.chmod(0o755)

    return write


def test_a_run_on_slurm_is_refused_where_slurm_is_not_installed(
    cluster: Callable[..., None], config: Config
) -> None:
    cluster(None)
    with pytest.raises(WorkflowError, match=r"^SLURM is not installed .*; `snakemake all` without"):
        require_slurm(config)


def test_a_run_on_slurm_is_refused_while_slurm_does_not_answer(
    cluster: Callable[..., None], config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first missing package is named too, because that check would come later."""
    cluster("echo no controller >&2; exit 1")
    with pytest.raises(WorkflowError, match=r"^[^;]*no controller[^;]*$"):
        require_slurm(config)
    monkeypatch.setattr(preflight, "find_spec", lambda package: None)
    chosen = config.model_copy(update={"engine": "verl", "sampler": "vllm"})
    with pytest.raises(WorkflowError, match=f"^{VERL}[^;]*; [^;]*no controller[^;]*$"):
        require_slurm(chosen)


@pytest.mark.parametrize("option", ["--dry-run", "--touch", "--executor=local", "--profile=mine"])
def test_a_run_that_submits_nothing_to_slurm_does_not_ask_it(
    cluster: Callable[..., None],
    config: Config,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    option: str,
) -> None:
    cluster(": > asked")
    Path("mine").mkdir()
    Path("mine", "config.yaml").write_text("executor: slurm\njobs: 1\n")
    require_slurm(config)
    assert Path("asked").exists()
    Path("asked").unlink()
    monkeypatch.setattr(sys, "argv", sys.argv + [option])
    require_slurm(config)
    assert not Path("asked").exists()
    assert capsys.readouterr().err == ""  # not the profiles, which Snakemake itself names
