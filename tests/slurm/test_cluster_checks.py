"""The checks against a cluster, with fake SLURM commands."""

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace

import pytest
import snakemake.cli  # noqa: F401  # looks for a shell, which the fake commands hide

from rspo.config.experiment import Experiment
from rspo.core.errors import InputError
from rspo.slurm import cluster_checks, doctor, node_checks
from rspo.slurm import launch as launch_module
from rspo.slurm.cluster import Slurm
from rspo.slurm.launch import Finding, Kind, Launch
from rspo.slurm.probe import Answer
from rspo.slurm.profile import DEFAULT
from rspo.training.verl.config_check import ConfigCheck
from tests.support import ROOT, slurm_world

SINFO = """\
[ "$1" = --all ] && echo 'hidden|1|infinite|900000|128|gpu:h800:8'
echo 'cpu|2|infinite|900000|128|(null)
gpu|2|1-00:00:00|900000|128|gpu:h800:8(S:0-1)
gpu2|2|4:00:00|900000|128|gpu:3090:8,gpu:1g.10gb:2'"""
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
    fake("scontrol", "echo JobId=12 Requeue=1 MinJobAge = 300")
    fake("scancel", f'echo "$@" >> {tmp_path}/cancelled')
    return fake


def launch(*rules: str) -> Launch:
    return Launch.read(Experiment.load("tiny"), frozenset(rules) or None)


def problems(found: Callable[[], list[Finding]]) -> list[str]:
    return [finding.line for finding in found() if finding.kind is Kind.ERROR]


@pytest.mark.parametrize(
    ("partition", "gres", "wrong"),
    [
        ("gpu,gpu2", "gpu:h800:8", None),
        ("gpu2,gpu", "gpu:3090:8", "runtime = 24h is longer than partition gpu2,gpu allows"),
        ("gpu,gpu3", "gpu:h800:8", "slurm_partition = 'gpu3' does not exist here"),
        ("hidden", "gpu:h800:8", None),
        ("gpu2", "gpu:1g.10gb:4", "gres = 'gpu:1g.10gb:4': the nodes of partition gpu2 have"),
        ("'a' if attempt == 1 else 'b'", "gpu:h800:8", None),
    ],
)
def test_partitions_and_types_of_gpus_are_found(
    project: Path, fake: Fake, partition: str, gres: str, wrong: str | None
) -> None:
    slurm_world.edit_profile(
        project, "set-resources", "train", slurm_partition=partition, gres=gres
    )
    found = problems(lambda: list(cluster_checks.requests(launch("train"))))
    start = f"slurm/config.yaml: set-resources.train.{wrong}"
    assert [line.startswith(start) for line in found] == [True] * (wrong is not None)


@pytest.mark.parametrize(
    ("rules", "used"),
    [
        ([], True),
        (["train", "sample"], False),
        (["train", "curves"], True),
    ],
)
def test_the_default_request_is_checked_if_a_job_uses_it(
    fake: Fake, rules: list[str], used: bool
) -> None:
    assert (DEFAULT in [request.rule for request in launch(*rules).used]) == used


REFUSED = "sbatch: error: Batch job submission failed: Invalid {0}"
REFUSE = f"echo '{REFUSED}' >&2; exit 1"


@pytest.mark.parametrize(
    ("message", "key"),
    [
        ("account or account/partition combination specified", "default-resources.slurm_account"),
        ("qos specification", "slurm-patient-qos"),
    ],
)
def test_one_line_names_the_key_if_slurm_refuses_every_class(
    fake: Fake, message: str, key: str
) -> None:
    fake("sbatch", REFUSE.format(message))
    (line,) = problems(lambda: list(cluster_checks.requests(launch())))
    assert line == f'slurm/config.yaml: SLURM accepts no job ("Invalid {message}"): set {key}'


