"""The checks against a cluster, with fake SLURM commands; test_doctor.py has a real one."""

import json
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rspo.config.experiment import Experiment
from rspo.core.errors import InputError
from rspo.plan import memory
from rspo.slurm import cluster_checks, doctor, node_checks
from rspo.slurm import launch as launch_module
from rspo.slurm.cluster import Slurm, time_limit
from rspo.slurm.launch import ERROR, INFO, WARNING, Finding, Kind, Launch
from rspo.slurm.probe import Answer
from rspo.training.verl.config_check import ConfigCheck
from tests.support import ROOT, slurm_world

SINFO = """\
[ "$1" = --all ] && echo 'hidden|infinite|900000|128|gpu:h800:8'
echo 'cpu|infinite|900000|128|(null)
gpu|1-00:00:00|900000|128|gpu:h800:8(S:0-1)
gpu2|4:00:00|900000|128|gpu:3090:8,gpu:1g.10gb:2'"""
CONFIG = """case "$*" in "show config") echo "{0}";; *) echo "JobId=12 Requeue={1}
PartitionName=gpu PreemptMode=OFF
PartitionName=gpu2 PreemptMode=CANCEL";; esac"""
Fake = Callable[[str, str], None]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return slurm_world.make_project(tmp_path / "project", scoring_gpu=True)


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

    fake("sinfo", SINFO)
    fake("sbatch", "echo 12")
    fake("scontrol", CONFIG.format("MinJobAge = 300 sec", 1))
    fake("scancel", f'echo "$@" >> {tmp_path}/cancelled')
    return fake


def launch(*rules: str, **settings: Any) -> Launch:
    return Launch.read(Experiment.load("tiny", settings), frozenset(rules) or None)


def require(found: list[Finding], expected: list[tuple[Kind, str]]) -> None:
    """The kind of each finding, and a pattern of its line."""
    assert [finding.kind for finding in found] == [kind for kind, _ in expected], found
    for finding, (_, pattern) in zip(found, expected, strict=True):
        assert re.search(pattern, finding.line), finding.line


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, None),
        ({"slurm_partition": "'a' if attempt == 1 else 'b'"}, None),
        ({"slurm_partition": "gpu,gpu3"}, "slurm_partition = 'gpu3' .*allowed: cpu, gpu, gpu2, h"),
        ({"gres": "gpu:a100:8"}, "gres = 'gpu:a100:8': .* gpu have gpu:h800:8"),
        (
            {"slurm_partition": "gpu2,gpu", "gres": "gpu:3090:8"},
            "runtime = 24h is longer than partition gpu2,gpu allows; set 4h .each training then",
        ),
        ({"mem_mb": 2_000_000}, "mem_mb = 2000000: its nodes have 900000"),
        ({"cpus_per_task": 500}, "cpus_per_task = 500: its nodes have 128"),
    ],
)
def test_each_value_that_the_partition_cannot_fulfil_is_named_with_what_it_has(
    project: Path, fake: Fake, values: dict[str, Any], expected: str | None
) -> None:
    slurm_world.edit_profile(project, "set-resources", "train", **values)
    found = list(cluster_checks.requests(launch("train")))
    key = r"^slurm/config\.yaml: set-resources\.train\."
    require(found, [(ERROR, key + expected)] if expected else [])


@pytest.mark.parametrize("printed", ["Welcome\\n12", "Submitted batch job 12"])
def test_the_held_job_is_cancelled_whatever_sbatch_prints(
    tmp_path: Path, fake: Fake, printed: str
) -> None:
    fake("sbatch", f'echo "$@" > {tmp_path}/submitted; printf "{printed}\\n"')
    if printed.startswith("Welcome"):
        assert Slurm().held_job()["Requeue"] == "1"
    else:
        with pytest.raises(InputError, match="no job number in its output: Submitted batch job"):
            Slurm().held_job()
    name = (tmp_path / "cancelled").read_text().strip().removeprefix("--name=")
    assert f"--job-name={name} " in (tmp_path / "submitted").read_text()


@pytest.mark.parametrize(
    ("settings", "requeue", "expected"),
    [
        ("MinJobAge = 120 sec", 1, None),
        ("MinJobAge = 60 sec", 1, r"after 60 s \(MinJobAge\), and Snakemake looks"),
        (
            "AccountingStorageType = accounting_storage/slurmdbd",
            1,
            "slurm-patient-status-command = squeue .*: set sacct",
        ),
        ("PreemptType = preempt/qos\nPreemptMode = CANCEL", 1, "partition gpu2? .*300 s"),
        ("PreemptType = preempt/partition_prio", 1, r"preempted jobs of partition gpu2 \(Preempt"),
        ("PreemptType = preempt/none", 0, r"set-resources\.train: .*slurm-patient-requeue: false"),
    ],
)
def test_settings_of_the_cluster_that_cost_time_are_named_with_what_to_do(
    project: Path, fake: Fake, settings: str, requeue: int, expected: str | None
) -> None:
    slurm_world.edit_profile(project, "set-resources", "train", slurm_partition="gpu,gpu2")
    fake("scontrol", CONFIG.format(settings, requeue))
    start = launch("train")
    checks = (cluster_checks.requests, cluster_checks.preemption, cluster_checks.job_history)
    found = [finding for check in checks for finding in check(start)]
    of_each = 2 if "preempt/qos" in settings else 1  # of the two partitions
    require(found, [(WARNING, expected)] * of_each if expected else [])


