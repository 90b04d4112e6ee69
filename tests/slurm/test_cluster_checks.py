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
from rspo.slurm import cluster_checks, doctor, node_checks
from rspo.slurm import launch as launch_module
from rspo.slurm.cluster import Slurm, time_limit
from rspo.slurm.launch import ERROR, INFO, WARNING, Finding, Kind, Launch
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


def scontrol(
    partition: str = "gpu", limit: str = "1-00:00:00", requeue: int = 1, mode: str = "OFF"
) -> str:
    """A script that prints the job, and the partitions."""
    job = f"JobId=12 Partition={partition} TimeLimit={limit} Requeue={requeue}"
    partitions = f"""PartitionName=gpu MaxTime=1-00:00:00 PreemptMode=OFF
PartitionName=gpu2 MaxTime=4:00:00 PreemptMode={mode}"""
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
        ({"limit": "Partition_Limit"}, None, ""),
        (
            {"partition": "gpu2"},
            ERROR,
            r"train\.runtime = 24h is longer than partition gpu2 allows; set 4h .each training",
        ),
        ({"requeue": 0}, WARNING, r"set-resources\.train: .*slurm-patient-requeue: false"),
        ({"partition": "gpu,gpu2", "mode": "CANCEL"}, WARNING, "preempted jobs of partition gpu2 "),
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
    [({}, "its nodes"), ({"slurm_partition": "gpu,gpu3"}, "partitions here: gpu, gpu2")],
)
def test_what_slurm_refuses_is_named_with_what_it_has(
    project: Path, fake: Fake, values: dict[str, Any], there: str
) -> None:
    slurm_world.edit_profile(
        project, {f"set-resources.train.{key}": value for key, value in values.items()}
    )
    fake("sbatch", "echo 'Requested node configuration is not available' >&2; exit 1")
    found = list(cluster_checks.requests(launch("train")))
    line = rf"^slurm/config\.yaml: set-resources\.train: sbatch .*gpu:h800:8 .*: Reque.*; {there}$"
    require(found, [(ERROR, line)])
    assert list(node_checks.nodes(launch("train"))) == []


@pytest.mark.parametrize("printed", ["12;cluster", "Welcome\\n12", "12\\nBudget left: 500"])
def test_the_later_job_is_found_and_cancelled_whatever_else_sbatch_prints(
    tmp_path: Path, fake: Fake, printed: str
) -> None:
    fake("sbatch", f'echo "$@" > {tmp_path}/submitted; printf "{printed}\\n"')
    assert Slurm().later_job()["Requeue"] == "1"
    require_cancelled(tmp_path)


def test_a_later_job_without_a_number_is_cancelled_too(tmp_path: Path, fake: Fake) -> None:
    fake("sbatch", f'echo "$@" > {tmp_path}/submitted; echo Submitted batch job 12')
    with pytest.raises(InputError, match="no job number in its output: Submitted batch job 12"):
        Slurm().later_job()
    require_cancelled(tmp_path)


def require_cancelled(folder: Path) -> None:
    name = (folder / "cancelled").read_text().strip().removeprefix("--name=")
    assert f"--job-name={name} " in (folder / "submitted").read_text()


# --- the check on a node --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("echo 'srun: error: n7: task 0: Exited with exit code 1' >&2; exit 1", ERROR),
        ("echo 'srun: error: n7: task 0: Exited with exit code 137' >&2; exit 1", INFO),
        ("echo 'srun: error: Node failure on n7' >&2; exit 1", INFO),
        ("echo 'srun: error: Unable to allocate resources: Requested nodes are busy' >&2", INFO),
        ("true", INFO),  # SLURM lost the job
    ],
)
def test_only_a_command_that_fails_by_itself_stops_the_run(
    fake: Fake, script: str, expected: Kind
) -> None:
    """Jobs wait for nodes that are busy or down; a cluster may forbid `srun`."""
    fake("srun", script)
    (finding,) = node_checks.nodes(launch("train"))
    assert finding.kind is expected
    message = re.search("srun: error: [^']*", script)
    assert (message[0] if message else "srun printed nothing") in finding.line


@pytest.mark.parametrize("found", [[], [["error", "lacks a C compiler"]]])
def test_what_a_node_lacks_is_one_line_with_its_name(fake: Fake, found: list[list[str]]) -> None:
    """Between lines of the cluster's scripts."""
    answer = json.dumps({"host": "n7", "about": "torch 2", "findings": found})
    fake("srun", f"echo Welcome; echo '{answer}'; echo Bye")
    line = "lacks a C compiler$" if found else r"sees this folder, .* and SLURM \(torch 2\)$"
    expected = [(ERROR if found else INFO, f"^partition gpu: node n7 {line}")]
    require(list(node_checks.nodes(launch("train"))), expected)


def test_the_checked_node_is_one_that_the_jobs_may_get(
    tmp_path: Path, project: Path, fake: Fake
) -> None:
    """Options that decide on nodes apply; the signal and seven of the eight GPUs do not."""
    changes = {"qos": "high", "slurm_extra": "'--signal=USR1@600 -x n2 --nodelist n1'"}
    slurm_world.edit_profile(
        project, {f"set-resources.train.{key}": value for key, value in changes.items()}
    )
    fake("srun", f'echo "$@" > {tmp_path}/asked')
    (finding,) = node_checks.nodes(launch("train"))
    assert finding.line.startswith("partition gpu --qos=high -x n2 --nodelist n1: ")
    asked = (tmp_path / "asked").read_text()
    where = "--partition=gpu --qos=high -x n2 --nodelist n1 --gres=gpu:h800:1 /bin/sh "
    assert where in asked
    assert "--signal" not in asked


def test_a_node_must_have_the_packages_and_the_gpu_that_its_jobs_use(
    tmp_path: Path, project: Path, fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the scale of the paper, whose cells select flash-attn."""
    shutil.copy(ROOT / "config" / "paper.yaml", project / "config")
    attention = ConfigCheck([], ["flash_attention_2"])
    monkeypatch.setattr(launch_module, "check_configs", lambda experiment: attention)
    fake("srun", f"""printf '%s\\n' "$@" >> {tmp_path}/asked""")
    list(node_checks.nodes(Launch.read(Experiment.load("paper"))))
    words = (tmp_path / "asked").read_text().splitlines()
    tasks = [json.loads(word) for word in words if word.startswith('{"file"')]
    found = {tuple(task["packages"]): task["gpu"] for task in tasks}
    assert found == {(): False, ("torch", "vllm", "flash_attn", "verl"): True}


def test_a_slurm_that_does_not_answer_is_one_line_beside_the_other_findings(
    project: Path, fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(ROOT / "config" / "paper.yaml", project / "config")
    refused = ConfigCheck(["no flash-attn"])
    monkeypatch.setattr(launch_module, "check_configs", lambda experiment: refused)
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=1e13))
    fake("scontrol", "printf 'scontrol: error: first\nscontrol: error: second\n' >&2; exit 1")
    found = [finding for finding in doctor.findings(Experiment.load("paper")) if finding.kind]
    no_answer = r"^SLURM does not answer \(scontrol: error: first error: second\)$"
    require(found, [(ERROR, "no flash-attn"), (ERROR, no_answer)])


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