def test_a_refusal_of_some_classes_is_one_line_each(fake: Fake) -> None:
    refuse = REFUSE.format("qos specification")
    fake("sbatch", f'case "$*" in *partition=gpu*) {refuse};; esac; echo 12')
    found = problems(lambda: list(cluster_checks.requests(launch())))
    rules = ("sample", "score", "train")
    assert len(found) == len(rules)
    for line, rule in zip(found, rules, strict=True):
        assert line.startswith(f"slurm/config.yaml: set-resources.{rule}: sbatch --partition=gpu ")
        assert line.endswith(REFUSED.format("qos specification"))


@pytest.mark.parametrize("printed", ["12;cluster", "Welcome\\n12", "12\\nBudget left: 500"])
def test_the_held_job_is_cancelled_whatever_else_sbatch_prints(
    tmp_path: Path, fake: Fake, printed: str
) -> None:
    fake("sbatch", f"printf '{printed}\\n'")
    assert Slurm().held_job()["Requeue"] == "1"
    assert (tmp_path / "cancelled").read_text() == "12\n"


def test_a_held_job_without_a_number_is_cancelled_by_its_name(tmp_path: Path, fake: Fake) -> None:
    fake("sbatch", f'echo "$@" > {tmp_path}/submitted; echo Submitted batch job 12')
    with pytest.raises(InputError, match="no job number in its output: Submitted batch job 12"):
        Slurm().held_job()
    name = (tmp_path / "cancelled").read_text().strip().removeprefix("--name=")
    assert f"--job-name={name} " in (tmp_path / "submitted").read_text()


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ("n7: task 0: Exited with exit code 1", Kind.ERROR),
        ("n7: task 0: Segmentation fault", Kind.ERROR),
        ("n7: task 0: Killed", Kind.INFO),
        ("n7: task 0: Exited with exit code 137", Kind.INFO),
        ("n7: task 0: Out Of Memory", Kind.INFO),
    ],
)
def test_only_a_command_that_fails_by_itself_stops_the_run(
    fake: Fake, error: str, kind: Kind
) -> None:
    fake("srun", f"echo 'srun: error: {error}' >&2; exit 1")
    (finding,) = node_checks.nodes(launch("train"))
    assert finding.kind is kind
    assert (": node n7: " in finding.line) == (kind is Kind.ERROR)


@pytest.mark.parametrize(
    ("printed", "reason"),
    [
        ("/bin/sh: 1: module: not found", "/bin/sh: 1: module: not found"),
        ("", "Exited with exit code 127"),
    ],
)
def test_a_failing_precommand_is_its_own_message_and_the_text_of_the_file(
    project: Path, fake: Fake, monkeypatch: pytest.MonkeyPatch, printed: str, reason: str
) -> None:
    monkeypatch.setenv("RSPO_HERE", "here")
    slurm_world.set_precommand(project, "module load $RSPO_HERE")
    fake(
        "srun", f"echo '{printed}\nsrun: error: n7: task 0: Exited with exit code 127' >&2; exit 1"
    )
    (finding,) = node_checks.nodes(launch("train"))
    assert finding.line == (
        f"partition gpu: node n7: {reason} (running slurm/config.yaml's precommand `module load "
        "$RSPO_HERE`)"
    )


@pytest.mark.parametrize(("printed", "kind"), [("", Kind.INFO), ("Welcome", Kind.ERROR)])
def test_a_check_that_slurm_lost_does_not_stop_the_run(
    fake: Fake, printed: str, kind: Kind
) -> None:
    fake("srun", f"echo {printed}")
    (finding,) = node_checks.nodes(launch("train"))
    assert finding.kind is kind


def test_each_line_names_the_node(fake: Fake) -> None:
    commands = {"srun --version": "not found", "scontrol ping": "not found"}
    for answer in (Answer("ok", "n7", {}), Answer("old", "n7", commands, packages={"torch": "x"})):
        fake("srun", f"echo '{json.dumps(asdict(answer))}'")
        found = list(node_checks.nodes(launch("train")))
        assert len(found) == 1 + 3 * bool(answer.commands)
        assert all(line.line.startswith("partition gpu: node n7 ") for line in found)


