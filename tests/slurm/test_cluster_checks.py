"""The checks against a cluster, with fake SLURM commands; test_doctor.py has a real one."""

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rspo.config.experiment import Experiment
from rspo.core.errors import InputError
from rspo.slurm import cluster_checks, doctor, input_checks, node_checks
from rspo.slurm.cluster import NoAnswer, Slurm, time_limit
from rspo.slurm.launch import ERROR, INFO, WARNING, Finding, Kind, Launch
from rspo.slurm.prerequisites import MARK
from rspo.training.verl.config_check import ConfigCheck
from tests.support import ROOT, slurm_world

Fake = Callable[[str, str], None]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return slurm_world.make_project(tmp_path / "project")


@pytest.fixture
def fake(tmp_path: Path, project: Path, monkeypatch: pytest.MonkeyPatch) -> Fake:
    """Defines a command; at first, a cluster that accepts every job."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    monkeypatch.chdir(project)

    def fake(command: str, script: str) -> None:
        path = tmp_path / "bin" / command
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    fake("sinfo", "echo its nodes")
    fake("sbatch", "echo 12")
    fake("scontrol", scontrol())
    fake("scancel", f'echo "$@" >> {tmp_path}/cancelled')
    return fake


def scontrol(partition: str = "gpu", limit: str = "1-00:00:00", requeue: int = 1) -> str:
    """A script that prints the job, and the partitions."""
    job = f"JobId=12 Partition={partition} TimeLimit={limit} Requeue={requeue}"
    partitions = """PartitionName=gpu MaxTime=1-00:00:00