# --- the check on a node --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("echo 'srun: error: n7: task 0: Exited with exit code 1' >&2; exit 1", ERROR),
        ("echo 'srun: error: n7: task 0: Exited with exit code 137' >&2; exit 1", INFO),
        ("echo 'srun: error: Unable to allocate resources: Requested nodes are busy' >&2", INFO),
    ],
)
def test_only_a_command_that_fails_by_itself_stops_the_run(
    fake: Fake, script: str, expected: Kind
) -> None:
    """Jobs wait for nodes that are busy or down; a cluster may forbid `srun`."""
    fake("srun", script)
    (finding,) = node_checks.nodes(launch("train"))
    assert finding.kind is expected


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({"versions": {"torch": "2"}, "gpu": "H800 80 GB"}, (INFO, r" \(H800 80 GB, torch 2\)$")),
        ({"file": "unlocked"}, (ERROR, "ignores a lock .*/project.*-o flock")),
        ({"packages": {"verl": "x"}}, (ERROR, r"cannot import verl \(x\).*make setup-gpu")),
        (
            {"no_gpu": "too old", "cuda": "13.0", "driver": "550.54"},
            (ERROR, "would not use: too old .*CUDA: 13.0, .*driver: 550.54.*580 or newer"),
        ),
        ({"no_compiler": "a C compiler"}, (ERROR, "lacks a C compiler.*precommand")),
    ],
)
def test_what_a_node_lacks_is_one_line_with_its_name(
    fake: Fake, answer: dict[str, Any], expected: tuple[Kind, str]
) -> None:
    answered(fake, answer)
    kind, pattern = expected
    require(
        list(node_checks.nodes(launch("train"))), [(kind, f"^partition gpu: node n7 .*{pattern}")]
    )


def answered(fake: Fake, answer: dict[str, Any]) -> None:
    """Let the node give this answer, between lines of the cluster's scripts."""
    given = {"file": "ok", "host": "n7", "commands": {}} | answer
    fake("srun", f"echo Welcome; echo '{json.dumps(asdict(Answer(**given)))}'; echo Bye")


@pytest.mark.parametrize(
    ("answer", "xverify", "expected"),
    [
        ({"judge": ["my/judge"]}, {"model": "my/judge"}, None),
        ({"judge": ["a", "b"]}, {"model": "my/judge"}, "serves a, b, not xverify.model = my/judge"),
        ({"no_judge": "404"}, {}, r"no list of models from xverify\.url = .* \(404\)"),
    ],
)
def test_a_judge_that_does_not_work_for_the_node_is_reported(
    project: Path, fake: Fake, answer: dict[str, Any], xverify: dict[str, Any], expected: str | None
) -> None:
    shutil.copy(ROOT / "config" / "paper.yaml", project / "config")
    answered(fake, answer)
    settings = {"xverify": {"url": "http://n1:8000"} | xverify}
    experiment = Experiment.load("paper", settings)
    of_training = Launch.read(experiment, frozenset({"train"}), "apptainer")
    found = [one for one in node_checks.nodes(of_training) if one.kind is not INFO]
    require(found, [(ERROR, f"^partition gpu: node n7 .*{expected}")] if expected else [])


def test_the_checked_node_is_one_that_the_jobs_may_get(
    tmp_path: Path, project: Path, fake: Fake
) -> None:
    """Options that decide on nodes apply; the signal and seven of the eight GPUs do not."""
    slurm_world.edit_profile(
        project,
        "set-resources",
        "train",
        qos="high",
        slurm_extra="'--signal=USR1@600 -x n2 --nodelist n1'",
    )
    fake("srun", f'echo "$@" > {tmp_path}/asked')
    (finding,) = node_checks.nodes(launch("train"))
    assert finding.line.startswith("partition gpu --qos=high -x n2 --nodelist n1: ")
    asked = (tmp_path / "asked").read_text()
    where = "--partition=gpu --qos=high -x n2 --nodelist n1 --gres=gpu:h800:1 /bin/sh "
    assert where in asked
    assert "--signal" not in asked


def test_a_slurm_that_does_not_answer_is_one_line_beside_the_other_findings(
    project: Path, fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(ROOT / "config" / "paper.yaml", project / "config")
    refused = ConfigCheck(["no flash-attn"])
    monkeypatch.setattr(launch_module, "check_configs", lambda experiment: refused)
    monkeypatch.setattr(memory, "estimates", lambda experiment: {})
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=1e13))
    fake("sinfo", "printf 'sinfo: error: first\nsinfo: error: second\n' >&2; exit 1")
    found = [finding for finding in doctor.findings(Experiment.load("paper")) if finding.kind]
    no_answer = r"^SLURM does not answer \(sinfo: error: first error: second\)$"
    require(found, [(ERROR, "no flash-attn"), (ERROR, no_answer)])


@pytest.mark.parametrize(
    ("text", "minutes"),
    [("2-04:00:00", 3120), ("1:30", 1.5), ("UNLIMITED", None)],
)
def test_time_limits_of_slurm_are_parsed(text: str, minutes: float | None) -> None:
    assert time_limit(text) == minutes