@pytest.mark.parametrize(
    ("gigabytes", "fraction", "line"),
    [
        (80, 0.06, None),
        (80, 0.04, None),
        (
            80,
            0.03,
            "has GPUs of 80 GB: xverify.training_gpu_memory = 0.03 leaves 2.4 GB to the judge, "
            "which needs at least 2.6 GB; set 0.04 or more",
        ),
        (141, 0.02, None),
        (0, 0.03, None),  # unknown
    ],
)
def test_too_little_gpu_memory_for_the_judge_is_reported(
    project: Path, fake: Fake, gigabytes: int, fraction: float, line: str | None
) -> None:
    """By hand: 1 GB of weights, 1.5 GB to compute with and 0.1 GB for one request."""
    shutil.copy(ROOT / "config" / "paper.yaml", project / "config")
    answer = Answer("ok", "n7", {}, gpu_bytes=gigabytes * 10**9)
    fake("srun", f"echo '{json.dumps(asdict(answer))}'")
    experiment = Experiment.load("paper", {"xverify": {"training_gpu_memory": fraction}})
    of_training = Launch.read(experiment, frozenset({"train"}), "apptainer")
    found = problems(lambda: list(node_checks.nodes(of_training)))
    assert found == ([f"partition gpu: node n7 {line}"] if line else [])


def test_the_probe_names_its_node(tmp_path: Path, fake: Fake) -> None:
    fake("srun", 'while [ "$1" != /bin/sh ]; do shift; done; SLURMD_NODENAME=n7 exec "$@"')
    found = [finding.line for finding in node_checks.nodes(launch("curves"))]
    assert [line.startswith("partition cpu: node n7 ") for line in found] == [True] * len(found)
    assert found


@pytest.mark.parametrize(("age", "lines"), [(60, 1), (120, 0)])
def test_ended_jobs_that_slurm_forgets_between_two_looks_are_reported(
    fake: Fake, age: int, lines: int
) -> None:
    fake("scontrol", f"echo MinJobAge = {age} sec")
    found = list(cluster_checks.job_history(launch("train")))
    assert [finding.kind for finding in found] == [Kind.WARNING] * lines
    assert all(f"after {age} s (MinJobAge), and Snakemake looks" in line.line for line in found)


def test_each_partition_that_cancels_preempted_jobs_is_reported(project: Path, fake: Fake) -> None:
    slurm_world.edit_profile(project, "set-resources", "train", slurm_partition="gpu,gpu2")
    fake(
        "scontrol",
        """case "$*" in
        "show config") echo "PreemptType = preempt/partition_prio"; echo "MinJobAge = 300 sec";;
        *) echo "PartitionName=gpu PreemptMode=OFF"; echo "PartitionName=gpu2 PreemptMode=CANCEL";;
        esac""",
    )
    (finding,) = cluster_checks.preemption(launch("train"))
    assert finding.line.startswith("SLURM cancels preempted jobs of partition gpu2 (Pre")
    assert "only when SLURM forgets them, after 300 s" in finding.line


def test_a_slurm_that_does_not_answer_is_one_line_beside_the_other_findings(
    project: Path, fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(ROOT / "config" / "paper.yaml", project / "config")
    refused = ConfigCheck(["no flash-attn"])
    monkeypatch.setattr(launch_module, "check_configs", lambda experiment: refused)
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=1e13))
    slurm_world.edit_profile(project, "set-resources", "train", runtime=12)
    fake("sinfo", "printf 'sinfo: error: first\nsinfo: error: second\n' >&2; exit 1")
    found = doctor.findings(Experiment.load("paper"))
    assert [(finding.kind, finding.line) for finding in found if finding.kind is Kind.ERROR] == [
        (Kind.ERROR, "no flash-attn"),
        (Kind.ERROR, "SLURM does not answer (sinfo: error: first error: second)"),
    ]
    assert ["set-resources.train.runtime = 12m" in finding.line for finding in found] == [
        finding.kind is Kind.WARNING for finding in found
    ]
    assert not any("not installed" in finding.line for finding in found)