PartitionName=gpu2 MaxTime=4:00:00"""
    return f"""case "$*" in *job*) echo "{job}";; *) echo "{partitions}";; esac"""


def launch(*rules: str, **settings: Any) -> Launch:
    return Launch.read(Experiment.load("tiny", settings), frozenset(rules) or None)


def require(found: list[Finding], expected: list[tuple[Kind, str]]) -> None:
    """The kind of each finding, and a pattern of its line."""
    assert [finding.kind for finding in found] == [kind for kind, _ in expected], found
    for finding, (_, pattern) in zip(found, expected, strict=True):
        assert re.search(pattern, finding.line), finding.line


@pytest.mark.parametrize(
    ("job", "kind", "expected"),
    [
        ({}, None, ""),
        ({"partition": "gpu2,gpu"}, None, ""),  # one of them is enough
        ({"partition": "of_another_cluster"}, None, ""),  # its time limit is not known
        ({"limit": "Partition_Limit"}, None, ""),
        (
            {"partition": "gpu2"},
            ERROR,
            r"train\.runtime = 24h is longer than partition gpu2 allows; set 4h .each training",
        ),
        ({"requeue": 0}, WARNING, r"set-resources\.train: .*slurm-patient-requeue: false"),
    ],
)
def test_a_job_that_would_not_run_or_continue_is_named_with_what_to_do(
    fake: Fake, job: dict[str, Any], kind: Kind | None, expected: str
) -> None:
    fake("scontrol", scontrol(**job))
    found = list(cluster_checks.requests(launch("train")))
    require(found, [(kind, expected)] if kind else [])


@pytest.mark.parametrize(("states", "refused"), [("idle mixed", True), ("idle drained", False)])
def test_a_job_that_fits_no_node_is_refused_unless_a_node_is_down(
    fake: Fake, states: str, refused: bool
) -> None:
    message = "allocation failure: Requested node configuration is not available"
    fake("sbatch", f'case "$*" in *--test-only*) echo {message} >&2; exit 1;; *) echo 12;; esac')
    fake("sinfo", f'case "$*" in *%T*) echo {states};; *) echo its nodes;; esac')
    line = r"train: sbatch .*never start it; its nodes$"
    require(list(cluster_checks.requests(launch("train"))), [(ERROR, line)] * refused)


@pytest.mark.parametrize(
    ("values", "there"),
    [
        ({}, "--partition=gpu: partition gpu has nodes with 64 CPUs, 512000 MB and gpu:8, for 1d"),
        ({"slurm_partition": None}, "--all: partition gpu has nodes with 64 CPUs, .*, for 1d"),
        ({"slurm_partition": "gpu,gpu3"}, "partitions here: gpu, gpu2"),
    ],
)
def test_what_slurm_refuses_is_named_with_what_it_has(
    project: Path, fake: Fake, values: dict[str, Any], there: str
) -> None:
    slurm_world.edit_profile(project, {"default-resources.slurm_partition": None})
    slurm_world.edit_profile(
        project, {f"set-resources.train.{key}": value for key, value in values.items()}
    )
    fake("sbatch", "echo 'Requested node configuration is not available' >&2; exit 1")
    nodes = "s/%R/gpu/; s/%c/64/; s/%m/512000/; s/%G/gpu:8/; s/%l/1d/"
    fake("sinfo", f"""test "$2 $3 $4" = "-h -e -o" && echo "$1: $5" | sed '{nodes}'""")
    found = list(cluster_checks.requests(launch("train")))
    line = rf"^slurm/config\.yaml: set-resources\.train: sbatch .*gpu:h800:8 .*: Reque.*; {there}$"
    require(found, [(ERROR, line)])
    fake("srun", "exit 1")
    assert list(node_checks.nodes(launch("train"))) == []


def test_options_of_all_jobs_are_part_of_every_check(
    tmp_path: Path, project: Path, fake: Fake
) -> None:
    """A reservation may refuse every job, and a node is asked with it, too."""
    profile = project / "slurm" / "config.yaml"
    options = "slurm-patient-reservation: ours\nslurm-patient-qos: long\n"
    profile.write_text(f"{profile.read_text()}\n{options}")
    fake("sbatch", f'echo "$@" >> {tmp_path}/asked; echo 12')
    fake("srun", f'echo "$@" >> {tmp_path}/asked; echo nothing')
    start = launch("train", "sample")
    assert list(cluster_checks.requests(start)) == []
    assert list(node_checks.nodes(start))
    asked = [line for line in (tmp_path / "asked").read_text().splitlines() if "--" in line]
    assert len(asked) >= 3
    for line in asked:
        assert "--qos=long --reservation=ours" in line


@pytest.mark.parametrize("printed", ["12;cluster", "Welcome\\n12", "12\\nBudget left: 500"])
def test_the_later_job_is_found_and_cancelled_whatever_else_sbatch_prints(
    tmp_path: Path, fake: Fake, printed: str
) -> None:
    fake("sbatch", f'echo "$@" > {tmp_path}/submitted; printf "{printed}\\n"')
    assert Slurm().later_job()["Requeue"] == "1"
    submitted = (tmp_path / "submitted").read_text()
    assert "--begin=now+7days --requeue --output=/dev/null" in submitted  # it must not run
    require_cancelled(tmp_path)


def test_a_later_job_without_a_number_is_cancelled_too(tmp_path: Path, fake: Fake) -> None:
    fake("sbatch", f'echo "$@" > {tmp_path}/submitted; echo Submitted batch job 12')
    with pytest.raises(InputError, match="no job number in its output: Submitted batch job 12"):
        Slurm().later_job()
    require_cancelled(tmp_path)


def require_cancelled(folder: Path) -> None:
    name = (folder / "cancelled").read_text().strip().removeprefix("--name=")
    assert f"--job-name={name} " in (folder / "submitted").read_text()


# The judgement of a node that has one fault.
ANSWER = MARK + json.dumps(
    [
        {"name": "this folder and its locks", "found": "seen", "fault": ""},
        {"name": "C compiler", "found": "none", "fault": "load one"},
    ]
)


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        (
            f"echo Welcome; echo '{ANSWER}'; echo Bye",
            [
                (ERROR, r"^a node \(--partition=gpu\): C compiler \(none\): load one$"),
                (INFO, r"^a node \(--part.*gpu\) has this folder and its locks \(seen\)$"),
            ],
        ),
        (
            "echo started on a node; echo 'python: not found' >&2; exit 127",
            [(ERROR, "cannot run `export HF_HUB_OFFLINE=1 && .*python.*`: python: not found")],
        ),
        # Jobs wait for nodes that are busy or down; a cluster may forbid `srun`.
        (
            "echo 'srun: error: nodes are busy' >&2",
            [
                (
                    WARNING,
                    "was not checked: srun: error: nodes are busy; check it yourself: srun "
                    "--partition=gpu --mem=.* bash -c 'export HF_HUB_OFFLINE=1 && rspo doctor "
                    "--scale tiny --node'$",
                )
            ],
        ),
        ("true", [(WARNING, "was not checked: srun printed nothing")]),  # SLURM lost the job
    ],
)
def test_each_fault_of_a_node_is_a_line_and_what_it_has_is_one(
    tmp_path: Path, fake: Fake, script: str, expected: list[tuple[Kind, str]]
) -> None:
    fake("srun", f'echo "$@" > {tmp_path}/asked; {script}')
    require(list(node_checks.nodes(launch("train"))), expected)
    asked = (tmp_path / "asked").read_text()
    assert asked.startswith("-n1 -t2 --mem=1000 ")  # fits between the jobs of others
    assert "--partition=gpu" in asked
    assert "--gres" not in asked  # of the eight GPUs, some are always busy


def test_a_node_is_asked_for_what_the_jobs_of_its_partition_need(
    tmp_path: Path, project: Path, fake: Fake
) -> None:
    """Jobs without GPUs need no driver, and only scoring and training need the judge."""
    shutil.copy(ROOT / "config" / "paper.yaml", project / "config")
    slurm_world.edit_profile(project, {"set-resources.sample.slurm_partition": "gpu2"})
    fake("srun", f'echo "$@" >> {tmp_path}/asked; for w; do :; done; echo "$w" >> {tmp_path}/needs')
    experiment = Experiment.load("paper", {"xverify": {"url": "http://judge:8000"}})
    assert list(node_checks.nodes(Launch.read(experiment)))
    needs = [json.loads(line) for line in (tmp_path / "needs").read_text().splitlines()]
    shown = [(one["gpus"], one["packages"], one["judge"]) for one in needs]  # cpu, gpu, gpu2
    url = "http://judge:8000"
    assert shown == [
        (False, [], ""),
        (True, ["torch", "vllm", "verl"], url),
        (True, ["torch", "vllm"], ""),
    ]
    limits = [line.partition(" --im")[0] for line in (tmp_path / "asked").read_text().splitlines()]
    assert limits == ["-n1 -t2 --mem=1000", *["-n1 -t7 --mem=8000"] * 2]  # imports take more


def test_the_program_on_the_node_tells_whether_the_lock_is_held(
    fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    run_here = 'while [ "$1" != sh ]; do shift; done; exec "$@"'
    fake("srun", run_here)
    assert seen(launch("curves"))
    # A node that does not see the folder.
    fake("srun", run_here.replace("exec", "rm -rf .rspo-doctor-*; exec"))
    found = [one.line for one in node_checks.nodes(launch("curves")) if one.kind is ERROR]
    assert any("locks (not seen): the node does not see this folder" in line for line in found)


def test_the_precommand_runs_first_on_the_node(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    fake("srun", 'while [ "$1" != sh ]; do shift; done; exec "$@"')
    set_precommand(r"test \\$HOME = \"$HOME\"")
    assert seen(launch("curves"))
    set_precommand("module load no")
    expected = (ERROR, "cannot run `module load no && .*`: .*module.*not found")
    require(list(node_checks.nodes(launch("curves"))), [expected])


def set_precommand(text: str) -> None:
    profile = Path("slurm/config.yaml")
    lines = profile.read_text().splitlines()
    kept = [line for line in lines if not line.startswith("precommand:")]
    profile.write_text("\n".join([*kept, f'precommand: "{text}"']))


def seen(start: Launch) -> bool:
    """Whether a node sees the lock that this process holds."""
    lines = [finding.line for finding in node_checks.nodes(start)]
    return any("this folder and its locks (seen)" in line for line in lines)


def test_a_command_on_a_node_may_last_longer_than_the_wait_for_the_node(
    fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(*words: str, seconds: float) -> None:
        (wait,) = (word for word in words if word.startswith("--immediate="))
        assert seconds >= float(wait.removeprefix("--immediate=")) + 120  # its own time limit
        raise NoAnswer("timed out after minutes")

    monkeypatch.setattr(node_checks, "run", run)
    line = "was not checked: timed out after minutes; "
    require(list(node_checks.nodes(launch("train"))), [(WARNING, line)])


def test_a_slurm_that_does_not_answer_is_one_line_beside_the_other_findings(
    project: Path, fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(ROOT / "config" / "paper.yaml", project / "config")
    refused = ConfigCheck(["no flash-attn"])
    monkeypatch.setattr(input_checks, "check_configs", lambda experiment: refused)
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=1e13))
    fake("scontrol", "printf 'scontrol: error: first\nscontrol: error: second\n' >&2; exit 1")
    found = [finding for finding in doctor.findings(Experiment.load("paper")) if finding.kind]
    no_answer = r"^SLURM does not answer \(scontrol: error: first error: second\)$"
    require(found, [(ERROR, "no flash-attn"), (ERROR, no_answer)])


def test_a_scale_that_needs_no_cluster_has_no_error_without_one(project: Path, fake: Fake) -> None:
    """As on a machine with SLURM's commands and no controller."""
    fake("scontrol", "echo 'slurm_load_ctl_conf error' >&2; exit 1")
    experiment = Experiment.load("tiny")
    (found,) = [line for line in doctor.findings(experiment) if "does not answer" in line.line]
    assert found.kind == INFO
    assert "the scale tiny needs none" in found.line
    # Snakemake asks for the rules that it is going to submit.
    found, *_ = doctor.findings(experiment, {"train"})
    assert found.kind == ERROR


def test_commands_do_not_belong_to_the_job_that_starts_them(
    fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_CONF", "/slurm.conf")
    monkeypatch.setenv("SLURM_JOB_ID", "12")
    fake("sinfo", "env")
    shown = Slurm().ask("sinfo")
    assert "SLURM_CONF=/slurm.conf" in shown  # names the cluster
    assert "SLURM_JOB_ID" not in shown


@pytest.mark.parametrize(
    ("text", "minutes"),
    [("2-00:00:00", 2880), ("4:00:00", 240), ("1:30", 1.5), ("UNLIMITED", None)],
)
def test_time_limits_of_slurm_are_parsed(text: str, minutes: float | None) -> None:
    assert time_limit(text) == minutes
